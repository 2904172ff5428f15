"""Limit how fast a workload is scaled: stabilization windows, and policies per period.

Past recommendations and changes are kept in memory, as in kube-controller-manager. Called by ``horizontal.py``.
"""

import math

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


class Decision(msgspec.Struct, frozen=True):
    """The number of pods to scale to, and two conditions that explain it."""

    replicas: int
    able: tuple[str, str]
    limited: tuple[str, str, str]


class Request(msgspec.Struct, frozen=True):
    """The input of a scaling decision: current pods, pods that metrics require, the bounds and the time."""

    current: int
    wanted: int
    least: int
    most: int
    now: float


class History(msgspec.Struct):
    """Past recommendations and changes of one autoscaler, with their times."""

    recommended: list[tuple[float, int]] = msgspec.field(default_factory=list)
    changed: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """Changes of the number of pods, positive when scaled up."""

    def forget(self, now: float) -> None:
        self.recommended = [each for each in self.recommended if now - each[0] <= _OLDEST]
        self.changed = [each for each in self.changed if now - each[0] <= _OLDEST]

    def within(self, seconds: float, now: float) -> int:
        """Return by how many pods the workload grew in a period."""
        return sum(change for time, change in self.changed if now - time <= seconds)


def decide(behavior: HorizontalPodAutoscalerBehavior | None, history: History, request: Request) -> Decision:
    """Apply windows, limits and bounds to the required number of pods, and record the decision."""
    up = (behavior.scale_up if behavior else None) or _UP
    down = (behavior.scale_down if behavior else None) or _DOWN
    stable = _stabilize(history, request, up, down)
    if stable == request.wanted:
        able = ("ReadyForNewScale", "recommended size matches current size")
    elif request.wanted >= request.current:
        text = "recent recommendations were lower than current one, applying the lowest recent recommendation"
        able = ("ScaleUpStabilized", text)
    else:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        able = ("ScaleDownStabilized", text)
    replicas, reason, message = _apply_limits(history, replace(request, wanted=stable), up, down)
    return Decision(replicas, able, ("False" if replicas == stable else "True", reason, message))


def _stabilize(history: History, request: Request, up: HPAScalingRules, down: HPAScalingRules) -> int:
    lowest = highest = request.wanted
    for time, recommendation in history.recommended:
        if request.now - time < _window(up, _UP):
            lowest = min(lowest, recommendation)
        if request.now - time < _window(down, _DOWN):
            highest = max(highest, recommendation)
    history.recommended.append((request.now, request.wanted))
    history.forget(request.now)
    return min(max(request.current, lowest), highest)


def _window(rules: HPAScalingRules, default: HPAScalingRules) -> int:
    seconds = rules.stabilization_window_seconds
    return (default.stabilization_window_seconds or 0) if seconds is None else seconds


def _apply_limits(
    history: History, request: Request, up: HPAScalingRules, down: HPAScalingRules
) -> tuple[int, str, str]:
    current, wanted = request.current, request.wanted
    if wanted > current:
        limit = max(current, _apply_policies(history, current, up, request.now, is_up=True))
        if request.most > limit:
            text = "the desired replica count is increasing faster than the maximum scale rate"
            limit_reason = ("ScaleUpLimit", text)
        else:
            limit_reason = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
        if wanted > min(request.most, limit):
            return min(request.most, limit), *limit_reason
    elif wanted < current:
        limit = min(current, _apply_policies(history, current, down, request.now, is_up=False))
        if request.least < limit:
            text = "the desired replica count is decreasing faster than the maximum scale rate"
            limit_reason = ("ScaleDownLimit", text)
        else:
            limit_reason = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
        if wanted < max(request.least, limit):
            return max(request.least, limit), *limit_reason
    return wanted, "DesiredWithinRange", "the desired count is within the acceptable range"


def _apply_policies(history: History, current: int, rules: HPAScalingRules, now: float, *, is_up: bool) -> int:
    """Return the number of pods up to which the policies allow scaling; with `Min`, the strictest policy counts."""
    if rules.select_policy == "Disabled":
        return current
    proposed = []
    for policy in rules.policies or (_UP_POLICIES if is_up else _DOWN_POLICIES):
        before = current - history.within(policy.period_seconds, now)
        value = policy.value if is_up else -policy.value
        after = before + value if policy.type == "Pods" else before * (1 + value / 100)
        proposed.append(math.ceil(after) if is_up else int(after))
    return max(proposed) if is_up is (rules.select_policy != "Min") else min(proposed)
