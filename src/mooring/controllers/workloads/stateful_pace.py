"""Choose the pods that a rolling update of a StatefulSet replaces next. Pure functions.

The counterpart of ``deployment_pace.py``, also for simulations: the caller says which pods are old and which work.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mooring.api.apps_v1 import StatefulSet
from mooring.api.int_or_string import scaled_value
from mooring.controllers.workloads import stateful_pods

P = TypeVar("P")


def is_ordered(owner: StatefulSet) -> bool:
    """Return whether pods are handled one at a time, waiting for each."""
    return owner.spec.pod_management_policy != "Parallel"


def first_updated(owner: StatefulSet) -> int:
    """Return the lowest ordinal that an update reaches."""
    strategy = owner.spec.update_strategy
    partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    rolling = strategy.type == "RollingUpdate"
    return stateful_pods.start_ordinal(owner) + ((partition or 0) if rolling else 0)


def to_replace(
    owner: StatefulSet, pods: Mapping[int, P], *, is_old: Callable[[P], bool], works: Callable[[P], bool], at_once: bool
) -> list[P]:
    """Return the pods to delete now, highest ordinal first.

    `at_once` is whether `maxUnavailable` applies (MaxUnavailableStatefulSet), else one at a time.
    """
    reached = range(first_updated(owner), stateful_pods.ordinals(owner).stop)
    if not at_once:
        return _next_old((pods.get(number) for number in reversed(reached)), is_old, works)
    old = [pods[number] for number in sorted(pods, reverse=True) if number in reached and is_old(pods[number])]
    if not old:
        return old
    # Pods that do not work are replaced first: waiting for them could take for ever.
    idle = [pod for pod in old if not works(pod)]
    missing = len(stateful_pods.ordinals(owner)) - sum(map(works, pods.values()))
    room = max(0, _most_missing(owner) - missing)
    return idle + [pod for pod in old if works(pod)][:room]


def _most_missing(owner: StatefulSet) -> int:
    pace = owner.spec.update_strategy.rolling_update
    most = pace.max_unavailable if pace is not None and pace.max_unavailable is not None else 1
    return max(1, scaled_value(most, len(stateful_pods.ordinals(owner)), round_up=False))


def _next_old(downwards: Iterable[P | None], is_old: Callable[[P], bool], works: Callable[[P], bool]) -> list[P]:
    """Before Kubernetes 1.37: the highest old one, if all above it work."""
    for pod in downwards:
        if pod is not None and is_old(pod):
            return [pod]
        if pod is None or not works(pod):
            break
    return []
