"""Mirror user-written Endpoints of Services without a selector into EndpointSlices, which proxies read.

One slice per subset and address family. Not mirrored: Endpoints that are labelled so, leader-election records, and
those of Services with a selector, whose slices ``endpoint_slice.py`` writes.
"""

import ipaddress
from collections.abc import Iterator
from contextlib import suppress

from msgspec import structs

from mooring.api.core_v1 import EndpointAddress, Endpoints, EndpointSubset, Service
from mooring.api.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from mooring.client import Client, Informer
from mooring.controllers.controller import Context, Controller
from mooring.controllers.endpoint_slice import new_slice, service_keys

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time"}
)
MOST = 1000


class EndpointSliceMirroring(Controller):
    """Reconcile Endpoints, by key."""

    name = "endpointslicemirroring"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        informers = context.informers
        self._endpoints: Informer[Endpoints] = informers.of(Endpoints)
        self._services: Informer[Service] = informers.of(Service)
        self._slices: Informer[EndpointSlice] = informers.of(EndpointSlice)
        self._by_service = self._slices.index("mirrored", lambda found: service_keys(found, MANAGER))
        self.follow(self._endpoints, deleted=True)
        self.follow(self._services, deleted=True)  # a Service has the name of its Endpoints
        self.follow(self._slices, self._slice_changed, deleted=True)

    def _slice_changed(self, found: EndpointSlice) -> None:
        for key in service_keys(found, MANAGER):
            self.queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        endpoints, service = self._endpoints.by_key(key), self._services.by_key(key)
        wanted: list[EndpointSlice] = []
        if endpoints is not None and service is not None and _is_mirrored(endpoints, service):
            wanted = [*_mirrored(self.client, endpoints)]
        left = list(self._by_service.get(key))
        for new in wanted:
            present = next((each for each in left if _is_like(each, new)), None)
            if present is None:
                await self.client.create(new)
                continue
            left.remove(present)
            fresh = new.metadata
            metadata = structs.replace(present.metadata, labels=fresh.labels, annotations=fresh.annotations)
            changed = structs.replace(present, metadata=metadata, endpoints=new.endpoints)
            if changed != present:
                await self.client.update(changed)
        for found in left:
            await self.delete(found)
        return None


def _is_mirrored(endpoints: Endpoints, service: Service) -> bool:
    meta = endpoints.metadata
    going = meta.deletion_timestamp is not None or service.metadata.deletion_timestamp is not None
    own = meta.labels.get(SKIP) == "true" or LEADER in meta.annotations
    return not (going or own or service.spec.selector)


def _is_like(present: EndpointSlice, new: EndpointSlice) -> bool:
    return (present.address_type, list(present.ports)) == (new.address_type, list(new.ports))


def _mirrored(client: Client, endpoints: Endpoints) -> Iterator[EndpointSlice]:
    annotations = endpoints.metadata.annotations.items()
    for subset in endpoints.subsets:
        ports = [
            EndpointPort(
                name=port.name, protocol=port.protocol or "TCP", port=port.port, app_protocol=port.app_protocol
            )
            for port in subset.ports
        ]
        for family, found in _by_family(subset).items():
            made = new_slice(client, endpoints, MANAGER, endpoints=found[:MOST], ports=ports, family=family)
            made.metadata.annotations = {name: text for name, text in annotations if name not in _NOT_COPIED}
            yield made


def _by_family(subset: EndpointSubset) -> dict[str, list[Endpoint]]:
    found: dict[str, list[Endpoint]] = {}
    for addresses, ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
        for address in addresses:
            with suppress(ValueError):  # invalid addresses are not mirrored
                family = f"IPv{ipaddress.ip_address(address.ip).version}"
                found.setdefault(family, []).append(_endpoint(address, ready=ready))
    return found


def _endpoint(address: EndpointAddress, *, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=[address.ip],
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        node_name=address.node_name,
        target_ref=address.target_ref,
    )
