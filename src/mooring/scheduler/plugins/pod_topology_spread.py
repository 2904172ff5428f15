"""PodTopologySpread: pods of a kind are spread evenly over the domains of a topology, strictly or as far as possible.

A constraint counts the pods that its selector chooses in each domain, over the nodes that its policies include. With
``DoNotSchedule`` a domain is refused when its count would exceed the smallest by more than `maxSkew`; with
``ScheduleAnyway`` nodes in domains with fewer pods get more points. Which constraints a
pod has: ``spread_constraints.py``.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Node, Pod
from mooring.constraints import node_selector
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import PodChoice, PodSet
from mooring.scheduler.columns.shapes import PodInfo, PodShape
from mooring.scheduler.columns.topology import HOSTNAME, DomainCounts, Topology
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    Action,
    ClusterEvent,
    Codes,
    EventWithHint,
    Handle,
    Kind,
    Mask,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Reads,
    Rows,
    SchedulerFeatures,
    Scope,
    Scores,
    Verdicts,
)
from mooring.scheduler.plugins.spread_constraints import SpreadConstraint, SpreadConstraints

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"
_REASONS = ("", REASON, REASON_LABEL)
_IGNORED = -1
"""Instead of points: a node that lacks one of the topology labels."""
_NO_DOMAIN = 2**31 - 1


class _Counted:
    """One constraint of a shape: the pods that count, by domain, among the nodes that count."""

    def __init__(self, constraint: SpreadConstraint, shape: PodShape, cluster: Cluster) -> None:
        self.constraint = constraint
        self.topology: Topology = cluster.topologies.of(constraint.topology_key)
        choice = PodChoice(constraint.counted, frozenset({shape.namespace}), terminating=False)
        self.pods: PodSet = cluster.pod_sets.pod_set(choice)
        self.matches_itself = int(constraint.selector.matches(shape.labels))
        self.counts: DomainCounts
        self.domains: NDArray[np.bool_]
        """By code, whether an included node is in the domain."""

    def include(self, nodes: Mask) -> None:
        """Count on these nodes from now on."""
        self.counts = self.pods.by_domain(self.topology, nodes)
        there = np.bincount(self.topology.codes[nodes], minlength=len(self.topology.values))
        self.domains = there > 0
        self.domains[0] = False

    def refusals(self) -> Codes:
        """By code of the domain, the verdict on nodes there."""
        size = len(self.domains)
        table = self.counts.table()[:size]
        among = table[self.domains]
        least = int(among.min()) if len(among) else _NO_DOMAIN
        if len(among) < self.constraint.min_domains:
            least = 0
        refused = (table + (self.matches_itself - least) > self.constraint.max_skew).astype(np.int32)
        refused[0] = -2
        return refused


class _Constraints:
    """The constraints of a shape, counted; counted anew when nodes or what selects the pod change."""

    def __init__(self, cluster: Cluster, shape: PodShape, rules: SpreadConstraints, action: str) -> None:
        self.cluster = cluster
        self.counted: list[_Counted] = []
        self.labelled: Mask = np.zeros(0, np.bool_)
        """The nodes that have all topology labels, or all nodes where that is not asked for."""
        self.needs_all_labels = True
        self._shape = shape
        self._rules = rules
        self._action = action
        self._required = node_selector.required_affinity(shape.spec, rules.features.constraints)
        self._rules_revision = -1
        self._nodes_revision = (-1, -1)
        self._before = 0

    def revision(self) -> int | None:
        """A number that changes with the counts; None when there are no constraints."""
        rules = self._rules.revision(self._shape)
        if rules != self._rules_revision:
            self._rules_revision = rules
            self._begin_anew()
            self.needs_all_labels = self._rules.need_all_labels(self._shape)
            constraints = self._rules.of(self._shape, self._action)
            self.counted = [_Counted(constraint, self._shape, self.cluster) for constraint in constraints]
        if not self.counted:
            return None
        nodes = (self.cluster.labels.revision, self.cluster.taints.revision)
        if nodes != self._nodes_revision:
            self._begin_anew()
            self._nodes_revision = nodes
            self._include()
        return self._before + sum(counted.counts.revision for counted in self.counted)

    def _begin_anew(self) -> None:
        """New tables begin at revision 0; ours must not come back to a number that it has had."""
        if self._nodes_revision != (-1, -1):
            self._before += 1 + sum(counted.counts.revision for counted in self.counted)
        self._nodes_revision = (-1, -1)

    def _include(self) -> None:
        nodes = self.cluster.labels.nodes
        self.labelled = nodes.copy()
        if self.needs_all_labels:
            for counted in self.counted:
                self.labelled &= counted.topology.codes > 0
        affine = self.labelled & self.cluster.labels.required_mask(self._required)
        tolerated = self.cluster.taints.untolerated(self._shape.spec.tolerations).mask()
        for counted in self.counted:
            included = affine if counted.constraint.honor_affinity else self.labelled
            counted.include(included & tolerated if counted.constraint.honor_taints else included)


class _Hard(_Constraints):
    def verdicts(self, rows: Rows) -> Codes:
        codes: Codes | None = None
        for counted in self.counted:
            verdict = counted.refusals()[counted.topology.codes[rows]]
            codes = verdict if codes is None else np.where(codes == 0, verdict, codes)
        if codes is None:
            raise AssertionError("asked for verdicts without constraints")
        return codes


class _Soft(_Constraints):
    """Points depend on how many domains the feasible nodes are in."""

    def __init__(self, cluster: Cluster, shape: PodShape, rules: SpreadConstraints, action: str) -> None:
        super().__init__(cluster, shape, rules, action)
        self._sizes: list[int] = []
        self._resized = 0

    def revision_among(self, feasible: Mask) -> int | None:
        revision = self.revision()
        if revision is None:
            return None
        competing = feasible & self.labelled
        sizes = [self._size(counted, competing) for counted in self.counted]
        if sizes != self._sizes:
            self._sizes = sizes
            self._resized += 1
        return revision + self._resized

    def _size(self, counted: _Counted, competing: Mask) -> int:
        if counted.topology.key == HOSTNAME:
            return int(np.count_nonzero(competing))
        there = np.zeros(len(counted.topology.values), np.bool_)
        there[counted.topology.codes[competing]] = True
        return int(np.count_nonzero(there))

    def scores(self, rows: Rows) -> Scores:
        points: NDArray[np.float64] = np.zeros(self.cluster.capacity)[rows]
        for counted, size in zip(self.counted, self._sizes, strict=True):
            weight = math.log(size + 2)
            codes = counted.topology.codes[rows]
            if counted.topology.key == HOSTNAME:
                number = counted.pods.by_row[rows]
                points += np.where(codes > 0, number * weight + (counted.constraint.max_skew - 1), 0.0)
            else:
                worth = counted.counts.table() * weight + (counted.constraint.max_skew - 1)
                worth[0] = 0.0
                points += worth[codes]
        return np.where(self.labelled[rows], np.floor(points + 0.5), _IGNORED).astype(np.int64)


class PodTopologySpread:
    name = "PodTopologySpread"
    scope = score_scope = Scope.SHAPE
    reads = score_reads = Reads.NODE

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        features: SchedulerFeatures = handle.features
        self._rules = SpreadConstraints(self.name, arguments, handle.cluster, features)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[_Hard]:
        return PreFilterResult(_Hard(cluster, pod.shape, self._rules, "DoNotSchedule"))

    def revision(self, state: _Hard) -> int | None:
        return state.revision()

    def filter(self, state: _Hard, rows: Rows) -> Verdicts:
        return Verdicts(state.verdicts(rows), lambda code: (_REASONS[code],))

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _Soft:
        return _Soft(cluster, pod.shape, self._rules, "ScheduleAnyway")

    def score_revision(self, state: _Soft, feasible: Mask) -> int | None:
        return state.revision_among(feasible)

    def score(self, state: _Soft, rows: Rows) -> Scores:
        return state.scores(rows)

    def span(self, scores: Scores, feasible: Mask) -> tuple[int, ...]:
        among = scores[feasible & (scores != _IGNORED)]
        return (int(among.min()), int(among.max())) if len(among) else (0, 0)

    def normalized(self, scores: Scores, span: tuple[int, ...]) -> Scores:
        low, high = span
        points = MAX_NODE_SCORE * (high + low - scores) // high if high else np.full_like(scores, MAX_NODE_SCORE)
        return np.where(scores == _IGNORED, 0, points)

    # -- what may help

    def events_to_register(self) -> Sequence[EventWithHint]:
        pods = ClusterEvent(Kind.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
        changes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            EventWithHint(pods, self._after_pod_change),
            EventWithHint(ClusterEvent(Kind.NODE, changes), self._after_node_change),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """The pod must count for one of the constraints before or after, but not both."""
        other = new or old
        if other is None or other.metadata.namespace != pod.metadata.namespace:
            return QueueingHint.SKIP
        constraints = self._rules.of_pod(pod, "DoNotSchedule")
        return QueueingHint.of(any(_counts(entry, old) != _counts(entry, new) for entry in constraints))

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node with all topology labels must have come, gone, changed its domain or its taints."""
        constraints = self._rules.of_pod(pod, "DoNotSchedule")
        keys = [entry.topology_key for entry in constraints]
        before, after = _domain(old, keys), _domain(new, keys)
        if before != after:
            return QueueingHint.QUEUE
        honours_taints = any(entry.honor_taints for entry in constraints)
        changed = old is not None and new is not None and old.spec.taints != new.spec.taints
        return QueueingHint.of(honours_taints and changed and after is not None)


def _counts(constraint: SpreadConstraint, pod: Pod | None) -> bool:
    return (
        pod is not None and pod.metadata.deletion_timestamp is None and constraint.counted.matches(pod.metadata.labels)
    )


def _domain(node: Node | None, keys: Sequence[str]) -> list[str] | None:
    labels = node.metadata.labels if node is not None else {}
    return [labels[key] for key in keys] if keys and all(key in labels for key in keys) else None
