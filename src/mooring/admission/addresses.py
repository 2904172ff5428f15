"""Validate IP addresses and CIDRs in fields of pods, nodes, Services, endpoints and network policies."""

import ipaddress
import re
import socket
from collections.abc import Sequence

from mooring.api import field_errors
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_endpoint_ip(text: str, path: Path) -> Errors:
    """Return errors for an endpoint address that is malformed, loopback, link-local (also multicast) or unspecified."""
    address = _parse_ip(text)
    if address is None:
        return [field_errors.invalid(path, text, NOT_AN_IP)]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return [
        field_errors.invalid(path, text, detail)
        for wrong, detail in (
            (address.is_unspecified, f"may not be unspecified ({address})"),
            (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
            (
                any(address in network for network in _LOCAL_MULTICAST),
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        )
        if wrong
    ]


def _parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:  # Kubernetes knows no zones
        return None
    try:
        return ipaddress.ip_address(text if ":" in text else _LEADING_ZEROS.sub("", text))
    except ValueError:
        return None


def is_ip(text: str) -> bool:
    return _is_canonical_ipv4(text) or _parse_ip(text) is not None


def _is_canonical_ipv4(text: str) -> bool:
    """Return whether a text is a dotted IPv4 address without leading zeros. Ten times as fast as `ipaddress`."""
    try:
        socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def validate_status_ips(new: Sequence[str], old: Sequence[str], path: Path, *, strict: bool) -> Errors:
    """Return errors for malformed IPs that are not in `old`, and for two IPs unless one is IPv4 and one IPv6."""
    errors = [
        error
        for index, text in enumerate(new)
        if text not in old
        for error in validate_legacy_ip(text, path.index(index), strict=strict)
    ]
    if len(new) > 1 and sorted(address.version for text in new if (address := _parse_ip(text)) is not None) != [4, 6]:
        shown = [{"ip": text} for text in new]
        errors.append(field_errors.invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NOT_A_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LENGTH = re.compile(r"[0-9]{1,3}")


def parse_network(text: str) -> Network | None:
    """Parse a CIDR into a network, with its host bits cleared; return None if it is malformed."""
    address, slash, length = text.partition("/")
    found = _parse_ip(address)
    if not slash or found is None or not _LENGTH.fullmatch(length) or int(length) > found.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{found}/{int(length)}", strict=False)


def validate_cidr(text: str, path: Path) -> Errors:
    return [] if parse_network(text) is not None else [field_errors.invalid(path, text, _NOT_A_CIDR)]


def validate_legacy_ip(text: str, path: Path, *, strict: bool) -> Errors:
    """Return errors for a malformed IP address; if `strict`, also for leading zeros and IPv4-mapped IPv6."""
    if _is_canonical_ipv4(text):
        return []
    if _parse_ip(text) is None:
        return [field_errors.invalid(path, text, NOT_AN_IP)]
    problem = canonical_ip_problems(text)[:1] if strict else ()
    return [field_errors.invalid(path, text, each) for each in problem if each.startswith("must not")]


def validate_legacy_cidr(text: str, path: Path, *, strict: bool) -> Errors:
    """Return errors for a malformed CIDR; if `strict`, also for leading zeros and for bits set beyond the prefix."""
    if not strict:
        return validate_cidr(text, path)
    problem = _find_cidr_problem(text)
    return [field_errors.invalid(path, text, problem)] if problem else []


def validate_canonical_cidr(text: str, path: Path) -> Errors:
    problem, wanted = _find_cidr_problem(text), str(parse_network(text))
    if not problem and text != wanted:
        problem = f'must be in canonical form ("{wanted}")'
    return [field_errors.invalid(path, text, problem)] if problem else []


def _find_cidr_problem(text: str) -> str:
    found = parse_network(text)
    address, _, length = text.partition("/")
    if found is None:
        return _NOT_A_CIDR
    if (length != "0" and length.startswith("0")) or _has_leading_zeros(address):
        return "must not have leading 0s in IP or prefix length"
    if _parse_ip(address) != found.network_address:
        return "must not have bits set beyond the prefix length"
    return ""


def canonical_ip_problems(text: str) -> tuple[str, ...]:
    """Return why a text is no canonical IP address, as the names of IPAddress objects must be; empty if it is."""
    found = _parse_ip(text)
    if found is None:
        return (NOT_AN_IP,)
    if _has_leading_zeros(text):
        return ("must not have leading 0s",)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return ("must not be an IPv4-mapped IPv6 address",)
    return () if text == str(found) else (f'must be in canonical form ("{found}")',)


def _has_leading_zeros(address: str) -> bool:
    return ":" not in address and _LEADING_ZEROS.search(address) is not None
