"""The flags that every component takes (4330.1), and what they resolve to."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mooring.base import component
from mooring.base.gates import GateError
from mooring.base.version import BINARY, OLDEST_EMULATION, OLDEST_MIN_COMPATIBILITY, VersionError
from mooring.cli.support import completions


def component_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three flags to a command and hand it the resolved `Component` as `running`."""

    @click.option(
        "--emulation-version",
        "--emulated-version",
        "emulation_version",
        metavar="VERSION",
        shell_complete=completions.emulation_versions,
        help=f"Behave as this version does: {OLDEST_EMULATION} to {BINARY}.  [default: {BINARY}]",
    )
    @click.option(
        "--min-compatibility-version",
        metavar="VERSION",
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
        shell_complete=completions.switches,
        default="",
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
