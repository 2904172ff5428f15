"""Flags that several commands share, and the tool for groups of them.

A group adds its options to a command, and passes what they mean as one argument:

    @component_flags
    def gates(running: Component) -> None: ...

Further groups are in ``server_flags.py``, ``cluster_source.py``, ``leadership.py`` and ``etcd_flags.py``.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from traceback import print_exception
from typing import Any

import click
import msgspec

from mooring.base import component, durations, logs
from mooring.base.component import Component
from mooring.base.gates import GateError
from mooring.base.version import BINARY, OLDEST_EMULATION, OLDEST_MIN_COMPATIBILITY, VersionError
from mooring.cli.support import completions
from mooring.cli.support.output import report_errors

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def group_flags(argument: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, and passes `make(**values)` as one argument.

    The parameters of `make` name the options that it takes. An option may be another group.
    """
    taken = tuple(signature(make).parameters)

    def add(command: Command) -> Command:
        @wraps(command)
        def call(*args: Any, **given: Any) -> Any:
            made = make(**{name: given.pop(name) for name in taken})
            return command(*args, **{argument: made}, **given)

        decorated: Command = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


class _CommandFailedError(click.ClickException):
    exit_code = 2


class VerdictCommand(click.Command):
    """A command whose exit code 1 is a result, such as `does not pass`: failures exit with 2, as wrong calls do."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.UsageError, click.exceptions.Exit, click.exceptions.Abort, BrokenPipeError):
            raise
        except click.ClickException as problem:
            raise _CommandFailedError(problem.message) from problem
        except Exception as problem:
            print_exception(problem)
            ctx.exit(2)


# Types and callbacks


class DataDir(click.Path):
    """A directory, which need not exist. An empty name (an unset variable) is rejected."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty; use . for the current directory", param, ctx)
        return super().convert(value, param, ctx)


class PathType(click.Path):
    """A file or folder, converted to a `Path`; help texts show the metavar."""

    def __init__(self, metavar: str, **options: bool) -> None:
        super().__init__(path_type=Path, **options)
        self._metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002 - click sets the signature
        return self._metavar if isinstance(param, click.Option) else None


FILE = PathType("FILE", exists=True, dir_okay=False)
FOLDER = PathType("DIR", exists=True, file_okay=False)
FILE_OR_FOLDER = PathType("FILE|DIR", exists=True)
FILE_OR_STDIN = PathType("FILE|-", exists=True, allow_dash=True, dir_okay=False)
MANIFESTS = PathType("FILE|DIR|-", exists=True, allow_dash=True)
NEW_FILE = PathType("FILE", dir_okay=False)
NEW_FILE_OR_STDOUT = PathType("FILE|-", dir_okay=False, allow_dash=True)
NEW_FOLDER = PathType("DIR", file_okay=False)


class Duration(click.ParamType[float]):
    """Seconds, parsed from Go's duration syntax (`15s`, `1m30s`); a bare 0 is accepted."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click sets the signature
        return "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        try:
            return 0.0 if value == "0" else durations.parse_seconds(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


def single_value(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the value of a flag, or None without it; raise UsageError if the flag is given twice."""
    if len(values) > 1:
        raise click.UsageError(f"{option.opts[0]} is given twice, as {' and '.join(values)}: leave one out")
    return values[0] if values else None


def join_values(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str:
    """Join the values of a repeated flag by commas."""
    return ",".join(values)


def split_names(text: str) -> tuple[str, ...]:
    """Split a comma-separated value into its names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


# Groups


def _resolve(emulation_version: str | None, min_compatibility_version: str | None, feature_gates: str) -> Component:
    with report_errors(GateError, VersionError, usage=True):
        running = component.resolve(
            gates=feature_gates, emulation=emulation_version, min_compatibility=min_compatibility_version
        )
    for warning in running.gates.warnings:
        click.echo(f"Warning: {warning}", err=True)
    return running


component_flags = group_flags(
    "running",
    _resolve,
    click.option(
        "--emulation-version",
        "--emulated-version",
        "emulation_version",
        metavar="VERSION",
        multiple=True,
        callback=single_value,
        shell_complete=completions.emulation_versions,
        help=f"Behave as this version does: {OLDEST_EMULATION} to {BINARY}.  [default: {BINARY}]",
    ),
    click.option(
        "--min-compatibility-version",
        metavar="VERSION",
        multiple=True,
        callback=single_value,
        shell_complete=completions.min_compatibility_versions,
        help="Write only what this version can read, at most the emulation version and at least "
        f"{OLDEST_MIN_COMPATIBILITY}, or the predecessor of an older emulation version.  "
        "[default: emulation version minus one]",
    ),
    click.option(
        "--feature-gates",
        "--gates",
        "feature_gates",
        metavar="GATE=BOOL,…",
        multiple=True,
        callback=join_values,
        shell_complete=completions.switches,
        help="Turn feature gates on or off; see `mooring gates`.",
    ),
)
"""The version and gate flags of every component (4330.1); the command gets a `Component` as `running`."""

kubeconfig_flags = group_flags(
    "reach",
    lambda kubeconfig, context: (kubeconfig, context),
    click.option("--kubeconfig", metavar="FILE", help="The kubeconfig file.  [default: as kubectl finds it]"),
    click.option("--context", default="", metavar="NAME", help="The kubeconfig context.  [default: the current one]"),
)
"""The command gets `(kubeconfig, context)` as `reach`."""


class LogFlags(msgspec.Struct, frozen=True):
    """The verbosity and format of log lines."""

    verbose: int = 0
    log_format: str = "text"

    def configure(self, *, over_status_line: bool = False) -> None:
        """Send Mooring's logs to standard error in this form."""
        logs.configure(self.verbose, "json" if self.log_format == "json" else "text", over_status_line=over_status_line)


log_flags = group_flags(
    "log",
    LogFlags,
    click.option("-v", "--verbose", count=True, help="Log more. Can be repeated."),
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="The format of log lines."),
)
"""The command gets `LogFlags` as `log`."""


def worker_flags(port: int) -> Decorator:
    """Add the flags of components without an API server: the address of health and metrics as `listen`, and `log`."""
    return group_flags(
        "listen",
        lambda bind_address, port: (bind_address, port),
        click.option("--bind-address", default="127.0.0.1", metavar="IP", help="The address for health and metrics."),
        click.option(
            "--port",
            type=click.IntRange(-1, 65535),
            default=port,
            help="The port for health and metrics. 0: any; -1: none.",
        ),
        log_flags,
    )
