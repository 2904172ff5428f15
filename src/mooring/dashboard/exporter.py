"""Metrics of pending pods with their reasons, of any cluster: what `mooring exporter` serves to Prometheus.

`Exporter.run` measures again and again, in the thread of the live snapshot, and rests thirty times as long as it has
worked. Remedies cost most: they are searched for all owners at once, as `mooring explain -A` does, with a rest of their
own, so that both never take more than a fifteenth of a core. A scrape reads the last measurement. Series are limited:
the largest groups of pods have their own, all others share one. Read next: ``watching.py``.
"""

import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.advisor.explain import overview
from mooring.advisor.snapshot.owners import OwnerKey, owners_of
from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.states import controller_of
from mooring.base.clock import Clock, SystemClock
from mooring.constraints.annotations import without_bridge
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.watching import Watching
from mooring.scheduler.facade import UnknownSchedulerError

MAX_GROUPS = 200
"""Groups of pods with series of their own."""
MAX_RESOURCES = 20
OTHERS = "(others)"
ANOTHER_SCHEDULER = "(another scheduler)"
NOT_TRIED = "(not tried yet)"
NO_REMEDY = "(none found)"
NOT_SEARCHED = "(not searched yet)"
_REST_FACTOR = 30
_REMEDY_SECONDS = 600.0
"""How long a remedy is believed before it is verified again."""
_SHARES = ((0.5, "up to 50%"), (0.8, "50% to 80%"), (0.95, "80% to 95%"), (float("inf"), "over 95%"))


Remedies = Mapping[OwnerKey, str]
"""The changes of an owner's first remedy."""


class Labels(NamedTuple):
    """The labels of a Prometheus series of pending pods."""

    namespace: str
    owner: str
    """`Deployment/web`; `Pod/name` for a pod without an owner."""
    plugin: str
    """The plugin that rejects most nodes."""
    remedy: str
    """What the first verified remedy changes: `patch Deployment`."""


class Measurement(NamedTuple):
    """The values of all metrics at one moment."""

    pending: Counter[Labels]
    unsatisfiable: Counter[Labels]
    """Pods that no node could take even if it were empty."""
    oldest_seconds: float
    nodes: dict[str, Counter[str]]
    """By resource and by the share of it that is requested."""
    at: float


class Exporter(Collector):
    """A Prometheus collector that measures a cluster at intervals and serves the last measurement."""

    def __init__(self, cluster: Watching, interval: float, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._interval = interval
        self._clock = clock or SystemClock()
        self._remedies: Remedies = {}
        self._searched_at = float("-inf")
        self._search_seconds = 0.0
        self.last: Measurement | None = None

    @property
    def is_ready(self) -> bool:
        return self.last is not None

    async def run(self) -> str:
        """Measure at intervals until the cluster cannot be followed any more; return the reason."""
        while await self._cluster.ready() and not self._cluster.problem:
            before = time.process_time()
            self.last = await self._cluster.ask(lambda live: self.measure(live, self._clock.now()))
            await self._clock.sleep(max(self._interval, _REST_FACTOR * (time.process_time() - before)))
            await self._cluster.ask(self.search)
        return self._cluster.problem

    def search(self, live: LiveSnapshot) -> None:
        """Search for the remedies of all owners if some were not searched yet or the last search is long ago."""
        rested = self._clock.monotonic() - self._searched_at
        has_new = any(labels.remedy == NOT_SEARCHED for labels in self.last.pending) if self.last else True
        is_old = rested > _REMEDY_SECONDS
        if not (has_new or is_old) or rested < max(self._interval, _REST_FACTOR * self._search_seconds):
            return
        before = time.process_time()
        self._remedies = remedies_of(live)
        self._search_seconds = time.process_time() - before
        self._searched_at = self._clock.monotonic()

    def measure(self, live: LiveSnapshot, now: datetime) -> Measurement:
        """Count the pending pods by reason, and the nodes by requested share of each resource."""
        pending: Counter[Labels] = Counter()
        unsatisfiable: Counter[Labels] = Counter()
        groups = sorted(_groups(live).values(), key=lambda pods: -len(pods))
        for pods in groups[:MAX_GROUPS]:
            plugin, can_never_fit = reason_of(live, pods[0])
            owner = _owner(live, pods[0])
            itself = ("Pod", pods[0].metadata.namespace, pods[0].metadata.name)  # of an owner of an unknown kind
            remedy = self._remedies.get(owner) or self._remedies.get(itself, NOT_SEARCHED)
            labels = Labels(pods[0].metadata.namespace, f"{owner[0]}/{owner[2]}", plugin, remedy)
            pending[labels] += len(pods)
            if can_never_fit:
                unsatisfiable[labels] += len(pods)
        if rest := sum(map(len, groups[MAX_GROUPS:])):
            pending[Labels(OTHERS, OTHERS, OTHERS, OTHERS)] = rest
        created = (pod.metadata.creation_timestamp for pod in live.waiting.values())
        oldest = min(filter(None, created), default=None)
        age = (now - times.parse(oldest)).total_seconds() if oldest else 0.0
        return Measurement(pending, unsatisfiable, max(age, 0.0), _nodes(live), now.timestamp())

    def collect(self) -> Iterator[Metric]:
        last = self.last
        if last is None:
            return
        yield _family(
            "mooring_pending_pods", "Pods without a node, by the reason and the first verified remedy.", last.pending
        )
        yield _family(
            "mooring_unsatisfiable_pods",
            "Pending pods that no node could take even if it were empty.",
            last.unsatisfiable,
        )
        yield GaugeMetricFamily(
            "mooring_oldest_pending_pod_seconds", "Age of the oldest pending pod.", last.oldest_seconds
        )
        nodes = GaugeMetricFamily(
            "mooring_nodes", "Nodes by the share of a resource that is requested.", labels=("resource", "requested")
        )
        for resource, shares in last.nodes.items():
            for _, share in _SHARES:
                nodes.add_metric((resource, share), shares[share])
        yield nodes
        yield GaugeMetricFamily(
            "mooring_exporter_last_measurement_timestamp_seconds", "When the cluster was measured last.", last.at
        )
        yield GaugeMetricFamily(
            "mooring_exporter_connected",
            "1 if the cluster answers, 0 if the metrics are of the past.",
            not self._cluster.is_behind,
        )


def _family(name: str, text: str, counts: Counter[Labels]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=Labels._fields)
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _groups(live: LiveSnapshot) -> dict[Hashable, list[Pod]]:
    """Group pending pods that come from one template and so have one explanation."""
    groups: dict[Hashable, list[Pod]] = {}
    for pod in live.waiting.values():
        gates = tuple(gate.name for gate in pod.spec.scheduling_gates)
        controller = controller_of(pod.metadata)  # the ReplicaSet, for pods of a Deployment: one template
        key = (_owner(live, pod), controller and controller.name, gates, pod.spec.scheduler_name)
        groups.setdefault(key, []).append(pod)
    return groups


def _owner(live: LiveSnapshot, pod: Pod) -> OwnerKey:
    return owners_of(live.snapshot).key_of(pod) or ("Pod", pod.metadata.namespace, pod.metadata.name)


def reason_of(live: LiveSnapshot, given: Pod) -> tuple[str, bool]:
    """Return the plugin that rejects most nodes, and whether no node could ever take the pod."""
    if without_bridge(given) is not given:  # evaluated with its annotations, which is another engine's work
        refusals = live.explain("pod", given.metadata.namespace, given.metadata.name, 0).refusals
        most = max(refusals, key=lambda each: each.count, default=None)
        can_never_fit = all(each.code == "UnschedulableAndUnresolvable" for each in refusals)
        return (most.plugin, can_never_fit) if most is not None else (NOT_TRIED, False)
    engine = live.engine
    try:
        engine.profile_of(given)
    except UnknownSchedulerError:
        return ANOTHER_SCHEDULER, False
    early = engine.pre_enqueue_status(given)
    if not early.is_success:
        return early.plugin, False
    outcome = engine.schedule(given)
    if outcome.node is not None:
        return NOT_TRIED, False
    judgement = outcome.evaluation
    if judgement.refusal is not None:
        return judgement.refusal.plugin, False
    rejected = {name: sum(numbers) for name, numbers in judgement.rejected.items()}
    never = sum(for_good for _, for_good in judgement.rejected.values())
    plugin = max(rejected, key=lambda name: rejected[name], default="")
    return plugin or "(no nodes)", never > 0 and never >= len(live.node_names)


def remedies_of(live: LiveSnapshot) -> Remedies:
    """Return for every owner of pending pods what its first verified remedy changes: `patch Deployment`."""
    found = overview(live.snapshot, live.settings, engine=live.engine)
    remedies: dict[OwnerKey, str] = {}
    for group in found.groups:
        first = group.remedy.changes[0] if group.remedy is not None else None
        label = f"{first.action} {first.target.kind}" if first is not None else NO_REMEDY
        remedies |= {(each.kind, each.namespace, each.name): label for each in group.members}
    return remedies


def _nodes(live: LiveSnapshot) -> dict[str, Counter[str]]:
    usage = live.usage
    found = {}
    for resource in list(usage.allocatable)[:MAX_RESOURCES]:
        shares = usage.fractions(resource)[usage.allocatable[resource] > 0]
        found[resource] = Counter(next(name for limit, name in _SHARES if share <= limit) for share in shares.tolist())
    return found
