"""How long plugins take: stand-ins for plugins that filter or score, which time every call and pass it on.

The `Plan` of a profile is made of them, so that plugins themselves stay as they are. Times are summed up by extension
point; what a plugin does in `refresh` belongs to the point that it prepares. Of the calls by
themselves one in ten is counted, about as kube-scheduler does it: with a histogram for each, timing would cost nearly
twice as much. The first call of a plugin at a point is among them, so that none is missing. Pods that look alike share
verdicts, so a plugin is often not called at all for a pod; then it took no time, and its extension point took what the
others took.
Made by ``runtime.py``; ``cycle.py`` tells it when attempts begin and end.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from mooring.scheduler.deciding.engine import Outcome
from mooring.scheduler.framework import SUCCESS, Code, Status, Verdicts
from mooring.scheduler.running.metrics import SchedulerMetrics

_POINTS = {
    "pre_filter": "PreFilter",
    "pre_filter_pod": "PreFilter",
    "refresh": "Filter",
    "filter": "Filter",
    "filter_node": "Filter",
    "pre_score": "PreScore",
    "refresh_score": "Score",
    "score": "Score",
    "score_groups": "Score",
    "span": "Score",
    "normalized": "Score",
    "score_node": "Score",
    "normalize_scores": "Score",
}
"""By method of a plugin, the extension point that it belongs to in kube-scheduler's metrics."""
_ORDER = ("PreFilter", "Filter", "PreScore", "Score")
_COUNTED = 10
"""Of so many calls of a plugin at an extension point, one is counted by itself."""


class _Timed:
    """Has all that a plugin has, with timed methods."""

    def __init__(self, plugin: object, timed: Callable[[Callable[..., Any], str], Callable[..., Any]]) -> None:
        for name in dir(plugin):
            if not name.startswith("_"):
                found = getattr(plugin, name)
                setattr(self, name, timed(found, _POINTS[name]) if name in _POINTS else found)


class PluginTimes:
    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._spent = dict.fromkeys(_ORDER, 0.0)
        self._calls: dict[tuple[str, str], int] = {}

    def wrap(self, plugin: Any) -> Any:
        """What stands for a plugin in a plan."""
        name = str(plugin.name)
        return _Timed(plugin, lambda call, point: self._timed(call, name, point))

    def _timed(self, call: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        spent, calls, key = self._spent, self._calls, (plugin, point)
        calls.setdefault(key, 0)

        def timed(*arguments: Any) -> Any:
            begun = perf_counter()
            try:
                answer = call(*arguments)
            except BaseException as problem:
                self.ran(plugin, point, problem, perf_counter() - begun)
                raise
            seconds = perf_counter() - begun
            spent[point] += seconds
            if calls[key] % _COUNTED:  # as `ran` does it, but for one call less
                calls[key] += 1
            else:
                self.ran(plugin, point, answer, seconds)
            return answer

        return timed

    def ran(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        """A plugin was called; one call in ten is counted with what it said."""
        calls = self._calls.get((plugin, point), 0)
        self._calls[plugin, point] = calls + 1
        if calls % _COUNTED == 0:
            self._metrics.plugin_durations.observe((plugin, point, str(_code(answer))), seconds)

    def begin(self) -> None:
        """Forget what was spent since the last attempt: preemption asks filters too."""
        for point in _ORDER:
            self._spent[point] = 0.0

    def attempt_ended(self, outcome: Outcome) -> dict[str, float]:
        """Count what the extension points took that the attempt came to; by name, in seconds."""
        spent = dict(self._spent)
        reached = _ORDER.index(outcome.judgement.reached)
        for place, point in enumerate(_ORDER[: reached + 1]):
            refusal = outcome.judgement.refusal if place == reached else None
            status = refusal or SUCCESS
            self._metrics.point_durations.observe((point, str(status.code), outcome.profile.name), spent[point])
        return spent


def _code(answer: object) -> Code:
    """What a call said: a verdict on many nodes is a success if one of them will do."""
    if isinstance(answer, Code):
        return answer
    if isinstance(answer, Status):
        return answer.code
    if isinstance(answer, BaseException):
        return Code.ERROR
    if isinstance(answer, Verdicts) and len(answer.codes) and answer.codes.all():
        return Code.UNSCHEDULABLE if (answer.codes > 0).any() else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Code.SUCCESS
