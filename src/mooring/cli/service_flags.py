"""The flags that say how Services are reached, and the `ServiceNetwork` that they mean.

`mooring apiserver` and `mooring up` have them.
"""

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import Any

import click

from mooring.apiserver.service_network import ServiceNetwork


def service_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to a command, and hand it a `ServiceNetwork` as `services`."""

    @click.option(
        "--advertise-address",
        default="",
        metavar="IP",
        help="Where what runs in the cluster reaches this server: the endpoint of the Service default/kubernetes.  "
        "[default: --bind-address, or this machine's own instead of a loopback]",
    )
    @wraps(command)
    def wrapped(*args: Any, advertise_address: str, **rest: Any) -> None:
        _check_address(advertise_address)
        command(*args, services=ServiceNetwork(advertise_address=advertise_address), **rest)

    return wrapped


def _check_address(text: str) -> None:
    if not text:
        return
    try:
        found = ip_address(text)
    except ValueError:
        raise click.UsageError(f"--advertise-address: {text!r} is no address such as 192.168.7.1") from None
    if found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast:
        raise click.UsageError(f"--advertise-address: {text} cannot be reached from other machines")
