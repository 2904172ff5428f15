"""Measure how long plugins take: wrap Filter and Score plugins so that every call is timed.

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


class _TimedPlugin:
    """A copy of a plugin's attributes, with methods that measure their calls."""

    def __init__(self, plugin: object, timed: Callable[[Callable[..., Any], str], Callable[..., Any]]) -> None:
        for name in dir(plugin):
            if not name.startswith("_"):
                found = getattr(plugin, name)
                setattr(self, name, timed(found, _POINTS[name]) if name in _POINTS else found)


class PluginTimes:
    """Times calls of plugins, and observes them in the metrics by plugin and by extension point."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._spent = dict(_NOTHING_SPENT)
        self._sampled: defaultdict[tuple[str, str], Iterator[bool]] = defaultdict(_one_in_ten)

    def wrap(self, plugin: Any) -> Any:
        """Return an object with the methods and attributes of a plugin whose calls are timed."""
        name = str(plugin.name)
        return _TimedPlugin(plugin, lambda call, point: self._time_calls(call, name, point))

    def _time_calls(self, call: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        spent, sampled = self._spent, self._sampled[plugin, point]

        def call_timed(*arguments: Any) -> Any:
            begun = perf_counter()
            try:
                result = call(*arguments)
            except UnfinishedError:
                raise
            except BaseException as problem:
                self.record_call(plugin, point, problem, perf_counter() - begun)
                raise
            seconds = perf_counter() - begun
            spent[point] += seconds
            if next(sampled):
                self._metrics.plugin_durations.observe((plugin, point, _status_code_of(result)), seconds)
            return result

        return call_timed

    def record_call(self, plugin: str, point: str, result: object, seconds: float) -> None:
        """Observe the duration of a plugin's call in its histogram, for one call in ten, by the status returned."""
        if next(self._sampled[plugin, point]):
            self._metrics.plugin_durations.observe((plugin, point, _status_code_of(result)), seconds)

    def begin_attempt(self) -> None:
        """Reset the summed times, to which preemption after the last attempt has added."""
        self._spent.update(_NOTHING_SPENT)

    def record_attempt(self, outcome: Outcome) -> Mapping[str, float]:
        """Observe the time spent at each extension point that an attempt reached; return seconds by extension point."""
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


def _status_code_of(result: object) -> Code:
    if isinstance(result, Status):
        return result.code
    if isinstance(result, BaseException):
        return Code.ERROR
    if isinstance(result, Verdicts) and len(result.codes) and result.codes.all():
        return Code.UNSCHEDULABLE if (result.codes > 0).any() else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Code.SUCCESS
