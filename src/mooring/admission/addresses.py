"""IP addresses and ranges, as pods, nodes, Services and endpoints name them."""

import ipaddress
import re

from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_ip(text: str, path: Path) -> list[FieldError]:
    """An address of either family. Old fields take leading zeros, as Kubernetes always has."""
    return [] if _parsed(text) is not None else [field_errors.invalid(path, text, NOT_AN_IP)]


def validate_endpoint_ip(text: str, path: Path) -> list[FieldError]:
    """An address at which a pod can be reached: not the machine's own, not everybody's."""
    address = _parsed(text)
    if address is None:
        return [field_errors.invalid(path, text, NOT_AN_IP)]
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


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:  # Kubernetes knows no zones
        return None
    try:
        return ipaddress.ip_address(text if ":" in text else _LEADING_ZEROS.sub("", text))
    except ValueError:
        return None
