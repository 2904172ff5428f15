"""The click type of duration flags: `15s`, `1m30s`, as in Kubernetes' flags."""

from typing import Any

import click

from mooring.base import durations


class Duration(click.ParamType[float]):
    """Seconds, parsed from Go's duration syntax; a bare 0 is accepted."""

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
