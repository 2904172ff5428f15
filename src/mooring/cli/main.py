"""The command `mooring`: a group of commands, one file each, loaded only when they are called."""

import sys
from importlib import import_module

import click

COMMANDS = {
    "up": "mooring.cli.up:up",
    "apiserver": "mooring.cli.apiserver:apiserver",
    "scheduler": "mooring.cli.scheduler:scheduler",
    "lint": "mooring.cli.lint:lint",
    "explain": "mooring.cli.explain:explain",
    "audit": "mooring.cli.audit:audit",
    "simulate": "mooring.cli.simulate:simulate",
    "controllers": "mooring.cli.controllers:controllers",
    "store": "mooring.cli.store:store",
    "demo": "mooring.cli.demo:demo",
    "version": "mooring.cli.version:version",
    "gates": "mooring.cli.gates:gates",
    "cel": "mooring.cli.cel:cel",
    "completion": "mooring.cli.completion:completion",
}
"""Command name to the module and attribute that has it, in the order of `mooring --help`."""


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for, so that `mooring version` does not load the scheduler."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click sets the signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click sets the signature
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def mooring() -> None:
    """A Kubernetes-compatible scheduling control plane with numeric, semantic-version and CEL constraints."""


def main() -> None:
    """The entry point: exit code 0 for success, 1 for a failure, 2 for a wrong call, 130 after Ctrl-C."""
    try:
        code = mooring.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as in `mooring gates | head -1`
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
