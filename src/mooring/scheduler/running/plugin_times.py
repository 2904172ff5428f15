"""Measure how long plugins take: wrappers around Filter and Score plugins time every call and pass it on.

The `Plan` of a profile is built from the wrappers, so plugins themselves are unchanged. Times are summed by extension
point; the time of `refresh` counts for the point that it prepares. One call in ten, and always the first, is observed
in the plugin's own histogram, as in kube-scheduler. Pods with the same signature share verdicts, so a plugin is often
not called for a pod. Created by ``runtime.py``; ``cycle.py`` calls it when attempts begin and end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from time import perf_counter
from typing import Any

from mooring.constraints.columns import UnfinishedError
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
    "span": "Score",
    "normalized": "Score",
    "score_node": "Score",
    "normalize_scores": "Score",
}
"""For each plugin method, the extension point that kube-scheduler's metrics count it under."""
_ORDER = ("PreFilter", "Filter", "PreScore", "Score")
_NOTHING_SPENT = dict.fromkeys(_ORDER, 0.0)
_COUNTED = 10
"""One plugin call in this number is observed in the plugin's own histogram."""


class _Timed:
    """A wrapper with all attributes of a plugin and timed methods."""

    def __init__(self, plugin: object, timed: Callable[[Callable[..., Any], str], Callable[..., Any]]) -> None:
        for name in dir(plugin):
            if not name.startswith("_"):
                found = getattr(plugin, name)
                setattr(self, name, timed(found, _POINTS[name]) if name in _POINTS else found)


class PluginTimes:
    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._spent = dict(_NOTHING_SPENT)
        self._turns: defaultdict[tuple[str, str], Iterator[bool]] = defaultdict(_one_in_ten)

    def wrap(self, plugin: Any) -> Any:
        """Return a wrapper of a plugin that times its calls."""
        name = str(plugin.name)
        return _Timed(plugin, lambda call, point: self._time_calls(call, name, point))

    def _time_calls(self, call: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        spent, turns = self._spent, self._turns[plugin, point]

        def call_timed(*arguments: Any) -> Any:
            begun = perf_counter()
            try:
                answer = call(*arguments)
            except UnfinishedError:
                raise
            except BaseException as problem:
                self.ran(plugin, point, problem, perf_counter() - begun)
                raise
            seconds = perf_counter() - begun
            spent[point] += seconds
            if next(turns):
                self._count(plugin, point, answer, seconds)
            return answer

        return call_timed

    def ran(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        """Observe one call in ten in the plugin's histogram, with its status."""
        if next(self._turns[plugin, point]):
            self._count(plugin, point, answer, seconds)

    def _count(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        self._metrics.plugin_durations.observe((plugin, point, _code(answer)), seconds)

    def begin(self) -> None:
        """Reset the times at the begin of an attempt; preemption after the last one called filters too."""
        self._spent.update(_NOTHING_SPENT)

    def attempt_ended(self, outcome: Outcome) -> Mapping[str, float]:
        """Observe the times of the extension points that an attempt reached; return them in seconds, by name."""
        evaluation, profile, observe = outcome.evaluation, outcome.profile.name, self._metrics.point_durations.observe
        reached, refusal = evaluation.reached, evaluation.refusal
        for point, seconds in self._spent.items():
            if point == reached:
                observe((point, (refusal or SUCCESS).code, profile), seconds)
                break
            observe((point, SUCCESS.code, profile), seconds)
        return self._spent


def _one_in_ten() -> Iterator[bool]:
    return cycle([True] + [False] * (_COUNTED - 1))


def _code(answer: object) -> Code:
    if isinstance(answer, Code):
        return answer
    if isinstance(answer, Status):
        return answer.code
    if isinstance(answer, BaseException):
        return Code.ERROR
    if isinstance(answer, Verdicts) and len(answer.codes) and answer.codes.all():
        return Code.UNSCHEDULABLE if (answer.codes > 0).any() else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Code.SUCCESS
