"""Which pods of a StatefulSet a rolling update replaces next. Plain functions, for the controller and for simulations.

The counterpart of ``deployment_pace.py``. Pods are whatever the caller knows them as; it says which are of an old
template and which of them work.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mooring.api.apps_v1 import StatefulSet
from mooring.api.int_or_string import scaled_value
from mooring.controllers.workloads import stateful_pods

P = TypeVar("P")


def is_ordered(owner: StatefulSet) -> bool:
    """Whether one thing happens at a time, and nothing while a pod does not work."""
    return owner.spec.pod_management_policy != "Parallel"


def first_updated(owner: StatefulSet) -> int:
    """The lowest number that an update reaches."""
    strategy = owner.spec.update_strategy
    partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    rolling = strategy.type == "RollingUpdate"
    return stateful_pods.start_ordinal(owner) + ((partition or 0) if rolling else 0)


def to_replace(
    owner: StatefulSet,
    pods: Mapping[int, P],
    *,
    is_old: Callable[[P], bool],
    works: Callable[[P], bool],
    at_once: bool,
) -> list[P]:
    """Of the wanted pods, by number, those to delete now, from the highest number down.

    `at_once` is whether `maxUnavailable` counts (MaxUnavailableStatefulSet), else one is replaced after the other.
    """
    reached = range(first_updated(owner), stateful_pods.ordinals(owner).stop)
    if not at_once:
        return _next_old((pods.get(number) for number in reversed(reached)), is_old, works)
    old = [pods[number] for number in sorted(pods, reverse=True) if number in reached and is_old(pods[number])]
    if not old:
        return old
    # Those that do not work have nothing to lose, and waiting for them could take for ever.
    idle = [pod for pod in old if not works(pod)]
    missing = len(stateful_pods.ordinals(owner)) - sum(map(works, pods.values()))
    room = max(0, _most_missing(owner) - missing)
    return idle + [pod for pod in old if works(pod)][:room]


def _most_missing(owner: StatefulSet) -> int:
    pace = owner.spec.update_strategy.rolling_update
    most = pace.max_unavailable if pace is not None and pace.max_unavailable is not None else 1
    return max(1, scaled_value(most, len(stateful_pods.ordinals(owner)), round_up=False))


def _next_old(downwards: Iterable[P | None], is_old: Callable[[P], bool], works: Callable[[P], bool]) -> list[P]:
    """As before Kubernetes 1.37: the highest old one, when those above it work."""
    for pod in downwards:
        if pod is not None and is_old(pod):
            return [pod]
        if pod is None or not works(pod):
            break
    return []
