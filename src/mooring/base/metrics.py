"""The metrics registry that every component starts with, and fast counters and histograms.

`cli/` builds one registry per component; the component adds its own metrics, named as in Kubernetes where it has the
same. `Counts` and `Histograms` are for events that happen thousands of times a second: they hold plain numbers and
build Prometheus families only when scraped.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, UnknownMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.base.component import Component

Labels = tuple[str | Enum, ...]
"""Label values of a series; enums are converted with `str` when scraped."""
_BUFFERED_OBSERVATIONS = 256
"""Observations buffered per series before they are sorted into buckets."""

# Kubernetes' pages have no `…_created`, and each would be a series more.
disable_created_metrics()  # type: ignore[no-untyped-call] # prometheus_client gives it no types


def build_registry(component: Component) -> CollectorRegistry:
    """Build a registry with build info, feature gates and process metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    versions = component.versions
    Gauge(
        "mooring_build_info",
        "Always 1; the labels say which versions run.",
        ("binary_version", "emulation_version", "min_compatibility_version"),
        registry=registry,
    ).labels(str(versions.binary), str(versions.emulation), str(versions.min_compatibility)).set(1)
    gates = Gauge(
        "kubernetes_feature_enabled",
        "1 if the feature gate is on, 0 if it is off.",
        ("name", "stage"),
        registry=registry,
    )
    for name, state in component.gates.states.items():
        stage = str(state.spec.stage).upper()
        gates.labels(name, "" if stage == "GA" else stage).set(state.enabled)
    return registry


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return exponential buckets, as Prometheus' Go client does."""
    return tuple(start * factor**power for power in range(count))


class Counts:
    """A counter by labels. Its name gets the suffix `_total`, unless it ends in `_count`.

    Kubernetes has counters named `_count`, which the Prometheus library does not accept as counters: they are exposed
    untyped.
    """

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self.name, self.about, self.labels = name, about, labels
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, number: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + number

    def family(self) -> Metric:
        make = UnknownMetricFamily if self.name.endswith("_count") else CounterMetricFamily
        family = make(self.name, self.about, labels=self.labels)
        for labels, value in self.values.items():
            family.add_metric(tuple(map(str, labels)), value)
        return family


class Histograms:
    """A histogram by labels. Observations are buffered and sorted into buckets in batches, which is cheaper."""

    def __init__(self, name: str, about: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        self.name, self.about, self.labels = name, about, labels
        self._buckets = tuple(buckets)
        self._series: dict[Labels, list[float]] = {}
        self._buffered: defaultdict[Labels, list[float]] = defaultdict(list)

    def observe(self, labels: Labels, value: float) -> None:
        noted = self._buffered[labels]
        noted.append(value)
        if len(noted) >= _BUFFERED_OBSERVATIONS:
            self._flush(labels, noted)

    def series(self, labels: Labels) -> list[float]:
        """Return the mutable bucket counts of a series, with the sum at the end, for callers that fill buckets."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = [0.0] * (len(self._buckets) + 2)
        return found

    def _flush(self, labels: Labels, noted: list[float]) -> None:
        series = self.series(labels)
        series[-1] += sum(noted)
        noted.sort()
        below = 0
        for bucket, bound in enumerate(self._buckets):
            up_to_bound = bisect_right(noted, bound, below)
            series[bucket] += up_to_bound - below
            below = up_to_bound
        series[-2] += len(noted) - below
        noted.clear()

    def family(self) -> Metric:
        for labels, noted in self._buffered.items():
            self._flush(labels, noted)
        family = HistogramMetricFamily(self.name, self.about, labels=self.labels)
        bounds = [*map(str, self._buckets), "+Inf"]
        for labels, series in self._series.items():
            total, rows = 0.0, []
            for bound, number in zip(bounds, series[:-1], strict=True):
                total += number
                rows.append((bound, total))
            family.add_metric(tuple(map(str, labels)), rows, series[-1])
        return family


class CountsCollector(Collector):
    """Expose `Counts` and `Histograms` in a Prometheus registry."""

    def __init__(self, *parts: Counts | Histograms) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        for part in self._parts:
            yield part.family()

    def describe(self) -> Iterable[Metric]:
        return ()
