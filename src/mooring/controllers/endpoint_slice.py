"""Write the EndpointSlices and Endpoints of Services from their pods, and mirror Endpoints that a user wrote.

A slice has up to 100 endpoints with one list of ports; pods that give a named port another number are in other slices.
An endpoint stays in its slice, so that a change writes few slices. A Service waits while a slice that was created for
it is not in the cache yet, or it would get another one with the same endpoints.
"""

import ipaddress
from collections.abc import Iterator
from contextlib import suppress

from msgspec import structs

from mooring.api import core_v1, errors
from mooring.api.core_v1 import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    Node,
    ObjectReference,
    Pod,
    Service,
    ServicePort,
)
from mooring.api.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.states import has_ended, is_ready
from mooring.client import Client, Informer
from mooring.controllers.controller import Context, Controller, index_by_namespace
from mooring.controllers.workloads.ownership import Expectations, build_controller_reference
from mooring.controllers.workloads.pod_control import is_namespace_terminating
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS

SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"
LARGEST = 100

Ports = tuple[tuple[str, str, int, str | None], ...]


class ServiceBasedController(Controller):
    """The base of controllers that reconcile a Service when it or a pod that it selects changes."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services: Informer[Service] = context.informers.of(Service)
        self._by_namespace = index_by_namespace(self._services)
        pods: Informer[Pod] = context.informers.of(Pod)
        self._pods_by_namespace = index_by_namespace(pods)
        self.follow(self._services, deleted=True)
        pods.add_handler(
            added=self._enqueue_services, updated=self._enqueue_services_of_both, deleted=self._enqueue_services
        )

    def _enqueue_services(self, pod: Pod) -> None:
        for service in self._by_namespace.get(pod.metadata.namespace):
            if is_pod_selected(service, pod):
                self.enqueue(service)

    def _enqueue_services_of_both(self, old: Pod, new: Pod) -> None:
        self._enqueue_services(new)
        if old.metadata.labels != new.metadata.labels:
            self._enqueue_services(old)


class EndpointSliceController(ServiceBasedController):
    """The controller that writes the EndpointSlices of Services; reconciles Services by key."""

    name = "endpointslice"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._slices: Informer[EndpointSlice] = context.informers.of(EndpointSlice)
        self._by_service = self._slices.index("service", lambda found: service_keys(found, MANAGER))
        self._slices.add_handler(
            added=self._enqueue_waiting_service,
            updated=lambda _, new: self._enqueue_service_of_slice(new),
            deleted=self._enqueue_service_of_slice,
        )
        self._expectations = Expectations(self.clock)
        self._waiting: set[str] = set()
        """Services that changed while a new slice was not in the cache yet."""

    def _enqueue_waiting_service(self, found: EndpointSlice) -> None:
        for key in service_keys(found, MANAGER):
            if key in self._waiting:
                self.queue.add(key)

    def _enqueue_service_of_slice(self, found: EndpointSlice) -> None:
        for key in service_keys(found, MANAGER):
            self.queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        if not self._expectations.is_settled(key):
            self._waiting.add(key)
            return LOOK_AGAIN_SECONDS
        self._waiting.discard(key)
        service = self._services.by_key(key)
        present = self._by_service.get(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            for found in present:
                await self.delete(found)
            return None
        if not service.spec.selector or service.spec.type == "ExternalName":
            return None
        by_ports: dict[Ports, dict[str, Endpoint]] = {}
        for pod in self._pods_by_namespace.get(service.metadata.namespace):
            if pod.status.pod_ip and not has_ended(pod) and is_pod_selected(service, pod):
                by_ports.setdefault(resolve_ports(service, pod), {})[pod.metadata.uid] = self._build_endpoint(
                    service, pod
                )
        if not by_ports:
            by_ports[resolve_ports(service, None)] = {}  # an empty slice: no endpoints
        slices = {found.metadata.name: found for found in present}
        for ports, endpoints in by_ports.items():
            await self._write_slices(key, service, ports, endpoints, slices)
        for found in slices.values():
            await self.delete(found)
        return None

    async def _write_slices(
        self, key: str, service: Service, ports: Ports, endpoints: dict[str, Endpoint], slices: dict[str, EndpointSlice]
    ) -> None:
        """Write a Service's endpoints with the given ports: update slices that have these ports, and create others.

        Updated slices are removed from `slices`; the caller deletes those that remain.
        """
        wanted = [EndpointPort(name=name, protocol=protocol, port=number, app_protocol=app)
                  for name, protocol, number, app in ports]  # fmt: skip
        left = dict(endpoints)
        same_ports = [found for found in slices.values() if list(found.ports) == wanted]
        plan: list[tuple[EndpointSlice | None, list[Endpoint]]] = []
        for found in same_ports:
            uids = [entry.target_ref.uid for entry in found.endpoints if entry.target_ref is not None]
            kept = [left.pop(uid) for uid in uids if uid in left]
            if kept or (not endpoints and not plan):
                plan.append((found, kept))
                del slices[found.metadata.name]
        for _, kept in plan:
            while left and len(kept) < LARGEST:
                kept.append(left.pop(next(iter(left))))
        while left or not plan:
            plan.append((None, [left.pop(uid) for uid in list(left)[:LARGEST]]))
        for present, kept in plan:
            if present is None:
                created = await self.client.create(
                    build_slice(self.client, service, MANAGER, endpoints=kept, ports=wanted, family="IPv4")
                )
                self._expectations.record_write(key, self._slices, created)
            elif list(present.endpoints) != kept:
                await self.client.update(structs.replace(present, endpoints=kept))

    def _build_endpoint(self, service: Service, pod: Pod) -> Endpoint:
        serving = is_ready(pod)
        terminating = pod.metadata.deletion_timestamp is not None
        node = self._nodes.get(pod.spec.node_name)
        ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
        return Endpoint(
            addresses=[pod.status.pod_ip],
            conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
            hostname=pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else None,
            target_ref=ObjectReference(
                kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
            ),
            node_name=pod.spec.node_name or None,
            zone=node.metadata.labels.get(ZONE) if node is not None else None,
        )


def service_keys(found: EndpointSlice, manager: str) -> list[str]:
    """Return the key of the Service of a slice, as a list for an index; empty if `manager` does not write the slice."""
    labels = found.metadata.labels
    if labels.get(MANAGED_BY) != manager or SERVICE_NAME not in labels:
        return []
    return [f"{found.metadata.namespace}/{labels[SERVICE_NAME]}"]


def is_pod_selected(service: Service, pod: Pod) -> bool:
    """Return whether a Service has a selector that matches a pod."""
    selector, labels = service.spec.selector, pod.metadata.labels
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def resolve_ports(service: Service, pod: Pod | None) -> Ports:
    """Return a Service's ports with the target numbers in a pod; leave out named target ports that the pod lacks."""
    return tuple(
        (port.name, port.protocol or "TCP", number, port.app_protocol)
        for port in service.spec.ports
        for number in _resolve_target_port(port, pod)
    )


def _resolve_target_port(port: ServicePort, pod: Pod | None) -> Iterator[int]:
    target = port.target_port or port.port
    if isinstance(target, int):
        yield target
        return
    for container in pod.spec.containers if pod is not None else ():
        for found in container.ports:
            if found.name == target and (found.protocol or "TCP") == (port.protocol or "TCP"):
                yield found.container_port
                return


def build_slice(
    client: Client, owner: Resource, manager: str, *, endpoints: list[Endpoint], ports: list[EndpointPort], family: str
) -> EndpointSlice:
    """Return a new slice for a Service, controlled by `owner`: the Service itself, or its Endpoints."""
    meta = owner.metadata
    made = ObjectMeta(generate_name=f"{meta.name}-", namespace=meta.namespace)
    made.labels = meta.labels | {SERVICE_NAME: meta.name, MANAGED_BY: manager}
    made.owner_references = [build_controller_reference(client, owner)]
    return EndpointSlice(metadata=made, address_type=family, endpoints=endpoints, ports=ports)


MIRROR_MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time"}
)
_MAX_ADDRESSES = 1000


class EndpointSliceMirroringController(Controller):
    """Mirror Endpoints of Services without a selector: one slice for each subset and address family.

    Leader-election records and Endpoints with the label `skip-mirror` are not mirrored.
    """

    name = "endpointslicemirroring"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._endpoints: Informer[Endpoints] = context.informers.of(Endpoints)
        self._services: Informer[Service] = context.informers.of(Service)
        self._slices: Informer[EndpointSlice] = context.informers.of(EndpointSlice)
        self._by_service = self._slices.index("mirrored", lambda found: service_keys(found, MIRROR_MANAGER))
        self.follow(self._endpoints, deleted=True)
        self.follow(self._services, deleted=True)  # a Service has the name of its Endpoints
        self.follow(self._slices, self._enqueue_service_of_slice, deleted=True)

    def _enqueue_service_of_slice(self, found: EndpointSlice) -> None:
        for key in service_keys(found, MIRROR_MANAGER):
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        endpoints, service = self._endpoints.by_key(key), self._services.by_key(key)
        wanted: list[EndpointSlice] = []
        if endpoints is not None and service is not None and _is_mirrored(endpoints, service):
            wanted = [*_build_mirror_slices(self.client, endpoints)]
        left = list(self._by_service.get(key))
        for new in wanted:
            shape = new.address_type, list(new.ports)
            present = next((each for each in left if (each.address_type, list(each.ports)) == shape), None)
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


def _is_mirrored(endpoints: Endpoints, service: Service) -> bool:
    meta = endpoints.metadata
    going = meta.deletion_timestamp is not None or service.metadata.deletion_timestamp is not None
    own = meta.labels.get(SKIP) == "true" or LEADER in meta.annotations
    return not (going or own or service.spec.selector)


def _build_mirror_slices(client: Client, endpoints: Endpoints) -> Iterator[EndpointSlice]:
    annotations = endpoints.metadata.annotations.items()
    for subset in endpoints.subsets:
        ports = [
            EndpointPort(
                name=port.name, protocol=port.protocol or "TCP", port=port.port, app_protocol=port.app_protocol
            )
            for port in subset.ports
        ]
        for family, found in _group_by_ip_family(subset).items():
            made = build_slice(
                client, endpoints, MIRROR_MANAGER, endpoints=found[:_MAX_ADDRESSES], ports=ports, family=family
            )
            made.metadata.annotations = {name: text for name, text in annotations if name not in _NOT_COPIED}
            yield made


def _group_by_ip_family(subset: EndpointSubset) -> dict[str, list[Endpoint]]:
    found: dict[str, list[Endpoint]] = {}
    for addresses, ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
        for address in addresses:
            with suppress(ValueError):  # invalid addresses are not mirrored
                family = f"IPv{ipaddress.ip_address(address.ip).version}"
                endpoint = Endpoint(
                    addresses=[address.ip],
                    conditions=EndpointConditions(ready=ready),
                    hostname=address.hostname or None,
                    node_name=address.node_name,
                    target_ref=address.target_ref,
                )
                found.setdefault(family, []).append(endpoint)
    return found


ENDPOINTS_MANAGED_BY, ENDPOINTS_MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
HEADLESS = "service.kubernetes.io/headless"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"


class EndpointsController(ServiceBasedController):
    """The controller that writes the Endpoints of Services, which have at most 1,000 addresses; reconciles Services."""

    name = "endpoints"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._endpoints: Informer[Endpoints] = context.informers.of(Endpoints)
        self._endpoints.add_handler(updated=lambda _, new: self._enqueue_managed(new), deleted=self._enqueue_managed)

    def _enqueue_managed(self, found: Endpoints) -> None:
        if found.metadata.labels.get(ENDPOINTS_MANAGED_BY) == ENDPOINTS_MANAGER:
            self.enqueue(found)

    async def reconcile(self, key: str) -> None:
        service, found = self._services.by_key(key), self._endpoints.by_key(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            if found is not None and found.metadata.labels.get(ENDPOINTS_MANAGED_BY) == ENDPOINTS_MANAGER:
                await self.delete(found)
            return
        if not service.spec.selector or service.spec.type == "ExternalName":
            return
        subsets, cut_off = self._build_subsets(service)
        labels = service.metadata.labels | {ENDPOINTS_MANAGED_BY: ENDPOINTS_MANAGER}
        if service.spec.cluster_ip in ("", "None"):
            labels |= {HEADLESS: ""}
        if found is None:
            meta = ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace, labels=labels)
            meta.annotations = {OVER_CAPACITY: "truncated"} if cut_off else {}
            try:
                await self.client.create(Endpoints(metadata=meta, subsets=subsets))
            except errors.Forbidden as error:
                if not is_namespace_terminating(error):
                    raise
            return
        annotations = {name: text for name, text in found.metadata.annotations.items() if name != OVER_CAPACITY}
        annotations |= {OVER_CAPACITY: "truncated"} if cut_off else {}
        wanted = structs.replace(found.metadata, labels=labels, annotations=annotations)
        if subsets != list(found.subsets) or wanted != found.metadata:
            await self.client.update(structs.replace(found, metadata=wanted, subsets=subsets))

    def _build_subsets(self, service: Service) -> tuple[list[EndpointSubset], bool]:
        by_ports: dict[Ports, EndpointSubset] = {}
        pods = [
            pod
            for pod in self._pods_by_namespace.get(service.metadata.namespace)
            if _belongs_in_endpoints(service, pod)
        ]
        pods.sort(key=lambda pod: pod.metadata.name)
        for pod in pods[:_MAX_ADDRESSES]:
            ports = resolve_ports(service, pod)
            if service.spec.ports and not ports:
                continue
            entries = [core_v1.EndpointPort(name=a, protocol=b, port=c, app_protocol=d) for a, b, c, d in ports]
            subset = by_ports.setdefault(ports, EndpointSubset(ports=entries))
            ready = service.spec.publish_not_ready_addresses or is_ready(pod)
            (subset.addresses if ready else subset.not_ready_addresses).append(_build_endpoint_address(service, pod))
        return [by_ports[ports] for ports in sorted(by_ports, key=str)], len(pods) > _MAX_ADDRESSES


def _belongs_in_endpoints(service: Service, pod: Pod) -> bool:
    going = pod.metadata.deletion_timestamp is not None and not service.spec.publish_not_ready_addresses
    return bool(pod.status.pod_ip) and not has_ended(pod) and not going and is_pod_selected(service, pod)


def _build_endpoint_address(service: Service, pod: Pod) -> EndpointAddress:
    meta = pod.metadata
    return EndpointAddress(
        ip=pod.status.pod_ip,
        hostname=pod.spec.hostname if pod.spec.subdomain == service.metadata.name else "",
        node_name=pod.spec.node_name or None,
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
    )
