"""The type of flags that say how long something lasts: `15s`, `1m30s`, as Kubernetes' own flags."""

from typing import Any

import click

from mooring.base import durations


class Duration(click.ParamType[float]):
    """Seconds, written as Go does; a bare 0 is one too."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click sets the signature
        return "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        try:
            return 0.0 if value == "0" else durations.seconds(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
