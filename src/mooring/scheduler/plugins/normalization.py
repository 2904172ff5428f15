"""Points in proportion to the best feasible node's: the normalisation that most plugins share."""

from mooring.scheduler.framework import MAX_NODE_SCORE, Mask, Scores


class Proportional:
    """The best gets 100 points and the others their share of that; reversed, the one with least gets 100.

    When nobody has any points, everybody gets 0, or 100 when reversed.
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
