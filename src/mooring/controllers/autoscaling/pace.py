"""How fast a workload may grow and shrink: windows over earlier recommendations, and limits on changes in a time.

What was recommended and done is remembered in memory, as in kube-controller-manager: a restart begins anew. Called by
``horizontal.py``.
"""

import math
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mooring.api.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

_UP_POLICIES = [
    HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
    HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
]
_DOWN_POLICIES = [HPAScalingPolicy(type="Percent", value=100, period_seconds=15)]
_UP = HPAScalingRules(stabilization_window_seconds=0, select_policy="Max", policies=_UP_POLICIES)
_DOWN = HPAScalingRules(stabilization_window_seconds=300, select_policy="Max", policies=_DOWN_POLICIES)
_OLDEST = 3600.0
"""The longest window and the longest period that there can be."""


class Decision(msgspec.Struct, frozen=True):
    """How many pods there shall be now, and what two conditions say about it."""

    replicas: int
    able: tuple[str, str]
    limited: tuple[str, str, str]
    """Status, reason and message."""


class Wish(msgspec.Struct, frozen=True):
    """How many pods there are, how many metrics ask for, within which bounds, and when."""

    current: int
    wanted: int
    least: int
    most: int
    now: float


class History(msgspec.Struct):
    """What was recommended and done for one autoscaler: pairs of a time and a number."""

    recommended: list[tuple[float, int]] = msgspec.field(default_factory=list)
    changed: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """More pods are positive, fewer negative."""

    def forget(self, now: float) -> None:
        self.recommended = [each for each in self.recommended if now - each[0] <= _OLDEST]
        self.changed = [each for each in self.changed if now - each[0] <= _OLDEST]

    def within(self, seconds: float, now: float) -> int:
        """By how many pods the workload has grown in a time."""
        return sum(change for time, change in self.changed if now - time <= seconds)


def decide(behavior: HorizontalPodAutoscalerBehavior | None, history: History, wish: Wish) -> Decision:
    """Hold what metrics ask for to the windows, limits and bounds; remembers what was asked for."""
    up = (behavior.scale_up if behavior else None) or _UP
    down = (behavior.scale_down if behavior else None) or _DOWN
    stable = _stabilized(history, wish, up, down)
    if stable == wish.wanted:
        able = ("ReadyForNewScale", "recommended size matches current size")
    elif wish.wanted >= wish.current:
        text = "recent recommendations were lower than current one, applying the lowest recent recommendation"
        able = ("ScaleUpStabilized", text)
    else:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        able = ("ScaleDownStabilized", text)
    replicas, reason, message = _limited(history, replace(wish, wanted=stable), up, down)
    return Decision(replicas, able, ("False" if replicas == stable else "True", reason, message))


def _stabilized(history: History, wish: Wish, up: HPAScalingRules, down: HPAScalingRules) -> int:
    lowest = highest = wish.wanted
    for time, recommendation in history.recommended:
        if wish.now - time < _window(up, _UP):
            lowest = min(lowest, recommendation)
        if wish.now - time < _window(down, _DOWN):
            highest = max(highest, recommendation)
    history.recommended.append((wish.now, wish.wanted))
    history.forget(wish.now)
    return min(max(wish.current, lowest), highest)


def _window(rules: HPAScalingRules, default: HPAScalingRules) -> int:
    seconds = rules.stabilization_window_seconds
    return (default.stabilization_window_seconds or 0) if seconds is None else seconds


def _limited(history: History, wish: Wish, up: HPAScalingRules, down: HPAScalingRules) -> tuple[int, str, str]:
    current, wanted = wish.current, wish.wanted
    if wanted > current:
        limit = max(current, _up_limit(history, current, up, wish.now))
        if wish.most > limit:
            told = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
        else:
            told = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
        if wanted > min(wish.most, limit):
            return min(wish.most, limit), *told
    elif wanted < current:
        limit = min(current, _down_limit(history, current, down, wish.now))
        if wish.least < limit:
            told = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
        else:
            told = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
        if wanted < max(wish.least, limit):
            return max(wish.least, limit), *told
    return wanted, "DesiredWithinRange", "the desired count is within the acceptable range"


def _up_limit(history: History, current: int, rules: HPAScalingRules, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    proposed = [
        before + policy.value if policy.type == "Pods" else math.ceil(before * (1 + policy.value / 100))
        for policy, before in _beginnings(history, current, rules.policies or _UP_POLICIES, now)
    ]
    return min(proposed) if rules.select_policy == "Min" else max(proposed)


def _down_limit(history: History, current: int, rules: HPAScalingRules, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    proposed = [
        before - policy.value if policy.type == "Pods" else int(before * (1 - policy.value / 100))
        for policy, before in _beginnings(history, current, rules.policies or _DOWN_POLICIES, now)
    ]
    return max(proposed) if rules.select_policy == "Min" else min(proposed)


def _beginnings(
    history: History, current: int, policies: Sequence[HPAScalingPolicy], now: float
) -> list[tuple[HPAScalingPolicy, int]]:
    """Each policy with the number of pods at the beginning of its period."""
    return [(policy, current - history.within(policy.period_seconds, now)) for policy in policies]
