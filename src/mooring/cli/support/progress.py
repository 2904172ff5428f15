"""Progress of a command: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, Self

import click

_LINE_SECONDS = 5.0


class Progress:
    """Called with a label, the amount done and the total; ended by leaving its context."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._bar: Any = None  # click's type of it is not public
        self._done = 0
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def __call__(self, what: str, done: int, total: int) -> None:
        if not total:
            return
        if sys.stderr.isatty():
            self._draw(what, done, total)
        elif done == total or time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._last_line = time.monotonic()
            click.echo(f"{self._doing}: {done:,} of {total:,} {what}", err=True)

    def _draw(self, what: str, done: int, total: int) -> None:
        if self._bar is None:
            bar = click.progressbar(length=total, label=f"{self._doing} {total:,} {what}", file=sys.stderr)
            self._bar, self._done = bar.__enter__(), 0
        self._bar.update(done - self._done)
        self._done = done
        if done == total:
            self._end_bar()

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
