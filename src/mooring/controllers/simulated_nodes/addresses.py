"""Allocate addresses of simulated nodes and their pods.

A node gets a /24 of 10.128.0.0/9 for its pods, as from Kubernetes' node IPAM, and the address in 172.16.0.0/12 with the
same number. Addresses in use are read from the pods, so a restart loses nothing.
"""

import ipaddress
import socket
from collections.abc import Iterable

_PODS = int(ipaddress.IPv4Address("10.128.0.0"))
_NODES = int(ipaddress.IPv4Address("172.16.0.0"))
NETWORKS = 2**15


def pod_cidr_of(number: int) -> str:
    """Return the pod CIDR of the simulated node with the given number.

    >>> pod_cidr_of(1)
    '10.128.1.0/24'
    """
    return f"{ipaddress.IPv4Address(_PODS + number * 256)}/24"


def parse_network_number(pod_cidr: str) -> int | None:
    """Return the number of the node that has a pod CIDR; None if the CIDR is invalid or outside 10.128.0.0/9."""
    try:
        offset = int(ipaddress.IPv4Network(pod_cidr).network_address) - _PODS
    except ValueError:
        return None
    return offset // 256 if 0 <= offset < NETWORKS * 256 else None


def node_address(number: int) -> str:
    """Return the address of the simulated node with the given number.

    >>> node_address(0)
    '172.16.0.1'
    """
    return str(ipaddress.IPv4Address(_NODES + number + 1))


def _usable_addresses(pod_cidr: str) -> tuple[int, int] | None:
    """Return the first usable address of an IPv4 network, as an integer, and the number of usable addresses.

    None if the CIDR is invalid or has host bits. Called for every pod: `ipaddress` would take ten times as long.

    >>> [_usable_addresses(cidr) for cidr in ("10.128.1.0/24", "10.128.1.1/24", "fd00::/64", "")]
    [(176161025, 254), None, None, None]
    """
    address, _, bits = pod_cidr.partition("/")
    try:
        first, size = int.from_bytes(socket.inet_pton(socket.AF_INET, address)), 1 << 32 - int(bits)
    except (OSError, ValueError):
        return None
    return None if first % size else (first + 1, size - 2)


class PodCidrAllocator:
    """Allocates pod CIDRs to simulated nodes, and records which are in use."""

    def __init__(self) -> None:
        self._used: dict[int, str] = {}
        self._next = 0

    def mark_used(self, pod_cidr: str, node: str) -> None:
        number = parse_network_number(pod_cidr)
        if number is not None:
            self._used.setdefault(number, node)

    def release(self, pod_cidr: str, node: str) -> None:
        number = parse_network_number(pod_cidr)
        if number is not None and self._used.get(number) == node:
            del self._used[number]

    def allocate(self, node: str) -> str | None:
        """Allocate a free pod CIDR for a node; None if all are in use."""
        for step in range(NETWORKS):
            number = (self._next + step) % NETWORKS
            if number not in self._used:
                self._next = number + 1
                self._used[number] = node
                return pod_cidr_of(number)
        return None


class PodAddressAllocator:
    """Allocates addresses to pods of simulated nodes, and records which are in use."""

    def __init__(self) -> None:
        self._used: dict[str, dict[str, str]] = {}
        self._last: dict[str, int] = {}

    def mark_used(self, node: str, address: str, uid: str) -> None:
        self._used.setdefault(node, {})[address] = uid

    def release(self, node: str, addresses: Iterable[str], uid: str) -> None:
        taken = self._used.get(node, {})
        for address in addresses:
            if taken.get(address) == uid:
                del taken[address]

    def forget(self, node: str) -> None:
        self._used.pop(node, None)
        self._last.pop(node, None)

    def allocate(self, node: str, pod_cidr: str, uid: str) -> str | None:
        """Allocate the next free address of a node, so that released ones are reused late; None if none is free."""
        found = _usable_addresses(pod_cidr)
        if found is None:
            return None
        taken = self._used.setdefault(node, {})
        first, size = found
        for step in range(size):
            offset = (self._last.get(node, 0) + step) % size
            address = socket.inet_ntoa((first + offset).to_bytes(4))
            if offset and address not in taken:
                self._last[node] = offset + 1
                taken[address] = uid
                return address
        return None
