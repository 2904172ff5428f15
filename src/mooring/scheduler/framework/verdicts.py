"""Arrays that vectorised plugins return: a verdict or a score for each row of the node table.

A row is a node's place in the columns (`mooring.scheduler.columns`); rows without a node are masked out by the
framework, so plugins need not care what they say about them. `rows` is what to judge: `ALL_ROWS`, or an array of
row numbers when only those have changed; `column[rows]` serves both.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.framework.status import Code, Status

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Scores: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = slice | NDArray[np.intp]

ALL_ROWS: Rows = slice(None)
MAX_NODE_SCORE = 100
"""Scores are between 0 and this, after normalisation and before the plugin's weight."""


class Verdicts(NamedTuple):
    """Verdicts of one Filter plugin: 0 passes, a positive code is Unschedulable, a negative one Unresolvable.

    The array belongs to the framework from then on: it is kept and changed.
    """

    codes: Codes
    reasons: Callable[[int], tuple[str, ...]]
    """The reasons for the absolute value of a code; called only when somebody wants to read them."""


def status_of(code: int, reasons: Callable[[int], tuple[str, ...]], plugin: str) -> Status:
    """The status that a code of `Verdicts` stands for."""
    kind = Code.UNSCHEDULABLE if code > 0 else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Status(kind, reasons(abs(code)), plugin)
