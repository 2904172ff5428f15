"""IP addresses and address ranges as values, parsed by the rules of Go's ``net/netip``, which CEL's users know.

No zones, no leading zeros, a prefix without surplus digits. CEL's own network extension
and Kubernetes treat IPv4-mapped IPv6 addresses differently, so `parse_ip` takes a parameter.
Called by `mooring.cel.ext.network` and by Kubernetes' environments.
"""

import ipaddress
from functools import lru_cache
from typing import ClassVar

import msgspec

from mooring.base.short_string_cache import MAX_CACHED_LENGTH
from mooring.cel.errors import EvaluationError
from mooring.cel.types import Type, opaque

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class IP(msgspec.Struct, frozen=True):
    """An address."""

    cel_type: ClassVar[Type] = opaque("net.IP")
    address: _Address

    def __str__(self) -> str:
        return str(self.address)

    def cel_size(self) -> int:
        """Return the size for costs: the bytes of the address."""
        return self.address.max_prefixlen // 8

    def is_link_local_multicast(self) -> bool:
        number = int(self.address)
        if self.address.version == 4:
            return number >> 8 == 0xE00000  # 224.0.0.0/24
        return number >> 112 & 0xFF0F == 0xFF02

    def is_global_unicast(self) -> bool:
        address = self.address
        broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
        return not (
            broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
        )


class CIDR(msgspec.Struct, frozen=True):
    """An address with a prefix length; host bits may be set until `masked` clears them."""

    cel_type: ClassVar[Type] = opaque("net.CIDR")
    address: _Address
    prefix_length: int

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix_length}"

    def cel_size(self) -> int:
        """Return the size for costs: the bytes of the prefix."""
        return -(-self.prefix_length // 8)

    def masked(self) -> "CIDR":
        rest = self.address.max_prefixlen - self.prefix_length
        return CIDR(type(self.address)(int(self.address) >> rest << rest), self.prefix_length)

    def contains_ip(self, other: IP) -> bool:
        return self._covers(other.address)

    def contains_cidr(self, other: "CIDR") -> bool:
        return self.prefix_length <= other.prefix_length and self._covers(other.address)

    def _covers(self, address: _Address) -> bool:
        if self.address.version != address.version:
            return False
        rest = self.address.max_prefixlen - self.prefix_length
        return int(self.address) >> rest == int(address) >> rest


def parse_ip(text: str, *, unmap: bool = False) -> IP:
    """Parse an address. Reject IPv4-mapped IPv6; with `unmap`, convert its hexadecimal form to IPv4."""
    outcome = _parse_or_error(text, unmap)
    if isinstance(outcome, str):
        raise EvaluationError(outcome)
    return IP(outcome)


def parse_cidr(text: str) -> CIDR:
    """Parse a CIDR range; reject IPv4-mapped IPv6 addresses."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise EvaluationError(f'network address parse error during conversion from string: "{text}" has no "/"')
    outcome = _parse_or_error(address, unmap=False)
    if isinstance(outcome, str):
        raise EvaluationError(f"network address parse error during conversion from string: {outcome}")
    plain = bits.isascii() and bits.isdigit() and (bits[0] != "0" or bits == "0") and len(bits) <= 3
    if not plain or int(bits) > outcome.max_prefixlen:
        raise EvaluationError(
            f'network address parse error during conversion from string: bad bits after slash: "{bits}"'
        )
    return CIDR(outcome, int(bits))


def is_canonical(text: str, *, unmap: bool = False) -> bool:
    """Whether the address is in canonical form."""
    return str(parse_ip(text, unmap=unmap)) == text


def _parse_or_error(text: str, unmap: bool) -> _Address | str:
    """Parse an address, cached for short strings; return the error message on failure."""
    return _parse_cached(text, unmap) if len(text) <= MAX_CACHED_LENGTH else _parse_cached.__wrapped__(text, unmap)


@lru_cache(maxsize=4096)
def _parse_cached(text: str, unmap: bool) -> _Address | str:
    if "%" in text:
        return f'IP address "{text}" with zone value is not allowed'
    try:
        address: _Address = ipaddress.IPv6Address(text) if ":" in text else ipaddress.IPv4Address(text)
    except ValueError:
        return f'IP Address "{text}" parse error during conversion from string: unable to parse IP'
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        if not unmap or "." in text:
            return f'IPv4-mapped IPv6 address "{text}" is not allowed'
        return address.ipv4_mapped
    return address
