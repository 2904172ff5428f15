"""The flag for additional server names in the TLS certificate."""

from collections.abc import Callable
from typing import Any

import click


def tls_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flag; the command gets it as `tls_san`."""
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
