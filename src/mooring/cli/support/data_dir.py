"""The type of `--data-dir`, for `mooring apiserver` and `mooring up`."""

from pathlib import Path
from typing import Any

import click


class DataDir(click.Path):
    """A directory, which need not exist. An empty name (an unset variable) is rejected: it would mean the current
    one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty; use . for the current directory", param, ctx)
        return super().convert(value, param, ctx)
