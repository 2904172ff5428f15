"""Progress of commands on standard error: a bar, or a line that changes, on a terminal; few lines or none elsewhere."""

import shutil
import sys
import time
from typing import TYPE_CHECKING, Self

import click

from mooring.base.logs import CLEAR_LINE

if TYPE_CHECKING:
    from mooring.advisor.simulate import Progress as SimulationState
    from mooring.advisor.simulate.traces.replaying import ReplayProgress as ReplayState

_LINE_SECONDS = 5.0
_DRAW_SECONDS = 0.1
_BAR = 20
_BYTES_A_LINE = 80
"""An estimate, until the trace has been read."""


class _ProgressLine:
    """A line on a terminal that is redrawn at most every tenth of a second, and cleared when the context ends."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._on_terminal:
            self._write("")

    def _is_due(self, seconds: float = _DRAW_SECONDS) -> bool:
        now = time.monotonic()
        if now - self._last < seconds:
            return False
        self._last = now
        return True

    def _draw(self, full: int, text: str) -> None:
        self._write(f"{'█' * full}{'░' * (_BAR - full)} {text}"[: shutil.get_terminal_size().columns - 1])

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(CLEAR_LINE + text)
        sys.stderr.flush()


class Progress(_ProgressLine):
    """Shows progress when called with a label, the amount done and the total: a bar, or a line every five seconds."""

    def __init__(self, doing: str) -> None:
        super().__init__()
        self._doing = doing
        self._last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        text = f"{self._doing}: {done:,} of {total:,} {what}"
        if not total or not (done == total or self._is_due(_DRAW_SECONDS if self._on_terminal else _LINE_SECONDS)):
            return
        if self._on_terminal:
            self._draw(round(_BAR * done / total), text)
        else:
            click.echo(text, err=True)


class SimulationProgress(_ProgressLine):
    """Redraws a bar of the running pods when called with the state of a simulation; nothing without a terminal."""

    def __call__(self, state: "SimulationState") -> None:
        if not (self._on_terminal and self._is_due()):
            return
        from mooring.advisor.simulate.clock import format_seconds

        total = state.running + state.waiting
        doing = "".join(letter if letter.isprintable() else " " for letter in state.doing)
        text = f"{state.running:,} of {total:,} pods run · {format_seconds(state.seconds)} · {doing}"
        self._draw(round(_BAR * state.running / total) if total else 0, text)


class TraceProgress(_ProgressLine):
    """Redraws a bar of the read part when called with the state of a replay of a trace of `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._lines = max(size // _BYTES_A_LINE, 1)

    def __call__(self, state: "ReplayState") -> None:
        if not (self._on_terminal and self._is_due()):
            return
        from mooring.advisor.simulate.clock import format_seconds

        pods = f"{state.running:,} pods run, {state.waiting:,} wait"
        text = f"{state.events:,} events · {format_seconds(state.seconds)} · {pods}"
        self._draw(min(round(_BAR * state.events / self._lines), _BAR - 1), text)
