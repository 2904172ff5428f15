"""Addresses of simulated nodes and of their pods.

A node has a /24 of 10.128.0.0/9 for its pods, as Kubernetes' node IPAM gives one, and the address in 172.16.0.0/12 with
the same number. Which addresses pods use is read from the pods, so nothing is lost in a restart.
"""

import ipaddress
import socket
from collections.abc import Iterable

_PODS = int(ipaddress.IPv4Address("10.128.0.0"))
_NODES = int(ipaddress.IPv4Address("172.16.0.0"))
NETWORKS = 2**15
"""How many nodes can have pods with addresses."""


def network(number: int) -> str:
    """The addresses of the pods of a node.

    >>> network(1)
    '10.128.1.0/24'
    """
    return f"{ipaddress.IPv4Address(_PODS + number * 256)}/24"


def number_of(pod_cidr: str) -> int | None:
    """The number of a network; None for one that is not ours."""
    try:
        offset = int(ipaddress.IPv4Network(pod_cidr).network_address) - _PODS
    except ValueError:
        return None
    return offset // 256 if 0 <= offset < NETWORKS * 256 else None


def node_address(number: int) -> str:
    """
    >>> node_address(0)
    '172.16.0.1'
    """
    return str(ipaddress.IPv4Address(_NODES + number + 1))


def _usable(pod_cidr: str) -> tuple[int, int] | None:
    """The first address of a network and how many it has, without its own and the one for all; None if it is none.

    `ipaddress` would take ten times as long, and nodes have few pods.

    >>> _usable("10.128.1.0/24"), _usable("10.128.1.1/24"), _usable("fd00::/64"), _usable("")
    ((176161025, 254), None, None, None)
    """
    address, _, bits = pod_cidr.partition("/")
    try:
        first, size = int.from_bytes(socket.inet_pton(socket.AF_INET, address)), 1 << 32 - int(bits)
    except (OSError, ValueError):
        return None
    return None if first % size else (first + 1, size - 2)


def _dotted(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


class Networks:
    """Which numbers are taken."""

    def __init__(self) -> None:
        self._taken: dict[int, str] = {}
        self._next = 0

    def take(self, pod_cidr: str, node: str) -> None:
        number = number_of(pod_cidr)
        if number is not None:
            self._taken.setdefault(number, node)

    def release(self, pod_cidr: str, node: str) -> None:
        number = number_of(pod_cidr)
        if number is not None and self._taken.get(number) == node:
            del self._taken[number]

    def free(self, node: str) -> str | None:
        """A network that nobody has, which `node` has from now on."""
        for step in range(NETWORKS):
            number = (self._next + step) % NETWORKS
            if number not in self._taken:
                self._next = number + 1
                self._taken[number] = node
                return network(number)
        return None


class PodAddresses:
    """Which pod of which node has which address."""

    def __init__(self) -> None:
        self._taken: dict[str, dict[str, str]] = {}
        self._last: dict[str, int] = {}

    def take(self, node: str, address: str, uid: str) -> None:
        self._taken.setdefault(node, {})[address] = uid

    def release(self, node: str, addresses: Iterable[str], uid: str) -> None:
        taken = self._taken.get(node, {})
        for address in addresses:
            if taken.get(address) == uid:
                del taken[address]

    def forget(self, node: str) -> None:
        self._taken.pop(node, None)
        self._last.pop(node, None)

    def allocate(self, node: str, pod_cidr: str, uid: str) -> str | None:
        """An address for a pod, not one that was in use a moment ago; None when all are taken."""
        found = _usable(pod_cidr)
        if found is None:
            return None
        taken = self._taken.setdefault(node, {})
        first, size = found
        for step in range(size):
            offset = (self._last.get(node, 0) + step) % size
            address = _dotted(first + offset)
            if offset and address not in taken:
                self._last[node] = offset + 1
                taken[address] = uid
                return address
        return None
