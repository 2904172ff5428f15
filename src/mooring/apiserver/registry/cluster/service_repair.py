"""Repair the allocation of addresses and node ports, which a crashed server may have left inconsistent.

Addresses and ports without a Service are released; missing IPAddresses of Services are created. `prepare` creates the
ServiceCIDR of a new cluster and repairs once; `run` repairs every three minutes. If several servers share a store,
addresses younger than a minute are not released, because another server may be about to use them.
"""

from datetime import timedelta
from ipaddress import ip_address

from mooring.api import errors, times
from mooring.api.core_v1 import Service
from mooring.api.meta_v1 import Condition, ObjectMeta
from mooring.api.networking_v1 import IPAddress, ServiceCIDR, ServiceCIDRSpec, ServiceCIDRStatus
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.services.addresses import MANAGED_BY, MANAGER, TakenError, parent_ref_of
from mooring.apiserver.registry.services.allocation import ServiceAllocation, addresses_of, ports_of
from mooring.apiserver.service_network import ServiceNetwork
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError

log = logs.get(__name__)
NAME = "kubernetes"
INTERVAL_SECONDS = 180.0
_GRACE = timedelta(seconds=60)


class Repair:
    """Makes the allocated cluster IPs and node ports match the Services, after a server has crashed."""

    def __init__(
        self,
        calls: LoopbackClient,
        allocation: ServiceAllocation,
        clock: Clock,
        network: ServiceNetwork,
        *,
        is_shared: bool,
    ) -> None:
        self._calls = calls
        self._allocation = allocation
        self._clock = clock
        self._network = network
        self._is_shared = is_shared
        self._idle_ports: set[int] = set()
        """Allocated ports that no Service used at the last repair."""

    async def prepare(self) -> None:
        """Create the ServiceCIDR of a new cluster, then repair once."""
        await self._ensure_networks()
        await self.repair(at_start=not self._is_shared)

    async def run(self) -> None:
        """Repair every three minutes, until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_SECONDS)
            try:
                await self.repair()
            except (errors.StatusError, StoreError) as error:
                log.warning("The addresses of Services cannot be checked", extra={"fields": {"why": str(error)}})

    async def repair(self, *, at_start: bool = False) -> None:
        """Allocate what Services use, and release what none uses.

        Recent allocations are kept, since their Service may not be written yet; with `at_start` (no other server runs)
        they are released too.
        """
        services = await self._calls.list(Service)
        await self._repair_addresses(services, at_start=at_start)
        await self._repair_ports(services, at_start=at_start)

    async def _repair_addresses(self, services: list[Service], *, at_start: bool) -> None:
        taken = {found.metadata.name: found for found in await self._calls.list(IPAddress)}
        held: dict[str, Service] = {}
        for service in services:
            for text in addresses_of(service):
                address = str(ip_address(text))
                if address in held:
                    other = held[address].metadata
                    log.warning(
                        "Two Services have the same cluster IP: delete one of them",
                        extra={"fields": {"address": address, "services": [_name(service.metadata), _name(other)]}},
                    )
                    continue
                held[address] = service
                found = taken.get(address)
                if found is not None and found.spec.parent_ref != parent_ref_of(service):
                    await self._calls.delete(found)
                    found = None
                if found is None:
                    await self._allocate_address(address, service)
        recent = times.to_seconds(self._clock.now() - _GRACE)
        for address, found in taken.items():
            is_own = found.metadata.labels.get(MANAGED_BY) == MANAGER
            is_old = at_start or (found.metadata.creation_timestamp or "") < recent
            if address not in held and is_own and is_old:
                log.info("An address of no Service is released", extra={"fields": {"address": address}})
                await self._calls.delete(found)

    async def _allocate_address(self, address: str, service: Service) -> None:
        try:
            await self._allocation.addresses.take(address, service, dry_run=False)
        except TakenError as error:
            fields = {"address": address, "service": _name(service.metadata), "why": str(error)}
            log.warning("A Service has an address that it cannot have", extra={"fields": fields})

    async def _repair_ports(self, services: list[Service], *, at_start: bool) -> None:
        used = {port for service in services for port in ports_of(service)}
        idle = await self._allocation.ports.current() - used
        kept = set() if at_start else idle - self._idle_ports
        self._idle_ports = idle
        await self._allocation.ports.replace(used | kept)

    async def _ensure_networks(self) -> None:
        """Create the ServiceCIDR that the flags name, or add a second IP family to it; never change networks."""
        wanted = list(self._network.cluster_ips)
        found = await self._calls.get(ServiceCIDR, NAME)
        if found is None:
            await self._create_network(wanted)
        elif found.spec.cidrs == wanted[:1] and len(wanted) == 2:
            found.spec.cidrs = wanted
            await self._calls.update(found)
        elif found.spec.cidrs != wanted:
            fields = {"flag": wanted, "stored": found.spec.cidrs}
            log.warning("--service-cluster-ip-range is not what this cluster began with", extra={"fields": fields})

    async def _create_network(self, cidrs: list[str]) -> None:
        ready = Condition(
            type="Ready",
            status="True",
            last_transition_time=times.to_seconds(self._clock.now()),
            message="Kubernetes default Service CIDR is ready",
        )
        made = ServiceCIDR(metadata=ObjectMeta(name=NAME), spec=ServiceCIDRSpec(cidrs=cidrs))
        try:
            await self._calls.create(made)
        except errors.AlreadyExists:
            return
        found = await self._calls.get(ServiceCIDR, NAME)
        if found is not None:
            found.status = ServiceCIDRStatus(conditions=[ready])
            await self._calls.update(found, "status")


def _name(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
