"""The command `mooring`: a group of commands, one file each, loaded only when they are called."""

import os
import sys
from importlib import import_module
from typing import Any

import click

import mooring as package

COMMANDS = {
    "up": "Run a whole control plane with simulated nodes.",
    "demo": "Show five Kubernetes proposals in two minutes.",
    "explain": "Say why a pod is pending, and what would help.",
    "simulate": "Say where pods would go if the cluster were changed.",
    "record": "Write what happens in a cluster into a trace, to be replayed.",
    "experiment": "Run many simulations from one file, into one table.",
    "audit": "Say what breaks when versions or gates change.",
    "dashboard": "See all of that in a browser.",
    "lint": "Judge manifests as an API server would, with advice.",
    "policy": "Try admission policies on manifests, without a cluster.",
    "dump": "Write a cluster into one file, for the questions above.",
    "bridge": "Bring the new constraints to a stock Kubernetes cluster.",
    "cel": "Check, evaluate and price CEL expressions.",
    "gates": "List the feature gates at a version.",
    "version": "Show the versions of this binary.",
    "apiserver": "Run the API server alone.",
    "scheduler": "Run the scheduler alone, also for another cluster.",
    "controllers": "Run the controllers alone.",
    "join-config": "Write what a real node needs to join the cluster.",
    "store": "Copy, back up, restore, check and measure stores.",
    "completion": "Print the completion script of a shell.",
}
"""What `mooring --help` says of each command (loading them all for that would take a second), in its order: what a
newcomer tries first comes first. A command is a function in a module of its own name in `mooring.cli.commands`."""


class _ReaderGoneError(Exception):
    """Nobody reads what is printed any more, as in `mooring gates | head -1`."""


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for, so that `mooring version` does not load the scheduler."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as problem:  # which click would make a failure of
            if not _reader_is_gone():
                raise
            raise _ReaderGoneError from problem

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click sets the signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click sets the signature
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"mooring.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

            near = get_close_matches(args[0], COMMANDS)
            hint = f"; did you mean {near[0]}?" if near else "; `mooring --help` lists them"
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package.__version__, message="mooring %(version)s")
def mooring() -> None:
    """A Kubernetes-compatible scheduling control plane with numeric, semantic-version and CEL constraints."""


def main() -> None:
    """The entry point: exit code 0 for success, 1 for a failure, 2 for a wrong call, 130 after Ctrl-C."""
    _open_standard_streams()
    try:
        code = mooring.main(standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except _ReaderGoneError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print goes there
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _open_standard_streams() -> None:
    """Let nothing else get the numbers of streams that were closed (`mooring up <&-`): libuv ends a process for it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _reader_is_gone() -> bool:
    from select import POLLERR, poll  # noqa: PLC0415 - only few need it

    asked = poll()
    asked.register(sys.stdout.fileno(), 0)
    return any(what & POLLERR for _, what in asked.poll(0))
