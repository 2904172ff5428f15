"""How long plugins take: every call of a plugin that filters or scores is timed, and summed up by extension point.

Of the calls by themselves one in ten is counted, about as kube-scheduler does it: with a histogram for each, timing
would cost nearly twice as much. The first call of a plugin at a point is among them, so that none is missing.
Pods that look alike share verdicts, so a plugin is often not called at all for a pod; then it took no time, and its
extension point took what the others took. Set up by ``runtime.py``, read by ``cycle.py`` after each attempt.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any

from mooring.scheduler.framework import Code, Plugin, Status
from mooring.scheduler.metrics import SchedulerMetrics

_POINTS = {
    "pre_filter": "PreFilter",
    "pre_filter_pod": "PreFilter",
    "filter": "Filter",
    "filter_node": "Filter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalized": "Score",
    "score_node": "Score",
    "normalize_scores": "Score",
}
"""By method of a plugin, the extension point that it belongs to in kube-scheduler's metrics."""
_SUCCESS = str(Code.SUCCESS)
_COUNTED = 10
"""Of so many calls of a plugin at an extension point, one is counted by itself."""


class PluginTimes:
    def __init__(self, metrics: SchedulerMetrics, plugins: Iterable[Plugin]) -> None:
        self._metrics = metrics
        self._spent = dict.fromkeys(_POINTS.values(), 0.0)
        for plugin in plugins:
            for method, point in _POINTS.items():
                timed = getattr(plugin, method, None)
                if timed is not None:
                    with suppress(AttributeError):  # a plugin with slots of its own is not timed
                        setattr(plugin, method, self._timed(timed, plugin.name, point))

    def _timed(self, call: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        spent = self._spent
        observe = self._metrics.plugin_durations.observe
        success = (plugin, point, _SUCCESS)
        calls = 0

        def timed(*arguments: Any) -> Any:
            nonlocal calls
            begun = perf_counter()
            answer = call(*arguments)
            seconds = perf_counter() - begun
            spent[point] += seconds
            if calls % _COUNTED == 0:
                observe((plugin, point, str(answer.code)) if isinstance(answer, Status) else success, seconds)
            calls += 1
            return answer

        return timed

    def attempt_ended(self, profile: str) -> dict[str, float]:
        """Count what the extension points took in the attempt that has just ended; by name, in seconds."""
        spent = dict(self._spent)
        for point, seconds in spent.items():
            self._spent[point] = 0.0
            self._metrics.point_durations.observe((point, _SUCCESS, profile), seconds)
        return spent
