"""The flag that says under which further names clients reach a server, of `mooring apiserver` and `mooring up`."""

from collections.abc import Callable
from typing import Any

import click


def tls_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flag, and hand over what it means as `tls_san`."""
    return click.option(
        "--tls-san",
        default="",
        callback=_names,
        metavar="NAME,…",
        help="Further names and addresses under which clients reach the server, as of a load balancer.",
    )(command)


def _names(_: click.Context, __: click.Parameter, text: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for name in str(text).split(",") if name.strip())
    for name in names:
        if not name.isascii() or not name.isprintable() or any(mark in name for mark in " /"):
            raise click.UsageError(f"--tls-san: {name!r} is neither a name of a machine nor an address")
    return names
