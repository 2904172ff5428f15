"""InterPodAffinity: near or far from other pods, as this pod wants it and as pods that are already there want it.

A required affinity term asks for a domain where a pod is that all required terms choose; anti-affinity asks for one
without a chosen pod; and no placed pod's anti-affinity may choose the new pod. Preferred terms of either side add or
take points for whole domains. Everything is judged by domain (`columns.domains`), from counts that the columns keep.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.base import Int32, Object
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.columns.revisions import NEVER, Derived, next_revision
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.domains import Domains
from mooring.scheduler.columns.pod_sets import PodChoice, PodGroup
from mooring.scheduler.columns.shapes import PodInfo, PodShape, PodTerms, TermKey, TermKind, pod_terms
from mooring.scheduler.columns.term_owners import OwnedTerm
from mooring.scheduler.columns.topology import DomainCounts, Topology
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Action,
    ClusterEvent,
    EventWithHint,
    Handle,
    Kind,
    Mask,
    Part,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Reads,
    Rows,
    Scope,
    Scores,
    Status,
    Verdicts,
)
from mooring.scheduler.plugins import arguments as plugin_arguments

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_MANY = 1024
"""With so many groups, finding out whether their table has changed costs more than it saves."""
_REASONS = ("", REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)


class InterPodAffinityArgs(Object):
    """The arguments of the plugin."""

    hard_pod_affinity_weight: Int32 | None = None
    """The points for each placed pod whose required affinity chooses the new pod; 1 when absent."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether pods without preferences are not drawn by those of placed pods."""


class _ChosenBy:
    """The terms of placed pods that choose pods of a shape, kept up to date."""

    def __init__(self, cluster: Cluster, shape: PodShape, kinds: frozenset[TermKind]) -> None:
        self.terms: list[OwnedTerm] = []
        self._cluster = cluster
        self._shape = shape
        self._kinds = kinds
        self._verified_at = NEVER
        self._seen = 0
        self._changed_at = 0

    def refresh(self) -> int:
        """Look at new terms; when the terms or their owners have last changed."""
        owners = self._cluster.term_owners
        if owners.begun_at > self._verified_at:
            self._changed_at = next_revision()
            self.terms, self._verified_at, self._seen = [], owners.begun_at, 0
        if self._seen < len(owners.log):
            labels = self._cluster.namespaces.get(self._shape.namespace, {})
            for term in owners.log[self._seen :]:
                chooses = term.key.kind in self._kinds and term.key.term.matches(
                    self._shape.namespace, self._shape.labels, labels
                )
                if chooses:
                    self.terms.append(term)
                    self._changed_at = next_revision()
            self._seen = len(owners.log)
        changed_at = self._changed_at
        for term in self.terms:
            changed_at = max(changed_at, term.domains.changed_at)
        return changed_at


class _Terms:
    """Counts by domain that concern a shape, and a table by group of domains that is made from them."""

    def __init__(self, cluster: Cluster, existing: _ChosenBy) -> None:
        self.cluster = cluster
        self.existing = existing
        self.domains = Domains((), cluster.capacity)
        self.table: NDArray[np.int64] = np.zeros(0, np.int64)
        self.derived = Derived()
        """When it has changed."""
        self.verified_at = NEVER
        self.counted: list[DomainCounts] = []
        """What the table is made from ..."""
        self._groups_verified_at: list[int] = []
        """... and what of their changes has been looked at."""

    def take(self, counted: list[DomainCounts]) -> bool:
        """Make the table from `counted` from now on; whether it has to be made anew."""
        is_same = counted == self.counted and self.domains.is_current(self.cluster.capacity)
        if not is_same:
            self.counted = counted
            topologies = {counts.topology.key: counts.topology for counts in counted}
            self.domains = Domains(tuple(topologies.values()), self.cluster.capacity)
        return not is_same

    def changed_groups(self) -> set[int] | None:
        """The groups whose counts have changed since the last call, when they are few; None when any may have."""
        before = self._groups_verified_at
        self._groups_verified_at = [counts.changes.changed_at for counts in self.counted]
        if len(before) != len(self.counted) or len(self.domains.topologies) != 1:
            return None
        found: set[int] = set()
        for counts, verified_at in zip(self.counted, before, strict=True):
            groups = counts.changes.entries_since(verified_at)
            if groups is None:
                return None
            found |= groups
        return found

    def at(self, counted: Iterable[DomainCounts]) -> NDArray[np.int64]:
        """For each group, the sum of the counts in its domains."""
        return self.weighted_at((counts, 1) for counts in counted)

    def weighted_at(self, weighted: Iterable[tuple[DomainCounts, int]]) -> NDArray[np.int64]:
        found = np.zeros(len(self.domains), np.int64)
        for counts, weight in weighted:
            table = counts.table()
            position = self.domains.topologies.index(counts.topology)
            is_alone = len(self.domains.topologies) == 1
            part = table[: len(found)] if is_alone else table[self.domains.parts[position]]
            found += part if weight == 1 else part * weight
        return found

    def unlabelled(self, topology: Topology) -> Mask:
        """The groups of nodes that have no label for a topology."""
        return np.equal(self.domains.parts[self.domains.topologies.index(topology)], 0)

    def keep(self, table: NDArray[np.int64], *, regrouped: bool) -> None:
        if regrouped or len(table) > _MANY or table.tobytes() != self.table.tobytes():
            self.table = table
            self.derived.change()

    def keep_some(self, entries: Mapping[int, int]) -> None:
        """Replace the entries of some groups."""
        moved = [group for group, entry in entries.items() if self.table.item(group) != entry]
        if moved:
            for group in moved:
                self.table[group] = entries[group]
            self.derived.change(self.domains.rows_of(moved))

    def of_rows(self, rows: Rows) -> NDArray[np.int64]:
        return self.table.take(self.domains.codes[rows])


class _Required(_Terms):
    """Required terms of a shape, and those of others that concern it."""

    def __init__(self, cluster: Cluster, shape: PodShape) -> None:
        super().__init__(cluster, _ChosenBy(cluster, shape, frozenset({TermKind.ANTI_AFFINITY})))
        terms = shape.terms
        self._shape = shape
        self._choices = tuple(PodChoice.of_term(term) for term in terms.affinity)
        self._near = cluster.pod_sets.pod_set(*self._choices) if self._choices else None
        self._affinity = [
            self._near.by_domain(cluster.topologies.of(term.topology_key)) for term in terms.affinity if self._near
        ]
        self._far = [cluster.pod_sets.pod_set(PodChoice.of_term(term)) for term in terms.anti_affinity]
        self._anti_affinity = [
            pods.by_domain(cluster.topologies.of(term.topology_key))
            for pods, term in zip(self._far, terms.anti_affinity, strict=True)
        ]
        self._begins = False

    def refresh(self) -> Derived | None:
        changed_at = self.existing.refresh()
        own = (*self._affinity, *self._anti_affinity)
        existing = [term.domains for term in self.existing.terms if term.total] if self.existing.terms else []
        if not (own or existing):
            return None
        for counts in own:
            changed_at = max(changed_at, counts.changed_at)
        regrouped = self.take([*own, *existing])
        if changed_at <= self.verified_at and not regrouped:
            return self.derived
        self.verified_at = changed_at
        groups, begins = self.changed_groups(), self._may_begin()
        if groups is None or regrouped or begins != self._begins:
            self._begins = begins
            self.keep(self._verdicts(existing), regrouped=regrouped)
        else:
            self.keep_some({group: self._verdict(existing, group) for group in groups})
        return self.derived

    def _may_begin(self) -> bool:
        """The first of a group that wants to be together may begin anywhere."""
        if not self._affinity or any(counts.total for counts in self._affinity):
            return False
        return _choose(self._choices, self._shape, self.cluster)

    def _verdicts(self, existing: Sequence[DomainCounts]) -> NDArray[np.int64]:
        """By group: affinity has the first word, then the pod's own anti-affinity, then that of others."""
        found = np.where(self.at(existing) > 0, 3, 0)
        if self._anti_affinity:
            found = np.where(self.at(self._anti_affinity) > 0, 2, found)
        for counts in self._affinity:
            found[self.unlabelled(counts.topology) if self._begins else self.at([counts]) == 0] = -1
        return found

    def _verdict(self, existing: Sequence[DomainCounts], group: int) -> int:
        """As `_verdicts`, for one group where the groups are the domains of a topology."""
        for counts in self._affinity:
            if group == 0 if self._begins else counts.at(group) == 0:
                return -1
        for counts in self._anti_affinity:
            if counts.at(group):
                return 2
        return 3 if any(counts.at(group) for counts in existing) else 0


class _Preferred(_Terms):
    """Preferred terms of a shape, and those of others that concern it."""

    def __init__(self, cluster: Cluster, shape: PodShape, kinds: frozenset[TermKind], hard_weight: int) -> None:
        super().__init__(cluster, _ChosenBy(cluster, shape, kinds))
        self._hard_weight = hard_weight
        self._sets = [cluster.pod_sets.pod_set(PodChoice.of_term(entry.term)) for entry in shape.terms.preferred]
        self._own = [
            (pods.by_domain(cluster.topologies.of(entry.term.topology_key)), entry.weight)
            for pods, entry in zip(self._sets, shape.terms.preferred, strict=True)
        ]
        self._feasible: Mask | None = None

    def refresh(self, feasible: Mask) -> Derived | None:
        """Points are normalised among the groups that the feasible nodes are in."""
        changed_at = self.existing.refresh()
        if not (self._own or self.existing.terms):
            return None
        weighted = [*self._own, *((term.domains, self._weight(term)) for term in self.existing.terms if term.total)]
        if not any(counts.total for counts, _ in weighted):
            return None
        for counts, _ in self._own:
            changed_at = max(changed_at, counts.changed_at)
        regrouped = self.take([counts for counts, _ in weighted])
        if changed_at > self.verified_at or feasible is not self._feasible or regrouped:
            self.verified_at, self._feasible = changed_at, feasible
            self.keep(self._points(weighted, feasible), regrouped=regrouped)
        return self.derived

    def _points(self, weighted: Sequence[tuple[DomainCounts, int]], feasible: Mask) -> NDArray[np.int64]:
        present = self.domains.among(feasible)
        if np.count_nonzero(present) < 2:
            return np.zeros(len(present), np.int64)
        points = self.weighted_at(weighted)
        among = points[present]
        low, high = int(among.min()), int(among.max())
        if high == low:
            return np.zeros_like(points)
        return (MAX_NODE_SCORE * ((points - low) / (high - low))).astype(np.int64)

    def _weight(self, term: OwnedTerm) -> int:
        return self._hard_weight if term.key.kind is TermKind.AFFINITY else term.key.weight


class InterPodAffinity:
    name = "InterPodAffinity"
    scope = score_scope = Scope.SHAPE
    signs = Part.SELECTED | Part.POD_AFFINITY
    reads = score_reads = Reads.NODE

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, InterPodAffinityArgs)
        weight = args.hard_pod_affinity_weight
        self._hard_weight = 1 if weight is None else weight
        if not 0 <= self._hard_weight <= 100:
            raise plugin_arguments.wrong(self.name, "hardPodAffinityWeight is not in 0 to 100")
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        kinds = {TermKind.PREFERRED, TermKind.AFFINITY} if self._hard_weight else {TermKind.PREFERRED}
        self._scored_kinds = frozenset(kinds)
        self._cluster = handle.cluster

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[_Required]:
        return PreFilterResult(_Required(cluster, pod.shape))

    def woken_by(self, shape: PodShape) -> bool:
        """Left out, it is because the new pod has no terms, and nobody has any that choose it."""
        return bool(shape.terms.keys)

    def refresh(self, state: _Required) -> Derived | None:
        return state.refresh()

    def filter(self, state: _Required, rows: Rows) -> Verdicts:
        return Verdicts(state.of_rows(rows).astype(np.int32), _reasons)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _Preferred | Status:
        if self._ignore_existing and not pod.shape.terms.preferred:
            return SKIP
        return _Preferred(cluster, pod.shape, self._scored_kinds, self._hard_weight)

    def refresh_score(self, state: _Preferred, feasible: Mask) -> Derived | None:
        return state.refresh(feasible)

    def score(self, state: _Preferred, rows: Rows) -> Scores:
        return state.of_rows(rows)

    # -- what may help

    def events_to_register(self) -> Sequence[EventWithHint]:
        pods = ClusterEvent(Kind.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
        nodes = ClusterEvent(Kind.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventWithHint(pods, self._after_pod_change), EventWithHint(nodes, self._after_node_change))

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod that affinity chooses must have come, or one that anti-affinity of either side is about gone."""
        terms = pod_terms(pod.spec, pod.metadata.namespace)
        chosen_before = old is not None and self._choose_all(terms.affinity, old)
        chosen_after = new is not None and self._choose_all(terms.affinity, new)
        if terms.affinity and chosen_after and not chosen_before:
            return QueueingHint.QUEUE
        if terms.affinity and chosen_before and not chosen_after and self._choose_all(terms.affinity, pod):
            return QueueingHint.QUEUE  # it may have been the last: then a pod of the same kind may begin anywhere
        before, after = self._apart(terms, pod, old), self._apart(terms, pod, new)
        return QueueingHint.of(bool(before - after))  # one of them is enough: they are about different domains

    def _choose_all(self, terms: Sequence[AffinityTerm], other: Pod) -> bool:
        return all(self._chooses(term, other) for term in terms)

    def _chooses(self, term: AffinityTerm, other: Pod) -> bool:
        namespace = other.metadata.namespace
        return term.matches(namespace, other.metadata.labels, self._cluster.namespaces.get(namespace, {}))

    def _apart(self, terms: PodTerms, pod: Pod, other: Pod | None) -> set[AffinityTerm]:
        """The terms that keep two pods apart, of either side."""
        if other is None:
            return set()
        theirs = pod_terms(other.spec, other.metadata.namespace).anti_affinity
        own = {term for term in terms.anti_affinity if self._chooses(term, other)}
        return own | {term for term in theirs if self._chooses(term, pod)}

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node must have come to the domains that the pod's own terms are about, or have moved between domains.

        One that moved takes its pods along, so that the pod may fit on other nodes, whatever labels it has now.
        """
        if new is None:
            return QueueingHint.SKIP
        terms = pod_terms(pod.spec, pod.metadata.namespace)
        keys = {term.topology_key for term in terms.affinity}
        if old is None:
            return QueueingHint.of(keys <= new.metadata.labels.keys())
        keys |= {term.topology_key for term in terms.anti_affinity}
        keys |= {key.term.topology_key for key in self._owned_anti_affinity()}
        before, after = old.metadata.labels, new.metadata.labels
        return QueueingHint.of(any(before.get(key) != after.get(key) for key in keys))

    def _owned_anti_affinity(self) -> Iterable[TermKey]:
        terms = (term for term in self._cluster.term_owners.log if term.total)
        return (term.key for term in terms if term.key.kind is TermKind.ANTI_AFFINITY)


def _reasons(code: int) -> tuple[str, ...]:
    return (_REASONS[code],)


def _choose(choices: Iterable[PodChoice], shape: PodShape, cluster: Cluster) -> bool:
    """Whether all choices choose pods of a shape."""
    group = PodGroup(shape.namespace, shape.labels, terminating=False)
    return all(choice.has(group, cluster.namespaces) for choice in choices)
