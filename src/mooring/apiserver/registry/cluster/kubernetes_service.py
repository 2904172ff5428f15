"""Maintain the Service `default/kubernetes`, by which clients in a cluster find the API server.

The server itself writes the Service, its Endpoints and its EndpointSlice when it starts to listen, and checks them
every ten seconds. Each server has an identity Lease in `kube-system` with its address; if several share a store, those
with a fresh Lease are the endpoints. ``server.py`` runs one.
"""

import asyncio
import hashlib
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from mooring.api import core_v1, discovery_v1, errors, times
from mooring.api.base import copy_of
from mooring.api.coordination_v1 import Lease, LeaseSpec
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.base import logs
from mooring.base.clock import Clock

log = logs.get(__name__)

NAMESPACE, NAME = "default", "kubernetes"
_LEAVING_SECONDS = 5.0
INTERVAL_SECONDS = 10.0
_SHARED_LEASE_SECONDS, _LEASE_SECONDS = 30, 3600
_LEASES = "kube-system"
_IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
_ADDRESS = "mooring.dev/advertise-address"
"""The annotation of an identity Lease with the address of its server."""
_SOMEWHERE = "192.0.2.1"
"""An address reserved for documentation, used to find the outgoing network interface; nothing is sent to it."""


class ServerAddress(msgspec.Struct, frozen=True, order=True):
    """The advertised IP address and port of one API server."""

    port: int
    address: str

    def __str__(self) -> str:
        return f"{self.address} {self.port}"


class KubernetesService:
    """Keeps the Service `default/kubernetes` pointing at the API servers. `own` is this one's address, or None."""

    def __init__(
        self, calls: LoopbackClient, clock: Clock, own: ServerAddress | None, cluster_ip: str, *, is_shared: bool
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._own = own
        self._cluster_ip = cluster_ip
        self._is_shared = is_shared
        self._turn = asyncio.Lock()
        self._has_left = False

    async def run(self) -> None:
        """Reconcile the Service and its endpoints every ten seconds, until cancelled."""
        while True:
            async with self._turn:
                try:
                    if not self._has_left:
                        await self.reconcile()
                except errors.StatusError as error:
                    log.warning("The Service kubernetes cannot be kept", extra={"fields": {"why": str(error)}})
            await self._clock.sleep(INTERVAL_SECONDS)

    async def reconcile(self) -> None:
        """Renew this server's Lease; update Service, Endpoints and EndpointSlice to the live servers."""
        await self._renew_lease()
        port = self._own.port if self._own is not None else 0
        await self._calls.ensure(_make_service(self._cluster_ip, port))  # an existing one stays unchanged, as upstream
        if self._own is None:
            return
        places = await self._live_addresses(self._own)
        first = min(places)
        # One Service has one target port; servers with another one are left out until they agree.
        addresses = sorted({place.address for place in places if place.port == first.port})
        await self._calls.ensure(_make_endpoints(addresses, first.port), _copy_content)
        await self._calls.ensure(_make_endpoint_slice(addresses, first.port), _copy_content)

    async def leave(self) -> None:
        """Remove this server from the endpoints, unless it is the only one.

        A running reconciliation is finished first; interrupted, it could leave the Service without an address.
        """
        self._has_left = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS), self._turn:
                pass
        if self._is_shared and self._own is not None:
            with suppress(errors.StatusError):
                await self._calls.delete(_make_lease(self._own, self._clock.now(), _SHARED_LEASE_SECONDS))

    async def _live_addresses(self, own: ServerAddress) -> list[ServerAddress]:
        if not self._is_shared:
            return [own]
        now = self._clock.now()
        places = [own]
        for lease in await self._calls.list(Lease, _LEASES):
            place = _address_in(lease)
            if place is not None and _is_fresh(lease, now):
                places.append(place)
            elif place is not None:
                with suppress(errors.StatusError):
                    await self._calls.delete(lease)
        return places

    async def _renew_lease(self) -> None:
        """Renew this server's identity Lease: each time if other servers exist, else before it expires."""
        now = self._clock.now()
        seconds = _SHARED_LEASE_SECONDS if self._is_shared else _LEASE_SECONDS
        wanted = _make_lease(self._own, now, seconds)
        found = await self._calls.get(Lease, wanted.metadata.name, _LEASES)
        if self._is_shared or found is None or not _is_fresh(found, now + timedelta(seconds=seconds * 2 / 3)):
            await self._calls.ensure(wanted, _copy_content)


def find_advertised_address(address: str, bound: str, port: int) -> ServerAddress | None:
    """Return the address to advertise: the configured one, else `bound`, else this machine's; None if unknown."""
    if address:
        return ServerAddress(port, address)
    if not _is_local(bound):
        return ServerAddress(port, bound)
    outgoing = _outgoing_address()
    return ServerAddress(port, outgoing) if outgoing else None


def _outgoing_address() -> str:
    """Return this machine's IP address for outgoing connections; empty if it has none."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((_SOMEWHERE, 9))
        found: str = asking.getsockname()[0]
        if not _is_local(found):
            return found
    return ""


def _is_local(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address == "localhost"
    return ip.is_loopback or ip.is_unspecified


# -- the objects


def _make_service(cluster_ip: str, target: int) -> core_v1.Service:
    port = core_v1.ServicePort(name="https", protocol="TCP", port=443, target_port=target or 443)
    return core_v1.Service(
        metadata=ObjectMeta(
            name=NAME, namespace=NAMESPACE, labels={"component": "apiserver", "provider": "kubernetes"}
        ),
        spec=core_v1.ServiceSpec(
            type="ClusterIP",
            cluster_ip=cluster_ip,
            ip_family_policy="SingleStack",
            session_affinity="None",
            ports=[port],
        ),
    )


def _make_endpoints(addresses: Sequence[str], port: int) -> core_v1.Endpoints:
    return core_v1.Endpoints(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels={"endpointslice.kubernetes.io/skip-mirror": "true"}),
        subsets=[
            core_v1.EndpointSubset(
                addresses=[core_v1.EndpointAddress(ip=address) for address in addresses],
                ports=[core_v1.EndpointPort(name="https", port=port, protocol="TCP")],
            )
        ],
    )


def _make_endpoint_slice(addresses: Sequence[str], port: int) -> discovery_v1.EndpointSlice:
    ready = discovery_v1.EndpointConditions(ready=True)
    return discovery_v1.EndpointSlice(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels={"kubernetes.io/service-name": NAME}),
        address_type="IPv6" if ":" in addresses[0] else "IPv4",
        endpoints=[discovery_v1.Endpoint(addresses=[address], conditions=ready) for address in addresses],
        ports=[discovery_v1.EndpointPort(name="https", port=port, protocol="TCP")],
    )


def _make_lease(own: ServerAddress | None, now: datetime, seconds: int) -> Lease:
    host = socket.gethostname()
    name = f"apiserver-{hashlib.sha256(str(own or host).encode()).hexdigest()[:16]}"
    labels = {**_IDENTITY, "kubernetes.io/hostname": host}
    given = {_ADDRESS: str(own)} if own is not None else {}
    renewed = times.to_microseconds(now)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=_LEASES, labels=labels, annotations=given),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=seconds, renew_time=renewed),
    )


def _address_in(lease: Lease) -> ServerAddress | None:
    address, _, port = lease.metadata.annotations.get(_ADDRESS, "").partition(" ")
    return ServerAddress(int(port), address) if port.isdecimal() and len(port) < 6 else None


def _is_fresh(lease: Lease, now: datetime) -> bool:
    try:
        renewed = times.parse(lease.spec.renew_time or "")
    except times.TimeError:
        return False
    return now < renewed + timedelta(seconds=lease.spec.lease_duration_seconds or 0)


def _copy_content(found: Resource, wanted: Resource) -> bool:
    """Copy content and labels of `wanted` into a stored object where they differ; return whether any did."""
    before = copy_of(found)
    for name in wanted.__struct_fields__:
        if name not in {"kind", "api_version", "metadata"}:
            setattr(found, name, getattr(wanted, name))
    found.metadata.labels = {**found.metadata.labels, **wanted.metadata.labels}
    return found != before
