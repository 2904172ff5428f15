"""`mooring completion`: the script that makes a shell complete Mooring's commands and flags."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      source <(mooring completion bash)
      mooring completion fish > ~/.config/fish/completions/mooring.fish
    """
    from mooring.cli.main import mooring  # noqa: PLC0415 - main loads this module on demand

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - the choices above are click's own
    click.echo(found(mooring, {}, "mooring", "_MOORING_COMPLETE").source())
