"""Errors of a trace: the first ends reading, or, on request, errors are skipped and counted."""

from collections import Counter

from mooring.advisor.simulate.traces.events import MAX_GAP_SECONDS, MAX_SECONDS, TraceError

_SHOWN = 5


class Complaints:
    def __init__(self, *, skips: bool = False) -> None:
        self._skips = skips
        self.skipped = 0
        self._examples: list[str] = []
        self._notes: Counter[str] = Counter()

    def bad(self, place: str, message: str) -> None:
        """Report an unusable line. Raise TraceError, unless errors are skipped."""
        text = f"{place}: {message}"
        if not self._skips:
            raise TraceError(f"{text} (--skip-bad leaves such lines out and counts them)")
        self.skipped += 1
        if len(self._examples) < _SHOWN:
            self._examples.append(text)

    def note(self, place: str, message: str) -> None:
        """Report something unusual that can be replayed."""
        if message not in self._notes and len(self._notes) < 1000:
            self._examples.append(f"{place}: {message}")
        self._notes[message] += 1

    def summary(self) -> list[str]:
        """Return examples and the number of skipped lines, for people."""
        found = list(self._examples)
        if self.skipped:
            found.append(f"{self.skipped:,} lines were skipped")
        return found


class Times:
    """Check the times of a file's lines: numbers, not negative, in order, without impossible gaps."""

    def __init__(self, *, ordered: bool = True) -> None:
        self._ordered = ordered
        self._last = 0.0
        self._last_place = ""

    def problem(self, at: float, place: str) -> str:
        """Return the error of a time, or empty if it is valid."""
        if not 0 <= at <= MAX_SECONDS:  # also false for NaN
            return f"the time {at:g} is {'negative' if at < 0 else 'not one that a trace can have'}"
        if self._ordered and at < self._last:
            return f"the time {at:g} is before {self._last:g}, that of {self._last_place}: sort the events by time"
        if self._ordered and self._last_place and at - self._last > MAX_GAP_SECONDS:
            return (
                f"nothing happens for {at - self._last:,.0f} s, which is more than ten years: look at the time {at:g}"
            )
        self._last, self._last_place = at, place
        return ""
