"""What is wrong with a trace: the first mistake ends the reading, or, if asked, mistakes are skipped and counted."""

from collections import Counter

from mooring.advisor.simulate.traces.events import LONGEST, LONGEST_GAP, TraceError

_SHOWN = 5


class Complaints:
    def __init__(self, *, skips: bool = False) -> None:
        self._skips = skips
        self.skipped = 0
        self._examples: list[str] = []
        self._notes: Counter[str] = Counter()

    def bad(self, place: str, message: str) -> None:
        """Something cannot be used. Raises TraceError, unless mistakes are to be skipped."""
        text = f"{place}: {message}"
        if not self._skips:
            raise TraceError(f"{text} (--skip-bad leaves such lines out and counts them)")
        self.skipped += 1
        if len(self._examples) < _SHOWN:
            self._examples.append(text)

    def note(self, place: str, message: str) -> None:
        """Something is odd but can be replayed."""
        if message not in self._notes and len(self._notes) < 1000:
            self._examples.append(f"{place}: {message}")
        self._notes[message] += 1

    def told(self) -> list[str]:
        """For people: examples, and how many there were."""
        found = list(self._examples)
        if self.skipped:
            found.append(f"{self.skipped:,} lines were skipped")
        return found


class Times:
    """Checks the times of a file's lines: numbers, not negative, in order, without impossible gaps."""

    def __init__(self, *, ordered: bool = True) -> None:
        self._ordered = ordered
        self._last = 0.0
        self._last_place = ""

    def problem(self, at: float, place: str) -> str:
        """What is wrong with a time, empty when nothing is: then the next one is compared with it."""
        if not 0 <= at <= LONGEST:  # false for what is no number, too
            return f"the time {at:g} is {'negative' if at < 0 else 'not one that a trace can have'}"
        if self._ordered and at < self._last:
            return f"the time {at:g} is before {self._last:g}, that of {self._last_place}: sort the events by time"
        if self._ordered and self._last_place and at - self._last > LONGEST_GAP:
            return (
                f"nothing happens for {at - self._last:,.0f} s, which is more than ten years: look at the time {at:g}"
            )
        self._last, self._last_place = at, place
        return ""
