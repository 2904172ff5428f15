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
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - the choices above are click's own
    whole = click.get_current_context().find_root().command
    click.echo(found(whole, {}, "mooring", "_MOORING_COMPLETE").source())
