"""Arrays that vectorised plugins return: a verdict or a score for each row of the node table.

A row is the index of a node in the columns (`mooring.scheduler.columns`). The framework masks rows without a node, so
plugins may return anything for them. The argument `rows` is `ALL_ROWS`, or an array of row numbers if only these
changed; `column[rows]` works for both.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.framework.status import Code, Status

K = TypeVar("K")
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Scores: TypeAlias = NDArray[np.signedinteger[Any]]
Rows: TypeAlias = slice | NDArray[np.intp]

ALL_ROWS: Rows = slice(None)
ALL_PASS: Codes = np.empty(0, np.int32)
"""Codes that a Filter plugin may return for `ALL_ROWS` if every node passes."""
MAX_NODE_SCORE = 100
"""Scores are between 0 and this, after normalisation and before the plugin's weight."""


class Verdicts(NamedTuple):
    """A Filter plugin's verdicts by node row: 0 passes, above 0 is Unschedulable, below 0 Unresolvable.

    The framework keeps the array and modifies it.
    """

    codes: Codes
    reasons: Callable[[int], tuple[str, ...]]
    """Return the reasons that a verdict code (its absolute value) stands for. Called only for messages."""


class ReasonSets(Generic[K]):
    """Verdict codes of a plugin for sets of reasons, numbered from 1; `describe` returns the reasons of a set's key."""

    def __init__(self, describe: Callable[[K], tuple[str, ...]]) -> None:
        self._describe = describe
        self._keys: list[K] = []
        self._codes: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def code(self, key: K) -> int:
        """Return the verdict code of a set of reasons; a new one if the set is new."""
        code = self._codes.get(key)
        if code is None:
            self._keys.append(key)
            code = self._codes[key] = len(self._keys)
        return code

    def reasons(self, code: int) -> tuple[str, ...]:
        return self._describe(self._keys[code - 1])


def status_of(code: int, reasons: Callable[[int], tuple[str, ...]], plugin: str) -> Status:
    """Return a plugin's rejection for a code of its `Verdicts`: unschedulable if positive, unresolvable if negative."""
    kind = Code.UNSCHEDULABLE if code > 0 else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Status(kind, reasons(abs(code)), plugin)


def count_codes(codes: Codes) -> list[tuple[int, int]]:
    """Return the distinct verdict codes in ascending order, with the number of occurrences of each."""
    if not len(codes):
        return []
    lowest, highest = int(codes.min()), int(codes.max())
    if lowest == highest:
        return [(lowest, len(codes))]
    if highest - lowest > len(codes):
        found, numbers = np.unique(codes, return_counts=True)
        return list(zip(found.tolist(), numbers.tolist(), strict=True))
    return [(code, number) for code, number in enumerate(np.bincount(codes - lowest).tolist(), lowest) if number]
