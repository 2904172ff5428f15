"""Where a Service's webhook listens: the addresses that its EndpointSlices name as ready, or its external name.

kube-apiserver goes to the cluster IP, and leaves it to kube-proxy to find an endpoint; nobody needs one here. Used by
``caller.py``.
"""

from mooring.api.core_v1 import Service
from mooring.api.discovery_v1 import EndpointSlice
from mooring.apiserver.extension.webhooks.caller import Addresses
from mooring.apiserver.extension.webhooks.failures import WebhookError
from mooring.apiserver.registry.objects import Objects

_SERVICE_LABEL = "kubernetes.io/service-name"


def addresses_in(objects: Objects) -> Addresses:
    """Looks addresses up in what the server stores."""

    async def addresses(namespace: str, name: str, port: int) -> list[tuple[str, int]]:
        service = await objects.get(Service, name, namespace)
        if service is None:
            raise WebhookError(f'service "{name}" not found')
        if service.spec.type == "ExternalName":
            return [(service.spec.external_name, port)]
        port_name = next((each.name for each in service.spec.ports if each.port == port), None)
        if port_name is None:
            raise WebhookError(f'no service port {port} found for service "{name}"')
        found: list[tuple[str, int]] = []
        for each in await objects.list(EndpointSlice, namespace):
            if each.metadata.labels.get(_SERVICE_LABEL) != name:
                continue
            target = next((known.port for known in each.ports if (known.name or "") == port_name and known.port), None)
            if target is not None:
                ready = [endpoint for endpoint in each.endpoints if endpoint.conditions.ready is not False]
                found += [(address, target) for endpoint in ready for address in endpoint.addresses]
        return found

    return addresses
