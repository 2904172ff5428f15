"""The command `mooring`: a group of commands, one file each, imported only when called.

The same program answers by three names: `mooring`, `kubectl-mooring` (which kubectl runs as `kubectl mooring`) and
`kubectl_complete-mooring` (which kubectl asks when Tab is pressed).
"""

import gc
import os
import re
import sys
from importlib import import_module
from pathlib import PurePath
from typing import Any

import click

import mooring as package
from mooring.cli import PLUGIN

COMMANDS = {
    "up": "Run a whole control plane with simulated nodes.",
    "demo": "Show five Kubernetes proposals in two minutes.",
    "explain": "Explain why pods do not run, and what would help.",
    "simulate": "Show where pods would go if the cluster were changed.",
    "record": "Record the changes of a cluster in a trace, for simulate.",
    "experiment": "Run many simulations from one file, into one table.",
    "plan": "Show what applying manifests would change, and whether it fits.",
    "upgrade-check": "Check whether an upgrade succeeds, with drains and rollback.",
    "audit": "Report what breaks when versions or gates change.",
    "dashboard": "Show a cluster and this advice in a browser.",
    "exporter": "Serve metrics of pending pods with their reasons.",
    "mcp": "Serve read-only tools for agents.",
    "lint": "Validate manifests as an API server would, with advice.",
    "policy": "Try admission policies on manifests, without a cluster.",
    "dump": "Write a cluster into one file, for the commands above.",
    "rights": "Print the ClusterRole that the commands above need.",
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


_CALL = re.compile(rf"(?<!kubectl )\bmooring(?= (?:{'|'.join(COMMANDS)})\b)")
"""Matches a call of the command in a help text."""


_KUBECTL_OPTION = re.compile(r"(--context|--kubeconfig|--namespace|-n)(?P<value>=.*)?")

_REPEATED = " Can be repeated."


class _ReaderGoneError(Exception):
    """Raised when the reader of standard output has closed it, as in `mooring gates | head -1`."""


class _LazyGroup(click.Group):
    """A group that imports a command's module on demand, so that `mooring version` does not load the scheduler."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as problem:  # click would report a failure
            if not _is_reader_gone():
                raise
            raise _ReaderGoneError from problem

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click sets the signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"mooring.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        _complete_help(command)
        if ctx.find_root().info_name == PLUGIN:
            _rewrite_help_for_kubectl(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept kubectl's global options before the command too: `kubectl mooring --context prod explain -A`."""
        count = 0
        while count < len(args) and (option := _KUBECTL_OPTION.fullmatch(args[count])):
            count += 1 if option["value"] else 2
        return super().parse_args(ctx, [*args[count : count + 1], *args[:count], *args[count + 1 :]])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS)
            hint = f"; did you mean {near[0]}?" if near else f"; `{ctx.command_path} --help` lists them"
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package.__version__, message="mooring %(version)s")
def mooring() -> None:
    """Run and query a Kubernetes-compatible scheduling control plane with numeric, semantic-version and CEL
    constraints."""


def _complete_help(command: click.Command) -> None:
    """Add to the help of every option its default, and whether it can be repeated."""
    for each in command.params:
        if not isinstance(each, click.Option):
            continue
        if each.show_default is None and isinstance(each.default, str | int | float):
            each.show_default = bool(each.default)
        is_repeated = each.multiple and each.callback is None and type(each) is click.Option
        if is_repeated and each.help and not each.help.endswith(_REPEATED):
            each.help += _REPEATED
    for sub in command.commands.values() if isinstance(command, click.Group) else ():
        _complete_help(sub)


def _rewrite_help_for_kubectl(command: click.Command) -> None:
    command.help = command.help and _CALL.sub(PLUGIN, command.help)
    for each in command.params:
        if isinstance(each, click.Option) and each.help:
            each.help = _CALL.sub(PLUGIN, each.help)
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            _rewrite_help_for_kubectl(sub)


def main() -> None:
    """Run the command by the program's name. Exit with 0 for success, 1 for a failure, 2 for a wrong call, 130 after
    Ctrl-C.
    """
    _open_standard_streams()
    name = PurePath(sys.argv[0]).name
    if name.startswith("kubectl_complete-"):
        _complete_for_kubectl(sys.argv[1:])
        return
    prog_name = PLUGIN if name.startswith("kubectl-") else None
    try:
        code = mooring.main(
            prog_name=prog_name, standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None
        )
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        code = error.exit_code
        if prog_name and not isinstance(error, click.UsageError):  # those name the program themselves
            error = click.ClickException(_CALL.sub(PLUGIN, error.message))
        error.show()
        sys.exit(code)
    except _ReaderGoneError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print goes there
        sys.exit(0)
    finally:
        gc.freeze()  # or the interpreter visits every object of a large cluster before it exits
    sys.exit(code if isinstance(code, int) else 0)


def _complete_for_kubectl(words: list[str]) -> None:
    """Print completions of the last word as kubectl reads them: one a line, then a directive about file names."""
    from click.shell_completion import ShellComplete

    *arguments, incomplete = words or [""]
    items = ShellComplete(mooring, {}, PLUGIN, "").get_completions(arguments, incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    takes_files = any(item.type != "plain" for item in items)
    click.echo(":0" if takes_files else ":4")  # the directives "default" and "no file names"


def _open_standard_streams() -> None:
    """Reopen closed standard streams (`mooring up <&-`), so that no other file gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _is_reader_gone() -> bool:
    from select import POLLERR, poll

    asked = poll()
    asked.register(sys.stdout.fileno(), 0)
    return any(what & POLLERR for _, what in asked.poll(0))
