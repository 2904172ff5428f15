"""Normalise scores in proportion to the best feasible node's, as most plugins do."""

from typing import TypeVar

from mooring.scheduler.framework import MAX_NODE_SCORE, Mask, ScorePlugin, Scores

S = TypeVar("S")


class Proportional(ScorePlugin[S]):
    """Scale the scores of feasible nodes so that the highest becomes 100; reversed, the lowest score becomes 100.

    If every score is 0, all become 0, or 100 when reversed.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        self._reverse = reverse

    def span(self, scores: Scores, feasible: Mask) -> tuple[int, ...]:
        return (int((scores * feasible).max(initial=0)),)

    def normalized(self, scores: Scores, span: tuple[int, ...]) -> Scores:
        [largest] = span
        if not largest:
            return scores * 0 + (MAX_NODE_SCORE if self._reverse else 0)
        share = MAX_NODE_SCORE * scores // largest
        return MAX_NODE_SCORE - share if self._reverse else share
