"""The progress line of `mooring simulate` on standard error, on terminals only."""

import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mooring.base.logs import CLEAR_LINE

if TYPE_CHECKING:
    from mooring.advisor.simulate import Progress

_SECONDS = 0.1
_BAR = 20


class SimulationProgress:
    """Called with how far it is; ended by leaving its context."""

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

    def __call__(self, progress: "Progress") -> None:
        now = time.monotonic()
        if not self._on_terminal or now - self._last < _SECONDS:
            return
        self._last = now
        from mooring.advisor.simulate.clock import format_seconds  # noqa: PLC0415 - imported by the caller already

        total = progress.running + progress.waiting
        full = round(_BAR * progress.running / total) if total else 0
        bar = "█" * full + "░" * (_BAR - full)
        doing = "".join(letter if letter.isprintable() else " " for letter in progress.doing)
        text = f"{bar} {progress.running:,} of {total:,} pods run · {format_seconds(progress.seconds)} · {doing}"
        sys.stderr.write(CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
