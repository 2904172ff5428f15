"""Tolerations in stock words: `Equal` for each of the given taints that a foreign toleration is the first to match.

For each taint the first matching toleration in list order counts (it brings the `tolerationSeconds`), so an `Equal`
toleration takes the place of the toleration that it stands for, and taints that an earlier one matches get none. What
becomes of one taint does not depend on the others: as taints come, tolerations are only added.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mooring.api.core_v1 import Taint, Toleration
from mooring.constraints.lowering.words import STOCK, is_foreign, understood
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import EQUAL, NO_EXECUTE, tolerates


class _Words(NamedTuple):
    """What a stock toleration can tell apart in taints. CEL can also tell them by `timeAdded`."""

    key: str
    value: str
    effect: str


def lower_tolerations(
    tolerations: Sequence[Toleration],
    taints: Iterable[Taint],
    options: ConstraintOptions,
    known: ConstraintOptions = STOCK,
    *,
    foreign_from: int | None = None,
) -> list[Toleration]:
    """Tolerations that match, under stock rules, those of `taints` that the given ones match, for as long.

    From the place `foreign_from` on, all of them are said in `Equal` tolerations, whatever their words are.

    Taints that differ in nothing but `timeAdded` are one taint to stock rules: it is tolerated when the original
    tolerates all of them, for the shortest of their periods.
    """
    known = understood(known, options)
    first = len(tolerations) if foreign_from is None else foreign_from
    foreign = [place >= first or is_foreign(each, known) for place, each in enumerate(tolerations)]
    if not any(foreign):
        return list(tolerations)
    added: dict[int, list[Toleration]] = defaultdict(list)
    for words, alike in _by_words(taints).items():
        firsts = [_first_match(tolerations, taint, options) for taint in alike]
        places = [place for place in firsts if place is not None]
        new = [place for place in places if foreign[place]]
        if new and len(places) == len(firsts):
            seconds = [tolerations[place].toleration_seconds for place in places]
            added[min(new)].append(_equal(words, min((s for s in seconds if s is not None), default=None)))
    lowered: list[Toleration] = []
    for place, toleration in enumerate(tolerations):
        lowered += added[place] if foreign[place] else [toleration]
    return lowered


def _by_words(taints: Iterable[Taint]) -> dict[_Words, list[Taint]]:
    """The distinct taints, in an order that does not depend on the order of the nodes they come from."""
    found: dict[_Words, list[Taint]] = defaultdict(list)
    for taint in taints:
        found[_Words(taint.key, taint.value, taint.effect)].append(taint)
    return dict(sorted(found.items()))


def _first_match(tolerations: Sequence[Toleration], taint: Taint, options: ConstraintOptions) -> int | None:
    for place, toleration in enumerate(tolerations):
        if tolerates(toleration, taint, options):
            return place
    return None


def _equal(words: _Words, seconds: int | None) -> Toleration:
    return Toleration(
        key=words.key,
        operator=EQUAL,
        value=words.value,
        effect=words.effect,
        # Beside another effect Kubernetes refuses it, and it says nothing there.
        toleration_seconds=seconds if words.effect == NO_EXECUTE else None,
    )
