"""Lower tolerations: an `Equal` toleration for each given taint whose first match is an unsupported toleration.

For each taint the first matching toleration in list order applies (it sets `tolerationSeconds`), so an `Equal`
toleration takes the position of the one that it replaces, and taints that an earlier one matches need none. The result
for one taint does not depend on the others: more taints only add tolerations.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mooring.api.core_v1 import Taint, Toleration
from mooring.constraints.lowering.support import STOCK, common_features, is_unsupported
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import EQUAL, NO_EXECUTE, index_tolerations


class _TaintIdentity(NamedTuple):
    """The properties of a taint that an upstream toleration can distinguish; CEL can also read `timeAdded`."""

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
    """Return tolerations that match, under upstream rules, the same `taints` for as long.

    From index `foreign_from` on, replace every toleration by `Equal` tolerations, whatever its operator.

    Taints that differ in `timeAdded` only are one taint to upstream rules: it is tolerated if the original tolerates
    all of them, for the shortest of their periods.
    """
    known = common_features(known, options)
    first = len(tolerations) if foreign_from is None else foreign_from
    foreign = [place >= first or is_unsupported(each, known) for place, each in enumerate(tolerations)]
    if not any(foreign):
        return list(tolerations)
    added: dict[int, list[Toleration]] = defaultdict(list)
    index = index_tolerations(tolerations, options)
    for identity, group in _group_by_identity(taints).items():
        firsts = [index.first_match(taint) for taint in group]
        places = [place for place in firsts if place is not None]
        new = [place for place in places if foreign[place]]
        if new and len(places) == len(firsts):
            seconds = [tolerations[place].toleration_seconds for place in places]
            added[min(new)].append(_equal(identity, min((s for s in seconds if s is not None), default=None)))
    lowered: list[Toleration] = []
    for place, toleration in enumerate(tolerations):
        lowered += added[place] if foreign[place] else [toleration]
    return lowered


def _group_by_identity(taints: Iterable[Taint]) -> dict[_TaintIdentity, list[Taint]]:
    """Group taints by what upstream rules can distinguish, in an order independent of the nodes' order."""
    found: dict[_TaintIdentity, list[Taint]] = defaultdict(list)
    for taint in taints:
        found[_TaintIdentity(taint.key, taint.value, taint.effect)].append(taint)
    return dict(sorted(found.items()))


def _equal(words: _TaintIdentity, seconds: int | None) -> Toleration:
    return Toleration(
        key=words.key,
        operator=EQUAL,
        value=words.value,
        effect=words.effect,
        # Kubernetes rejects tolerationSeconds with any other effect, where it has no meaning.
        toleration_seconds=seconds if words.effect == NO_EXECUTE else None,
    )
