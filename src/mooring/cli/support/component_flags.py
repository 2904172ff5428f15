"""The version and gate flags of every component (4330.1)."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mooring.base import component
from mooring.base.gates import GateError
from mooring.base.version import BINARY, OLDEST_EMULATION, OLDEST_MIN_COMPATIBILITY, VersionError
from mooring.cli.support import completions


def once(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the only value of a flag; raise UsageError for a second one."""
    if len(values) > 1:
        raise click.UsageError(f"{option.opts[0]} is given twice, as {' and '.join(values)}: leave one out")
    return values[0] if values else None


def merged(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str:
    """Join the values of a flag that may be repeated."""
    return ",".join(values)


def component_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three flags to a command and hand it the resolved `Component` as `running`."""

    @click.option(
        "--emulation-version",
        "--emulated-version",
        "emulation_version",
        metavar="VERSION",
        multiple=True,
        callback=once,
        shell_complete=completions.emulation_versions,
        help=f"Behave as this version does: {OLDEST_EMULATION} to {BINARY}.  [default: {BINARY}]",
    )
    @click.option(
        "--min-compatibility-version",
        metavar="VERSION",
        multiple=True,
        callback=once,
        shell_complete=completions.min_compatibility_versions,
        help="Write only what this version can read: "
        f"{OLDEST_MIN_COMPATIBILITY}, or one before an older emulation version, to the emulation version.  "
        "[default: emulation version minus one]",
    )
    @click.option(
        "--feature-gates",
        "--gates",
        "feature_gates",
        metavar="GATE=BOOL,…",
        multiple=True,
        callback=merged,
        shell_complete=completions.switches,
        help="Switch features; see `mooring gates`.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        emulation_version: str | None,
        min_compatibility_version: str | None,
        feature_gates: str,
        **rest: Any,
    ) -> None:
        try:
            running = component.resolve(
                gates=feature_gates, emulation=emulation_version, min_compatibility=min_compatibility_version
            )
        except (GateError, VersionError) as error:
            raise click.UsageError(str(error)) from error
        for warning in running.gates.warnings:
            click.echo(f"Warning: {warning}", err=True)
        command(*args, running=running, **rest)

    return wrapped
