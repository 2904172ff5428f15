"""Allocate the cluster IPs, node ports and health-check port of a Service when it is written.

    settle = await allocation.reserve(new, old, dry_run=False)  # sets the fields of `new`; raises Invalid
    ...                                                         # the Service is written
    await settle(True)                                          # False if it was not

Admission determines the IP families of a Service (``admission/service_families.py``).
"""

from collections.abc import Awaitable, Callable

import msgspec

from mooring.admission.service import needs_health_check
from mooring.admission.service_families import is_headless
from mooring.api import errors, field_errors
from mooring.api.core_v1 import Service
from mooring.api.field_path import Path
from mooring.apiserver.registry.services.addresses import ClusterAddresses, FullError, TakenError
from mooring.apiserver.registry.services.ports import NodePorts, PortError
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import Clock
from mooring.store.kv import Store

_SPEC = Path("spec")


class Reservation(msgspec.Struct):
    """The cluster IPs and node ports newly allocated for a Service, and those that its update gives up."""

    allocation: "ServiceAllocation"
    service: Service
    taken: list[str] = msgspec.field(default_factory=list)
    taken_ports: list[int] = msgspec.field(default_factory=list)
    left: list[str] = msgspec.field(default_factory=list)
    left_ports: list[int] = msgspec.field(default_factory=list)

    async def settle(self, is_written: bool) -> None:
        """Release what the update gave up if the Service was written, otherwise what was allocated."""
        for address in self.left if is_written else self.taken:
            await self.allocation.addresses.release(address, self.service)
        await self.allocation.ports.release(self.left_ports if is_written else self.taken_ports)


class ServiceAllocation:
    """Allocates cluster IPs, node ports and health-check ports of Services, and releases them."""

    def __init__(self, store: Store, kinds: StoredKinds, clock: Clock, ports: range) -> None:
        self.addresses = ClusterAddresses(store, kinds, clock)
        self.ports = NodePorts(store, kinds, clock, ports)

    async def reserve(self, new: Service, old: Service | None, *, dry_run: bool) -> Callable[[bool], Awaitable[None]]:
        """Set the addresses and ports that a Service lacks; raise a `StatusError` if none is left.

        The returned function must be called after the write, with whether that succeeded: it releases what is unused.
        """
        made = Reservation(self, new)
        try:
            await self._reserve_addresses(made, new, old, dry_run=dry_run)
            await self._reserve_ports(made, new, old, dry_run=dry_run)
        except BaseException:
            await made.settle(False)
            raise
        return Reservation(self, new).settle if dry_run else made.settle

    async def release(self, service: Service) -> None:
        """Release the addresses and ports of a Service that was deleted."""
        allocated = Reservation(self, service, taken=addresses_of(service), taken_ports=sorted(ports_of(service)))
        await allocated.settle(False)

    async def _reserve_addresses(self, made: Reservation, new: Service, old: Service | None, *, dry_run: bool) -> None:
        had = addresses_of(old) if old else []
        spec = new.spec
        if spec.type != "ExternalName" and not is_headless(spec):
            given = [*spec.cluster_ips, *[""] * (len(spec.ip_families) - len(spec.cluster_ips))]
            for index, address in enumerate(given):
                if address in had:
                    continue
                taken = await self._allocate_address(address, spec.ip_families[index], new, dry_run=dry_run)
                given[index] = taken
                made.taken += [] if dry_run else [taken]
            spec.cluster_ips, spec.cluster_ip = given, given[0] if given else ""
        made.left = [address for address in had if address not in addresses_of(new)]

    async def _allocate_address(self, address: str, family: str, service: Service, *, dry_run: bool) -> str:
        name = service.metadata.name
        try:
            if not address:
                return await self.addresses.take_any(family, service, dry_run=dry_run)
            await self.addresses.take(address, service, dry_run=dry_run)
        except FullError as error:
            raise errors.internal_error(f'failed to allocate a serviceIP for Service "{name}": {error}') from None
        except TakenError as error:
            detail = f"failed to allocate IP {address}: {error}"
            wrong = field_errors.invalid(_SPEC.child("clusterIPs"), service.spec.cluster_ips, detail)
            raise errors.invalid("Service", name, [wrong]) from None
        return address

    async def _reserve_ports(self, made: Reservation, new: Service, old: Service | None, *, dry_run: bool) -> None:
        had, spec = ports_of(old) if old else set(), new.spec
        needs_port, needs_check = _ports_to_allocate(new), needs_health_check(spec) and not spec.health_check_node_port
        wanted = ports_of(new) - had
        if wanted or needs_port or needs_check:
            try:
                others = await self.ports.take(sorted(wanted), len(needs_port) + needs_check, dry_run=dry_run)
            except PortError as error:
                raise _invalid_port(new, error) from None
            made.taken_ports += [] if dry_run else [*wanted, *others]
            if needs_check:
                spec.health_check_node_port = others.pop()
            for number, port in zip(needs_port, others, strict=True):
                for each in spec.ports:
                    if each.port == number and not each.node_port:
                        each.node_port = port
        made.left_ports = sorted(had - ports_of(new))


def _ports_to_allocate(service: Service) -> list[int]:
    """Return the `port` numbers without a node port; ports with an equal number (TCP, UDP) get the same one."""
    spec = service.spec
    allocates = spec.type == "NodePort" or (
        spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is not False
    )
    if not allocates:
        return []
    given = {port.port: port.node_port for port in spec.ports if port.node_port}
    for port in spec.ports:
        if not port.node_port and port.port in given:
            port.node_port = given[port.port]
    return list(dict.fromkeys(port.port for port in spec.ports if not port.node_port))


def addresses_of(service: Service) -> list[str]:
    """Return the cluster IPs of a Service."""
    spec = service.spec
    if spec.type == "ExternalName" or is_headless(spec):
        return []
    return [address for address in spec.cluster_ips if address]


def ports_of(service: Service) -> set[int]:
    """Return the node ports of a Service."""
    spec = service.spec
    ports = {port.node_port for port in spec.ports if port.node_port}
    return ports | ({spec.health_check_node_port} if spec.health_check_node_port else set())


def _invalid_port(service: Service, error: PortError) -> errors.StatusError:
    spec = service.spec
    if error.port == spec.health_check_node_port:
        return errors.internal_error(f"failed to allocate requested HealthCheck NodePort {error.port}: {error}")
    index = next(index for index, port in enumerate(spec.ports) if port.node_port == error.port)
    here = _SPEC.child("ports").index(index).child("nodePort")
    return errors.invalid("Service", service.metadata.name, [field_errors.invalid(here, error.port, str(error))])
