"""The progress line of `mooring simulate --trace` on standard error, on terminals only."""

import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mooring.base.logs import CLEAR_LINE

if TYPE_CHECKING:
    from mooring.advisor.simulate.traces.replaying import Progress

_SECONDS = 0.1
_BAR = 20
_BYTES_A_LINE = 80
"""An estimate, until the file has been read."""


class TraceProgress:
    """Called with the progress; ended by leaving its context."""

    def __init__(self, size: int) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._last = 0.0
        self._lines = max(size // _BYTES_A_LINE, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_terminal:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def __call__(self, progress: "Progress") -> None:
        now = time.monotonic()
        if not self._on_terminal or now - self._last < _SECONDS:
            return
        self._last = now
        from mooring.advisor.simulate.clock import format_seconds  # noqa: PLC0415 - imported by the caller already

        full = min(round(_BAR * progress.events / self._lines), _BAR - 1)
        bar = "█" * full + "░" * (_BAR - full)
        text = (
            f"{bar} {progress.events:,} events · {format_seconds(progress.seconds)} · {progress.running:,} pods run, "
            f"{progress.waiting:,} wait"
        )
        sys.stderr.write(CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
