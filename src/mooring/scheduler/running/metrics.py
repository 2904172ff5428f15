"""The scheduler's metrics, with the names, labels and buckets of kube-scheduler, so that dashboards work unchanged.

Every pod and plugin is counted in plain numbers, and the page is rendered when it is scraped. The registry is a
parameter: a process with several components serves all metrics on one page. `scheduler_plugin_evaluation_total` counts
every node that a plugin evaluated, or for which its cached verdict was still valid, because kube-scheduler would
evaluate each time. It has KEP-5471's label `status`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.base.metrics import Counts, Histograms, exponential_buckets
from mooring.scheduler.deciding.engine import Outcome
from mooring.scheduler.queue import Pool, QueuedPod

Reader = Callable[[], Iterable[tuple[Sequence[str], float]]]
"""A function that returns the current values of a metric by labels."""
_Family = type[GaugeMetricFamily] | type[CounterMetricFamily]


class SchedulerMetrics(Collector):
    """All metrics of a scheduler: counters and histograms that it updates, and functions read when scraped."""

    def __init__(self) -> None:
        self.attempts = Counts(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result: scheduled, unschedulable or error.",
            ("result", "profile"),
        )
        self.evaluations = Counts(
            "scheduler_plugin_evaluation",
            "How often plugins were asked, by extension point and by what they said.",
            ("plugin", "extension_point", "profile", "status"),
        )
        self.incoming = Counts(
            "scheduler_queue_incoming_pods", "Pods that came into the queues, by what brought them.", ("queue", "event")
        )
        self.preemption_attempts = Counts(
            "scheduler_preemption_attempts", "Attempts to make room by preemption that found victims.", ()
        )
        self.attempt_durations = Histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long attempts took, from the choice of a node to the binding.",
            ("result", "profile"),
            exponential_buckets(0.001, 2, 15),
        )
        self.scheduling_durations = Histograms(
            "scheduler_scheduling_duration_seconds",
            "How long the choice of a node took, by result.",
            ("result", "profile"),
            exponential_buckets(0.001, 2, 15),
        )
        self.algorithm_durations = Histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long filtering and scoring took.",
            (),
            exponential_buckets(0.001, 2, 15),
        )
        self.point_durations = Histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took.",
            ("extension_point", "status", "profile"),
            exponential_buckets(0.0001, 2, 12),
        )
        self.plugin_durations = Histograms(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plugin took at an extension point; one call in ten is counted.",
            ("plugin", "extension_point", "status"),
            exponential_buckets(0.00001, 1.5, 20),
        )
        self.sli_durations = Histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "How long pods took from their first attempt until they were bound.",
            ("attempts",),
            exponential_buckets(0.01, 2, 20),
        )
        self.attempts_per_pod = Histograms(
            "scheduler_pod_scheduling_attempts", "How many attempts pods took.", (), exponential_buckets(1, 2, 5)
        )
        self.victims = Histograms(
            "scheduler_preemption_victims", "How many pods were chosen as victims.", (), exponential_buckets(1, 2, 7)
        )
        self._readers: list[tuple[_Family, str, str, Sequence[str], Reader]] = []

    def record_arrival(self, _queued: QueuedPod, pool: Pool, event: str) -> None:
        """Count a pod that entered a pool of the queue."""
        self.incoming.add((pool, event))

    def record_evaluation(self, outcome: Outcome, seconds: float) -> None:
        """Count the evaluations of plugins for a pod by status, and observe how long they took together."""
        profile, counts = outcome.profile.name, self.evaluations.values
        for plugin, point, code, number in outcome.evaluations():
            labels = plugin, point, profile, code
            counts[labels] = counts.get(labels, 0) + number
        if outcome.error is not None and outcome.error.plugin:
            self.evaluations.add((outcome.error.plugin, "Filter", profile, outcome.error.code))
        self.algorithm_durations.observe((), seconds)

    def record_attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that has ended, and observe its duration."""
        self.attempts.add((result, profile))
        self.attempt_durations.observe((result, profile), seconds)

    def record_bound(self, queued: QueuedPod, now: float) -> None:
        """Observe how long a bound pod took, and how many attempts."""
        first = queued.first_tried_at
        if first is not None:
            self.sli_durations.observe((str(min(queued.attempts, 16)),), now - first)
        self.attempts_per_pod.observe((), queued.attempts)

    def add_reader(self, family: _Family, name: str, about: str, labels: Sequence[str], read: Reader) -> None:
        """Register a gauge or counter whose values a function returns when the metrics page is rendered."""
        self._readers.append((family, name, about, labels, read))

    def collect(self) -> Iterator[Metric]:
        for metric in vars(self).values():
            if isinstance(metric, Counts | Histograms):
                yield metric.family()
        for kind, name, about, names, read in self._readers:
            family = kind(name, about, labels=names)
            for labels, value in read():
                family.add_metric(labels, value)
            yield family

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering this collector does not call the functions that read values."""
        return ()
