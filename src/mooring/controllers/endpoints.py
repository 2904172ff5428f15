"""Write the Endpoints of Services, the predecessor of EndpointSlices: one object with at most 1,000 addresses."""

from msgspec import structs

from mooring.api import errors
from mooring.api.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset, ObjectReference, Pod, Service
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.states import has_ended, is_ready
from mooring.client import Informer
from mooring.controllers.controller import Context
from mooring.controllers.endpoint_slice import Ports, ServiceController, ports_of, selects
from mooring.controllers.workloads.pod_control import is_namespace_terminating

MANAGED_BY, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
HEADLESS = "service.kubernetes.io/headless"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MOST = 1000


class ServiceEndpoints(ServiceController):
    """The controller that writes the Endpoints of Services; reconciles Services by key."""

    name = "endpoints"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._endpoints: Informer[Endpoints] = context.informers.of(Endpoints)
        self._endpoints.add_handler(updated=lambda _, new: self._enqueue_managed(new), deleted=self._enqueue_managed)

    def _enqueue_managed(self, found: Endpoints) -> None:
        if found.metadata.labels.get(MANAGED_BY) == MANAGER:
            self.enqueue(found)

    async def reconcile(self, key: str) -> None:
        service, found = self._services.by_key(key), self._endpoints.by_key(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            if found is not None and found.metadata.labels.get(MANAGED_BY) == MANAGER:
                await self.delete(found)
            return
        if not service.spec.selector or service.spec.type == "ExternalName":
            return
        subsets, cut_off = self._subsets(service)
        labels = service.metadata.labels | {MANAGED_BY: MANAGER}
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

    def _subsets(self, service: Service) -> tuple[list[EndpointSubset], bool]:
        by_ports: dict[Ports, EndpointSubset] = {}
        pods = [pod for pod in self._pods_by_namespace.get(service.metadata.namespace) if _counts(service, pod)]
        pods.sort(key=lambda pod: pod.metadata.name)
        for pod in pods[:MOST]:
            ports = ports_of(service, pod)
            if service.spec.ports and not ports:
                continue
            entries = [EndpointPort(name=a, protocol=b, port=c, app_protocol=d) for a, b, c, d in ports]
            subset = by_ports.setdefault(ports, EndpointSubset(ports=entries))
            ready = service.spec.publish_not_ready_addresses or is_ready(pod)
            (subset.addresses if ready else subset.not_ready_addresses).append(_address(service, pod))
        return [by_ports[ports] for ports in sorted(by_ports, key=str)], len(pods) > MOST


def _counts(service: Service, pod: Pod) -> bool:
    going = pod.metadata.deletion_timestamp is not None and not service.spec.publish_not_ready_addresses
    return bool(pod.status.pod_ip) and not has_ended(pod) and not going and selects(service, pod)


def _address(service: Service, pod: Pod) -> EndpointAddress:
    meta = pod.metadata
    return EndpointAddress(
        ip=pod.status.pod_ip,
        hostname=pod.spec.hostname if pod.spec.subdomain == service.metadata.name else "",
        node_name=pod.spec.node_name or None,
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
    )
