"""Allocates cluster IPs.

ServiceCIDR objects name the networks. A server allocates an address by creating the IPAddress of that name; only one
create succeeds, so that no two servers allocate the same address.
"""

import random
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain
from uuid import uuid4

from mooring.api import times
from mooring.api.core_v1 import Service
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.networking_v1 import IPAddress, IPAddressSpec, ParentReference, ServiceCIDR
from mooring.apiserver.registry.admission.lookups import DerivedValue
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import Clock
from mooring.store.kv import Delete, Event, Put, Store

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
FAMILY_LABEL, MANAGED_BY = "ipaddress.kubernetes.io/ip-family", "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"
_LARGEST = 2**32
"""The maximum number of addresses that are allocated from one network."""
_GUESSES = 16


class TakenError(Exception):
    """A requested cluster IP is in use or in no ServiceCIDR; the message is worded as in Kubernetes."""


class FullError(Exception):
    """No cluster IP of the requested IP family is free."""


class ClusterAddresses:
    """Allocates cluster IPs from the ServiceCIDRs, by creating IPAddress objects, and releases them."""

    def __init__(self, store: Store, kinds: StoredKinds, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.stored = kinds.find_by_type(IPAddress)
        self._networks = DerivedValue(store, kinds.find_by_type(ServiceCIDR).prefix, ServiceCIDR, _networks)

    def networks(self, family: str) -> list[Network]:
        """Return the ServiceCIDR networks of an IP family, the oldest first."""
        return [network for network in self._networks.value() if get_ip_family(network) == family]

    async def take(self, text: str, service: Service, *, dry_run: bool) -> None:
        """Allocate a cluster IP that the Service requests; raise TakenError if it is not available."""
        address = ip_address(text)
        networks = self.networks(get_ip_family(address))
        if not any(_is_allocatable(address, network) for network in networks):
            raise TakenError("the provided network does not match the current range")
        if not await self._create_address(address, service, dry_run=dry_run):
            raise TakenError("provided IP is already allocated")

    async def take_any(self, family: str, service: Service, *, dry_run: bool) -> str:
        """Allocate a free cluster IP of an IP family and return it; raise FullError if none is free."""
        for network in self.networks(family):
            for address in _candidates(network):
                if self._store.peek(self._key_of(address)) is None and await self._create_address(
                    address, service, dry_run=dry_run
                ):
                    return str(address)
        raise FullError("range is full")

    async def release(self, text: str, service: Service) -> None:
        """Delete the IPAddress by which a Service holds a cluster IP."""
        kv = await self._store.get(self._key_of(ip_address(text)))
        if kv is None:
            return
        found = self.stored.decode(kv.value, kv.mod_revision)
        if isinstance(found, IPAddress) and found.spec.parent_ref == parent_ref_of(service):
            await self._store.write(Delete(kv.key, expect=kv.mod_revision))

    async def _create_address(self, address: Address, service: Service, *, dry_run: bool) -> bool:
        key = self._key_of(address)
        if dry_run:
            return await self._store.get(key) is None
        meta = ObjectMeta(
            name=str(address),
            uid=str(uuid4()),
            creation_timestamp=times.to_seconds(self._clock.now()),
            labels={FAMILY_LABEL: get_ip_family(address), MANAGED_BY: MANAGER},
        )
        hub, spec = self.stored.hub, IPAddressSpec(parent_ref=parent_ref_of(service))
        made = IPAddress(kind=hub.kind, api_version=hub.api_version, metadata=meta, spec=spec)
        return isinstance(await self._store.write(Put(key, self.stored.encode(made), expect=0)), Event)

    def _key_of(self, address: Address) -> str:
        return self.stored.key("", str(address))


def get_ip_family(place: Address | Network) -> str:
    return f"IPv{place.version}"


def parent_ref_of(service: Service) -> ParentReference:
    """Return the `parentRef` for a Service's IPAddress objects."""
    return ParentReference(resource="services", namespace=service.metadata.namespace, name=service.metadata.name)


def _networks(cidrs: list[ServiceCIDR]) -> list[Network]:
    usable = [
        cidr
        for cidr in cidrs
        if cidr.metadata.deletion_timestamp is None
        and not any(state.type == "Ready" and state.status == "False" for state in cidr.status.conditions)
    ]
    usable.sort(key=lambda cidr: (cidr.metadata.creation_timestamp or "", cidr.metadata.name))
    return list(dict.fromkeys(ip_network(text) for cidr in usable for text in cidr.spec.cidrs))


def _is_allocatable(address: Address, network: Network) -> bool:
    reserved = {network.network_address, network.broadcast_address if network.version == 4 else None}
    return address in network and address not in reserved


def _candidates(network: Network) -> Iterator[Address]:
    """Yield addresses to try: some random ones of the upper part, then all of it, then the lower part."""
    count = min(network.num_addresses - (2 if network.version == 4 else 1), _LARGEST)
    if count <= 0:
        return
    lower = 0 if count <= 16 else min(max(16, count // 16), 256)
    guesses = (random.randrange(lower, count) for _ in range(_GUESSES))  # noqa: S311 - not a secret
    for offset in chain(guesses, range(lower, count), range(lower)):
        yield network[1 + offset]
