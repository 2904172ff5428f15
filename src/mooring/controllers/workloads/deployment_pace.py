"""Compute the next size of each ReplicaSet of a Deployment, as Kubernetes does. Pure functions.

A rolling update keeps at least `replicas - maxUnavailable` pods available and at most `replicas + maxSurge` in all.
Functions take ReplicaSets and return sizes by name; ``deployment.py`` writes them.
"""

from collections.abc import Iterable, Mapping, Sequence

from mooring.api.apps_v1 import Deployment, ReplicaSet
from mooring.api.int_or_string import scaled_value

DESIRED = "deployment.kubernetes.io/desired-replicas"
"""A ReplicaSet's annotation with the Deployment's replicas at the last scaling; another number means resized."""
MAXIMUM = "deployment.kubernetes.io/max-replicas"
"""The annotation of a ReplicaSet with the Deployment's replicas plus surge when it was last scaled."""

Sizes = Mapping[str, int]


def wanted_replicas(owner: Deployment | ReplicaSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def total_replicas(sets: Iterable[ReplicaSet]) -> int:
    return sum(map(wanted_replicas, sets))


def sort_by_age(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return ReplicaSets sorted by age, oldest first."""
    return sorted(sets, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def resolve_surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable in pods. If both round to 0, one pod may be unavailable."""
    pace = deployment.spec.strategy.rolling_update
    if pace is None or not is_rolling(deployment):
        return 0, 0
    wanted = wanted_replicas(deployment)
    surge = scaled_value(pace.max_surge or 0, wanted, round_up=True)
    unavailable = scaled_value(pace.max_unavailable or 0, wanted, round_up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def max_surge(deployment: Deployment) -> int:
    return resolve_surge_and_unavailable(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """Return how many pods may be unavailable, at most all."""
    return min(resolve_surge_and_unavailable(deployment)[1], wanted_replicas(deployment))


def compute_new_size(deployment: Deployment, sets: Sequence[ReplicaSet], current: int) -> int:
    """Return the size to which the current template's ReplicaSet, now `current`, may be scaled within maxSurge."""
    wanted = wanted_replicas(deployment)
    if not is_rolling(deployment) or current > wanted:
        return wanted
    room = wanted + max_surge(deployment) - total_replicas(sets)
    return current if room <= 0 else current + min(room, wanted - current)


def compute_old_sizes(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes to which a rolling update may shrink old ReplicaSets, unavailable pods first."""
    active = sort_by_age(each for each in old if wanted_replicas(each))
    sizes = {each.metadata.name: wanted_replicas(each) for each in active}
    least = wanted_replicas(deployment) - max_unavailable(deployment)
    new_unavailable = wanted_replicas(new) - new.status.available_replicas
    room = total_replicas([*old, new]) - least - new_unavailable
    if room <= 0:
        return {}
    for each in active:
        cut = max(0, min(room, wanted_replicas(each) - each.status.available_replicas))
        sizes[each.metadata.name] -= cut
        room -= cut
    # Only pods that stay after scaling count: the status may include terminating ones.
    room = sum(min(wanted_replicas(each), each.status.available_replicas) for each in (*old, new)) - least
    for each in active:
        cut = max(0, min(room, sizes[each.metadata.name]))
        sizes[each.metadata.name] -= cut
        room -= cut
    return select_changed_sizes(sizes, active)


def select_changed_sizes(sizes: Sizes, sets: Iterable[ReplicaSet]) -> Sizes:
    """Return those of the given sizes that differ from the current sizes of the ReplicaSets."""
    current = {each.metadata.name: wanted_replicas(each) for each in sets}
    return {name: sizes[name] for name, size in current.items() if sizes[name] != size}


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Return whether the current template's ReplicaSet has all pods, all available."""
    if new is None:
        return False
    wanted = wanted_replicas(deployment)
    return wanted_replicas(new) == _read_annotated_number(new, DESIRED) == new.status.available_replicas == wanted


def is_scaled(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Return whether the Deployment's replicas changed since its active ReplicaSets were last scaled."""
    wanted = wanted_replicas(deployment)
    return any(wanted_replicas(each) and _read_annotated_number(each, DESIRED) not in (None, wanted) for each in sets)


def compute_scaled_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return new sizes of ReplicaSets after the Deployment was scaled; in a rolling update, in proportion."""
    sets = [*old, *([new] if new is not None else [])]
    active = [each for each in sets if wanted_replicas(each)]
    wanted = wanted_replicas(deployment)
    if len(active) <= 1:
        only = active[0] if active else new if new is not None else sort_by_age(old)[-1] if old else None
        return {} if only is None else select_changed_sizes({only.metadata.name: wanted}, [only])
    if is_saturated(deployment, new):
        return {each.metadata.name: 0 for each in old if wanted_replicas(each)}
    if not is_rolling(deployment):
        return {}
    return select_changed_sizes(_compute_proportional_sizes(deployment, active), active)


def _compute_proportional_sizes(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    wanted = wanted_replicas(deployment)
    allowed = wanted + max_surge(deployment) if wanted else 0
    to_add = allowed - total_replicas(active)
    # The largest first; among equals the newest grows and the oldest shrinks first.
    ordered = sort_by_age(active)
    if to_add > 0:
        ordered.reverse()
    ordered.sort(key=wanted_replicas, reverse=True)
    sizes, added = {}, 0
    for each in ordered:
        share = _compute_proportional_change(each, deployment, to_add, added)
        sizes[each.metadata.name] = wanted_replicas(each) + share
        added += share
    first = ordered[0].metadata.name
    sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _compute_proportional_change(each: ReplicaSet, deployment: Deployment, to_add: int, added: int) -> int:
    if to_add in (0, added):
        return 0
    left = to_add - added
    wanted = wanted_replicas(deployment)
    if not wanted:
        return max(-wanted_replicas(each), left)
    annotated = _read_annotated_number(each, MAXIMUM) or deployment.status.replicas or 1
    size = wanted_replicas(each) * (wanted + max_surge(deployment)) / annotated
    fraction = int(size + 0.5) - wanted_replicas(each)
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _read_annotated_number(each: ReplicaSet, name: str) -> int | None:
    text = each.metadata.annotations.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
