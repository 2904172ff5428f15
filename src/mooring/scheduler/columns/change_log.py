"""Which rows have changed since a reader last looked.

A reader remembers `position` and later asks `since(position)`. The log forgets its older half when it has grown longer
than the table; a reader that comes too late gets None and looks at all rows, which is then cheaper anyway.
"""

import numpy as np
from numpy.typing import NDArray

_SLACK = 256


class ChangeLog:
    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0
        self.limit = _SLACK
        """How many changes are remembered: as many as there are rows."""

    @property
    def position(self) -> int:
        return self._forgotten + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * (self.limit + _SLACK):
            half = len(self._rows) // 2
            del self._rows[:half]
            self._forgotten += half

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The rows that changed after `position`, each once; None when they are too many or forgotten."""
        start = position - self._forgotten
        if start < 0:
            return None
        changed = self._rows[start:]
        if len(changed) == 1:
            return np.array(changed, np.intp)
        if 4 * len(changed) > self.limit + _SLACK:
            return None
        return np.array(sorted(set(changed)), np.intp)
