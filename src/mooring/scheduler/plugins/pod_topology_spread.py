"""PodTopologySpread: spreads pods evenly over the domains of a topology, as a requirement or a preference.

A constraint counts the pods that its selector selects in each domain, on the nodes that its policies include. With
``DoNotSchedule``, nodes are rejected where the domain's count would exceed the smallest count by more than `maxSkew`;
with ``ScheduleAnyway``, domains with fewer pods score higher. Both are evaluated by domain. ``spread_constraints.py``
finds the constraints of a pod.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Node, Pod
from mooring.constraints.columns.revisions import NEVER, Derived, Reader
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import PodChoice, PodSet
from mooring.scheduler.columns.signatures import PodInfo, PodSignature
from mooring.scheduler.columns.topology import HOSTNAME, CountedDomains, DomainCounts, Topology
from mooring.scheduler.plugins.spread_constraints import CountedNodes, SpreadConstraint, SpreadConstraints

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"
_PARTS = fwk.Part.SELECTED | fwk.Part.SPREAD | fwk.Part.UNPINNED | fwk.Part.TOLERATIONS
_INPUTS = fwk.Input.PODS | fwk.Input.NODE_LABELS | fwk.Input.NODE_TAINTS
_REASONS = ("", REASON, REASON_LABEL)
_HARD, _SOFT = "DoNotSchedule", "ScheduleAnyway"
_NO_DOMAIN = 2**31 - 1


class _CountedConstraint:
    """One spread constraint of a pod signature, with the number of pods that it selects by topology domain."""

    def __init__(self, constraint: SpreadConstraint, signature: PodSignature, cluster: Cluster) -> None:
        self.constraint = constraint
        self.topology: Topology = cluster.topologies.of(constraint.topology_key)
        self.is_by_host = constraint.topology_key == HOSTNAME
        choice = PodChoice(constraint.counted, frozenset({signature.namespace}), terminating=False)
        self.pods: PodSet = cluster.pod_sets.pod_set(choice)
        self.counts: DomainCounts
        self._matches_itself = int(constraint.selector.matches(signature.labels))
        self._domains: NDArray[np.intp]
        self._number_of_codes = 0

    def count_on(self, nodes: fwk.Mask, domains: NDArray[np.intp]) -> None:
        """Count only the pods on the given nodes, which are in `domains`."""
        self.counts = self.pods.by_domain(self.topology, nodes)
        self._number_of_codes = len(self.topology.values)
        self._domains = domains

    def verdict_codes(self) -> fwk.Codes:
        """Return the verdict code of the constraint for the nodes of each domain."""
        table = self.counts.table()[: self._number_of_codes]
        least = int(np.minimum.reduce(table.take(self._domains), initial=_NO_DOMAIN))
        if len(self._domains) < self.constraint.min_domains:
            least = 0
        refused = (table + (self._matches_itself - least) > self.constraint.max_skew).astype(np.int32)
        refused[0] = -2
        return refused


class _PodConstraints(Derived):
    """The spread constraints of a pod signature with their counts; updated when nodes, Services or workloads change.

    As a derived value, it logs the node rows whose verdict or score changed.
    """

    action: ClassVar[str]
    """The `whenUnsatisfiable` of the constraints."""
    counted: Sequence[_CountedConstraint] = ()
    verified_at = NEVER
    _rules_verified_at = NEVER
    _nodes_verified_at = (NEVER, NEVER)
    nodes: CountedNodes

    def __init__(self, cluster: Cluster, signature: PodSignature, rules: SpreadConstraints) -> None:
        self.cluster = cluster
        self.needs_all_labels = rules.need_all_labels(signature)
        self._signature = signature
        self._rules = rules

    def refresh_counts(self) -> bool:
        """Recount the pods if inputs changed; return whether the pod has spread constraints."""
        self._find_constraints()
        if not self.counted:
            return False
        nodes = (self.cluster.labels.changed_at, self.cluster.taints.changed_at)
        if nodes != self._nodes_verified_at:
            self._nodes_verified_at = nodes
            self._count_on_included_nodes()
        return True

    def _find_constraints(self) -> None:
        changed_at = self._rules.changed_at(self._signature)
        if changed_at > self._rules_verified_at:
            self._rules_verified_at = changed_at
            constraints = self._rules.find_constraints(self._signature, self.action)
            if constraints != [counted.constraint for counted in self.counted]:
                self._nodes_verified_at = (NEVER, NEVER)
                self.counted = [
                    _CountedConstraint(constraint, self._signature, self.cluster) for constraint in constraints
                ]

    def _count_on_included_nodes(self) -> None:
        self.verified_at = NEVER
        self.change()
        over = self.counted_by_domain()
        required = [each.topology for each in self.counted] if self.needs_all_labels else []
        self.nodes = self._rules.included.find_counted_nodes(
            self._signature.spec, required, [each.constraint for each in over]
        )
        for counted, (nodes, domains) in zip(over, self.nodes.counted, strict=True):
            counted.count_on(nodes, domains)

    def counted_by_domain(self) -> Sequence[_CountedConstraint]:
        """Return the constraints whose pods are counted by domain: all hard ones, but not soft ones over hostnames."""
        return self.counted

    def counts_changed_at(self) -> int:
        return max([counted.pods.changed_at for counted in self.counted])


class _HardConstraints(_PodConstraints):
    """The DoNotSchedule constraints of a pod signature, with the verdict code of each group of nodes."""

    action = _HARD
    table: fwk.Codes = np.empty(0, np.int32)

    def refresh(self) -> Derived | fwk.Input:
        if not self.refresh_counts():
            return fwk.Input.OBJECTS
        changed_at = self.counts_changed_at()
        if changed_at > self.verified_at:
            self.verified_at = changed_at
            table = self._compute_verdicts()
            if table.tobytes() != self.table.tobytes():  # for small tables much faster than comparing arrays
                self.table = table
                self.change()
        return self

    def _compute_verdicts(self) -> fwk.Codes:
        if len(self.counted) == 1:
            return self.counted[0].verdict_codes()  # the groups are its domains
        found: fwk.Codes = np.zeros(len(self.nodes.domains), np.int32)
        for counted, codes in zip(self.counted, self.nodes.domains.parts, strict=True):
            found = np.where(found == 0, counted.verdict_codes()[codes], found)
        return found


class _FeasibleGroups(NamedTuple):
    """The feasible nodes among which spreading scores are normalised, in groups of nodes with equal scores."""

    feasible: fwk.Mask
    rows: fwk.Mask
    number: int
    present: NDArray[np.bool_]
    """Whether a group has a feasible node, by level and domain (see `CountedDomains`)."""
    groups: NDArray[np.intp]
    """The codes of the groups that have a feasible node."""
    of_hosts: NDArray[np.float64]
    """The score of the constraint on the host name label, by level (number of pods on the node)."""
    weights: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
    """By other constraint and domain: the score per matching pod and without any; 0 for nodes without the label."""
    halves: NDArray[np.float64]
    """The value 0.5 for each group, added to round scores."""


class _SoftConstraints(_PodConstraints):
    """The ScheduleAnyway constraints of a signature; their scores depend on the domains of the feasible nodes.

    Scores are computed for groups of nodes: by domain, and by number of pods if a constraint spreads over hosts.
    """

    action = _SOFT
    groups: CountedDomains
    table: fwk.Scores = np.empty(0, np.int64)
    _feasible_groups: _FeasibleGroups | None = None

    def counted_by_domain(self) -> Sequence[_CountedConstraint]:
        return [counted for counted in self.counted if not counted.is_by_host]

    def _count_on_included_nodes(self) -> None:
        super()._count_on_included_nodes()
        self._feasible_groups = None
        hosts = [counted for counted in self.counted if counted.is_by_host]
        # A second constraint over hosts cannot be: keys are unique among those with the same action.
        pods, counting = (hosts[0].pods, hosts[0].topology.codes > 0) if hosts else (None, self.nodes.labelled)
        reader = Reader(self.cluster.row_changes)
        self.groups = CountedDomains(self.nodes.domains, pods, counting, reader)

    def refresh(self, feasible: fwk.Mask) -> Derived | fwk.Input:
        if not self.refresh_counts():
            return fwk.Input.OBJECTS
        regrouped = self.groups.refresh()
        last, changed_at = self._feasible_groups, self.counts_changed_at()
        found = self._feasible_groups = self._group_feasible(feasible, last)
        if found is last and not regrouped and changed_at <= self.verified_at:
            return self
        self.verified_at = changed_at
        table = self._normalize_points(self._compute_scores(found), found.groups)
        if regrouped or table.tobytes() != self.table.tobytes():
            self.table = table
            self.change()
        return self

    def _group_feasible(self, feasible: fwk.Mask, last: _FeasibleGroups | None) -> _FeasibleGroups:
        if last is not None and last.feasible is feasible:
            rows, number = last.rows, last.number
        else:
            rows = feasible & self.nodes.labelled
            number = int(np.count_nonzero(rows))
        present = self.groups.find_groups_among(rows)
        if last is not None and last.feasible is feasible and last.present is present:
            return last
        levels = np.arange(len(present))[:, None]
        of_hosts, weights = np.zeros(levels.shape), []
        topologies = zip(self.nodes.domains.parts, self.nodes.unlabelled, strict=True)
        domains = present.any(axis=0)
        for counted in self.counted:
            skew = counted.constraint.max_skew - 1
            if counted.is_by_host:
                of_hosts = np.where(levels > 0, (levels - 1) * math.log(number + 2) + skew, 0.0)
            else:
                codes, unlabelled = next(topologies)
                size = int(np.count_nonzero(np.bincount(codes[domains])))
                each, none = np.full(len(codes), math.log(size + 2)), np.full(len(codes), float(skew))
                each[unlabelled] = none[unlabelled] = 0.0
                weights.append((each, none))
        halves, groups = np.full(present.shape, 0.5), present.ravel().nonzero()[0]
        return _FeasibleGroups(feasible, rows, number, present, groups, of_hosts, weights, halves)

    def _compute_scores(self, feasible_groups: _FeasibleGroups) -> fwk.Scores:
        points: NDArray[np.float64] | float = 0.0
        topologies = zip(self.nodes.domains.parts, feasible_groups.weights, strict=True)
        for counted in self.counted:
            if counted.is_by_host:
                points = points + feasible_groups.of_hosts
            else:
                codes, (each, none) = next(topologies)
                points = points + (counted.counts.table().take(codes) * each + none)
        # Adding a half rounds, because there are no negative ones.
        return (points + feasible_groups.halves).astype(np.int64)

    def _normalize_points(self, points: fwk.Scores, groups: NDArray[np.intp]) -> fwk.Scores:
        among = points.take(groups)
        low, high = (int(np.minimum.reduce(among)), int(np.maximum.reduce(among))) if len(among) else (0, 0)
        turned = (
            fwk.MAX_NODE_SCORE * (high + low - points) // high if high else np.full_like(points, fwk.MAX_NODE_SCORE)
        )
        if self.needs_all_labels:
            for unlabelled in self.nodes.unlabelled:
                turned[:, unlabelled] = 0
            if self.groups.counts_pods:
                turned[0] = 0
        return turned


class PodTopologySpread(fwk.FilterPlugin[_HardConstraints], fwk.ScorePlugin[_SoftConstraints]):
    name = "PodTopologySpread"
    filters = fwk.Declaration(_PARTS, cluster=_INPUTS)
    scores = fwk.Declaration(_PARTS, cluster=_INPUTS | fwk.Input.OBJECTS, depends_on_feasible=True)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        self._rules = SpreadConstraints(self.name, arguments, handle.cluster, handle.features)
        if self._rules.refuse_by_default:
            # The node that a pod is made for is the only one where other pods count.
            self.filters = fwk.Declaration(_PARTS | fwk.Part.NODE_AFFINITY, cluster=_INPUTS | fwk.Input.OBJECTS)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_HardConstraints] | fwk.Status:
        if not self._rules.may_have(pod.signature, _HARD):
            return fwk.SKIP
        return fwk.PreFilterResult(_HardConstraints(cluster, pod.signature, self._rules))

    def may_apply_after(self, _signature: PodSignature) -> bool:
        """Return False: the plugin skips a pod only if it has no constraints, which placed pods cannot change."""
        return False

    def refresh(self, state: _HardConstraints) -> Derived | fwk.Input:
        return state.refresh()

    def filter(self, state: _HardConstraints, rows: fwk.Rows) -> fwk.Verdicts:
        return fwk.Verdicts(state.table.take(state.nodes.domains.codes[rows]), lambda code: (_REASONS[code],))

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _SoftConstraints | fwk.Status:
        if not self._rules.may_have(pod.signature, _SOFT):
            return fwk.SKIP
        return _SoftConstraints(cluster, pod.signature, self._rules)

    def refresh_score(self, state: _SoftConstraints, feasible: fwk.Mask) -> Derived | fwk.Input:
        return state.refresh(feasible)

    def score(self, state: _SoftConstraints, rows: fwk.Rows) -> fwk.Scores:
        return state.table.ravel().take(state.groups.codes[rows])

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        pods = fwk.Action.ADD | fwk.Action.DELETE | fwk.Action.UPDATE_POD_LABEL
        nodes = fwk.Action.ADD | fwk.Action.DELETE | fwk.Action.UPDATE_NODE_LABEL | fwk.Action.UPDATE_NODE_TAINT
        own = fwk.Action.UPDATE_POD_LABEL | fwk.Action.UPDATE_POD_TOLERATION
        return (
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, pods, self._after_pod_change),
            fwk.wake_on(fwk.Kind.NODE, nodes, self._after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, own, self._after_own_change),
        )

    def _after_own_change(self, _pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        if old is None or new is None:
            return fwk.QueueingHint.QUEUE
        before, after = (
            [
                (entry, entry.selector.matches(each.metadata.labels))
                for entry in self._rules.find_constraints_of_pod(each, _HARD)
            ]
            for each in (old, new)
        )
        honours_taints = any(entry.honor_taints for entry, _ in after)
        return fwk.QueueingHint.of(before != after or (honours_taints and old.spec.tolerations != new.spec.tolerations))

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        other = new or old
        if other is None or other.metadata.namespace != pod.metadata.namespace:
            return fwk.QueueingHint.SKIP
        constraints = self._rules.find_constraints_of_pod(pod, _HARD)
        return fwk.QueueingHint.of(any(_is_counted(entry, old) != _is_counted(entry, new) for entry in constraints))

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        constraints = self._rules.find_constraints_of_pod(pod, _HARD)
        keys = [entry.topology_key for entry in constraints]
        before, after = _domain_of(old, keys), _domain_of(new, keys)
        if before != after:
            return fwk.QueueingHint.QUEUE
        honours_taints = any(entry.honor_taints for entry in constraints)
        changed = old is not None and new is not None and old.spec.taints != new.spec.taints
        return fwk.QueueingHint.of(honours_taints and changed and after is not None)


def _is_counted(constraint: SpreadConstraint, pod: Pod | None) -> bool:
    return (
        pod is not None and pod.metadata.deletion_timestamp is None and constraint.counted.matches(pod.metadata.labels)
    )


def _domain_of(node: Node | None, keys: Sequence[str]) -> list[str] | None:
    labels = node.metadata.labels if node is not None else {}
    return [labels[key] for key in keys] if keys and all(key in labels for key in keys) else None
