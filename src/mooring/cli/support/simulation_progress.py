"""The progress lines of simulations and replayed traces on standard error, on terminals only."""

import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mooring.base.logs import CLEAR_LINE

if TYPE_CHECKING:
    from mooring.advisor.simulate import Progress
    from mooring.advisor.simulate.traces.replaying import Progress as ReplayProgress

_SECONDS = 0.1
_BAR = 20
_BYTES_PER_LINE = 80
"""An estimate, until the file has been read."""


class _ProgressLine:
    """Write a line at most ten times a second; clear it when the context ends."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_terminal:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def _is_due(self) -> bool:
        now = time.monotonic()
        if not self._on_terminal or now - self._last < _SECONDS:
            return False
        self._last = now
        return True

    @staticmethod
    def _write(full: int, text: str) -> None:
        line = f"{'█' * full}{'░' * (_BAR - full)} {text}"
        sys.stderr.write(CLEAR_LINE + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()


class SimulationProgress(_ProgressLine):
    """Show how many pods of a simulation run."""

    def __call__(self, progress: "Progress") -> None:
        if not self._is_due():
            return
        from mooring.advisor.simulate.clock import format_seconds  # noqa: PLC0415 - imported by the caller already

        total = progress.running + progress.waiting
        doing = "".join(letter if letter.isprintable() else " " for letter in progress.doing)
        text = f"{progress.running:,} of {total:,} pods run · {format_seconds(progress.seconds)} · {doing}"
        self._write(round(_BAR * progress.running / total) if total else 0, text)


class TraceProgress(_ProgressLine):
    """Show how many events of a trace have been replayed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._lines = max(size // _BYTES_PER_LINE, 1)

    def __call__(self, progress: "ReplayProgress") -> None:
        if not self._is_due():
            return
        from mooring.advisor.simulate.clock import format_seconds  # noqa: PLC0415 - imported by the caller already

        text = (
            f"{progress.events:,} events · {format_seconds(progress.seconds)} · {progress.running:,} pods run, "
            f"{progress.waiting:,} wait"
        )
        self._write(min(round(_BAR * progress.events / self._lines), _BAR - 1), text)
