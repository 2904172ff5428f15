"""The flags of components other than the API server: health and metrics address, and logging."""

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., None])


def worker_flags(port: int) -> Callable[[Command], Command]:
    """Add `--bind-address`, `--port`, `-v` and `--log-format` to a command."""
    flags = (
        click.option(
            "--bind-address", default="127.0.0.1", show_default=True, metavar="IP", help="Where health and metrics are."
        ),
        click.option(
            "--port",
            type=click.IntRange(-1, 65535),
            default=port,
            show_default=True,
            help="Port of health and metrics. 0: any free one; -1: none.",
        ),
        click.option("-v", "--verbose", count=True, help="Log more; twice for even more."),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="How log lines are written.",
        ),
    )

    def add(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add
