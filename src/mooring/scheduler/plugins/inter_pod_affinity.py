"""InterPodAffinity: affinity and anti-affinity of the pod to placed pods, and of placed pods to the pod.

Required affinity needs a domain with a pod that all required terms select. Required anti-affinity needs a domain
without a selected pod. No placed pod's required anti-affinity may select the new pod. Preferred terms of either side
add to or subtract from the scores of whole domains. Everything is evaluated by domain, from counts that the columns
keep.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mooring.api.base import Int32, Object
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, ChangeLog, Derived, union
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import OwnedTerm, PodChoice, PodGroup, PodSet
from mooring.scheduler.columns.signatures import PodInfo, PodSignature, PodTerms, TermKind, pod_terms
from mooring.scheduler.columns.topology import DomainCounts, Topology
from mooring.scheduler.plugins import arguments as plugin_arguments

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_FEW_ROWS = 64
"""The maximum number of nodes that are evaluated one by one."""
_PART = 64
"""If more than one node row in this number has changed, all nodes are evaluated again."""
_INPUTS = fwk.Input.PODS | fwk.Input.NODE_LABELS | fwk.Input.NAMESPACES
_TERM_INPUTS = fwk.Input.TERMS | fwk.Input.NAMESPACES
_REQUIRED_KINDS = (TermKind.ANTI_AFFINITY,)
"""The kinds of terms by which placed pods keep a new pod away from a node."""
_REASONS = ("", REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)


class InterPodAffinityArgs(Object):
    """The arguments of the InterPodAffinity plugin."""

    hard_pod_affinity_weight: Int32 | None = None
    """The weight in scores of each placed pod whose required affinity selects the new pod; 1 when absent."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether preferred terms of placed pods are ignored for a pod without preferred terms of its own."""


class _AffinityTerms(Derived):
    """The affinity terms that concern a pod signature: its own, and those of placed pods that select it.

    As a derived value, it logs the node rows whose verdict or score changed.
    """

    existing: Sequence[OwnedTerm] = ()
    """The terms of placed pods that select the pod."""
    _terms_verified_at = NEVER
    _counts_verified_at: list[int] | None = None
    _sets: Sequence[PodSet] = ()

    def __init__(self, cluster: Cluster, signature: PodSignature, kinds: Sequence[TermKind]) -> None:
        self.cluster = cluster
        self.signature = signature
        self._kinds = kinds

    def find_existing(self) -> None:
        """Look up the terms of placed pods that select the pod again, if pods with terms were placed or removed."""
        owners, signature = self.cluster.term_owners, self.signature
        changed_at = max([owners.changed_at(kind) for kind in self._kinds])
        if changed_at > self._terms_verified_at:
            self._terms_verified_at = changed_at
            found = owners.find_selecting(self._kinds, signature.namespace, signature.labels)
            if (found or self.existing) and found != self.existing:
                self.existing, self._counts_verified_at = found, None

    def log_changes(self, counted: Sequence[DomainCounts], logs: Sequence[ChangeLog[int]]) -> None:
        """Log the node rows in domains where the number of counted pods changed; all rows if other pods are counted."""
        before = self._counts_verified_at
        self._counts_verified_at = [log.changed_at for log in logs]
        if before is None or len(before) != len(logs):
            self.change()
            return
        if before == self._counts_verified_at:
            return
        rows: ChangedRows = NO_ROWS
        for counts, log, verified_at in zip(counted, logs, before, strict=True):
            codes = log.entries_since(verified_at)
            if codes is None:
                rows = None
            for code in codes or ():
                rows = union(rows, (counts.topology.codes == code).nonzero()[0])
        is_part = rows is not None and _PART * len(rows) <= self.cluster.capacity
        self.change(rows if is_part else None)


class _RequiredTerms(_AffinityTerms):
    """The required terms of a pod signature, and the placed pods' required anti-affinity terms that select it."""

    # The pods that affinity selects (near) and those that anti-affinity selects (far), by domain.
    _choices: tuple[PodChoice, ...] = ()
    _near: Sequence[DomainCounts] = ()
    _far: Sequence[DomainCounts] = ()
    _is_first = False

    def __init__(self, cluster: Cluster, signature: PodSignature) -> None:
        super().__init__(cluster, signature, _REQUIRED_KINDS)
        if not signature.terms.keys:
            return
        terms, topologies, sets = signature.terms, cluster.topologies, cluster.pod_sets
        self._choices = tuple(PodChoice.of_term(term) for term in terms.affinity)
        all_selected = [sets.pod_set(*self._choices) for _ in terms.affinity[:1]]
        self._near = [
            pods.by_domain(topologies.of(term.topology_key)) for pods in all_selected for term in terms.affinity
        ]
        selected = [sets.pod_set(PodChoice.of_term(term)) for term in terms.anti_affinity]
        self._far = [
            pods.by_domain(topologies.of(term.topology_key))
            for pods, term in zip(selected, terms.anti_affinity, strict=True)
        ]
        self._sets = all_selected + selected

    def refresh(self) -> Derived | fwk.Input:
        self.find_existing()
        if not self._sets and not self.existing:
            return _TERM_INPUTS
        counted = [*self._near, *self._far, *(term.domains for term in self.existing)]
        # The first pod of a group whose affinity selects the group itself may run in any domain.
        is_first = bool(self._near) and not any(counts.by_code for counts in self._near)
        is_first = is_first and _select_own_group(self._choices, self.signature, self.cluster)
        if is_first != self._is_first:
            self._is_first = is_first
            self._counts_verified_at = None
        self.log_changes(counted, [counts.flips for counts in counted])
        return self

    def verdict_codes(self, rows: fwk.Rows) -> fwk.Codes:
        """Return verdict codes: of affinity, else of the pod's anti-affinity, else of placed pods' anti-affinity."""
        if isinstance(rows, slice) or len(rows) > _FEW_ROWS:
            return self._codes_of_all_rows()[rows]
        return np.array([self._code_of_row(row) for row in rows.tolist()], np.int32)

    def _codes_of_all_rows(self) -> fwk.Codes:
        found: fwk.Codes = np.zeros(self.cluster.capacity, np.int32)
        for code, counted in ((3, [term.domains for term in self.existing]), (2, self._far)):
            for mask in _masks_with_pods(counted):
                found[mask] = code
        for counts in self._near:
            near = counts.topology.codes > 0 if self._is_first else next(_masks_with_pods([counts]), None)
            if near is None:
                found[:] = -1
            else:
                found[~near] = -1
        return found

    def _code_of_row(self, row: int) -> int:
        for counts in self._near:
            code = counts.topology.codes.item(row)
            if code == 0 if self._is_first else code not in counts.by_code:
                return -1
        if any(counts.topology.codes.item(row) in counts.by_code for counts in self._far):
            return 2
        existing = (term.domains for term in self.existing)
        return 3 if any(counts.topology.codes.item(row) in counts.by_code for counts in existing) else 0


class _PreferredTerms(_AffinityTerms):
    """The preferred terms of a pod signature, and the placed pods' terms that attract or repel it."""

    _own: Sequence[tuple[DomainCounts, int]] = ()
    _weighted: Sequence[tuple[DomainCounts, int]] = ()

    def __init__(self, cluster: Cluster, signature: PodSignature, kinds: Sequence[TermKind], hard_weight: int) -> None:
        super().__init__(cluster, signature, kinds)
        self._hard_weight = hard_weight
        for entry in signature.terms.preferred:
            pods = cluster.pod_sets.pod_set(PodChoice.of_term(entry.term))
            self._sets = (*self._sets, pods)
            counts = pods.by_domain(cluster.topologies.of(entry.term.topology_key))
            self._own = (*self._own, (counts, entry.weight))

    def refresh(self) -> Derived | fwk.Input:
        self.find_existing()
        if not self._own and not self.existing:
            self._counts_verified_at = None
            return _TERM_INPUTS
        self._weighted = [*self._own, *((term.domains, self._weight_of(term)) for term in self.existing)]
        if not any(counts.by_code for counts, _ in self._weighted):
            self._counts_verified_at = None
            return _INPUTS
        counted = [counts for counts, _ in self._weighted]
        self.log_changes(counted, [counts.changes for counts in counted])
        return self

    def score_rows(self, rows: fwk.Rows) -> fwk.Scores:
        if isinstance(rows, slice) or len(rows) > _FEW_ROWS:
            return self._sum_weights_by_row()[rows]
        weighted = self._weighted
        return np.array(
            [
                sum(counts.by_code.get(counts.topology.codes.item(row), 0) * weight for counts, weight in weighted)
                for row in rows.tolist()
            ],
            np.int64,
        )

    def _sum_weights_by_row(self) -> fwk.Scores:
        tables: dict[Topology, fwk.Scores] = {}
        for counts, weight in self._weighted:
            table = tables.get(counts.topology)
            if table is None:
                table = tables[counts.topology] = np.zeros(len(counts.topology.values), np.int64)
            table[list(counts.by_code)] += np.array(list(counts.by_code.values()), np.int64) * weight
        found: fwk.Scores = np.zeros(self.cluster.capacity, np.int64)
        for topology, table in tables.items():
            found += table.take(topology.codes)
        return found

    def _weight_of(self, term: OwnedTerm) -> int:
        return self._hard_weight if term.key.kind is TermKind.AFFINITY else term.key.weight


class InterPodAffinity(fwk.FilterPlugin[_RequiredTerms], fwk.ScorePlugin[_PreferredTerms]):
    name = "InterPodAffinity"
    filters = fwk.Declaration(fwk.Part.SELECTED | fwk.Part.POD_AFFINITY, fwk.Input.NODE_LABELS, cluster=_INPUTS)
    scores = fwk.Declaration(
        fwk.Part.SELECTED | fwk.Part.POD_AFFINITY, fwk.Input.NODE_LABELS, cluster=_INPUTS, is_normalized=True
    )

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, InterPodAffinityArgs)
        weight = args.hard_pod_affinity_weight
        self._hard_weight = 1 if weight is None else weight
        if not 0 <= self._hard_weight <= 100:
            raise plugin_arguments.error(self.name, "hardPodAffinityWeight is not in 0 to 100")
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._scored_kinds = (TermKind.PREFERRED, TermKind.AFFINITY)[: 2 if self._hard_weight else 1]
        self._cluster = handle.cluster

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_RequiredTerms]:
        return fwk.PreFilterResult(_RequiredTerms(cluster, pod.signature))

    def may_apply_after(self, signature: PodSignature) -> bool:
        """Return whether the placed pod has affinity terms: only such pods can make a skipped plugin apply."""
        return bool(signature.terms.keys)

    def refresh(self, state: _RequiredTerms) -> Derived | fwk.Input:
        return state.refresh()

    def filter(self, state: _RequiredTerms, rows: fwk.Rows) -> fwk.Verdicts:
        return fwk.Verdicts(state.verdict_codes(rows), lambda code: (_REASONS[code],))

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _PreferredTerms | fwk.Status:
        if self._ignore_existing and not pod.signature.terms.preferred:
            return fwk.SKIP
        return _PreferredTerms(cluster, pod.signature, self._scored_kinds, self._hard_weight)

    def refresh_score(self, state: _PreferredTerms, _feasible: fwk.Mask) -> Derived | fwk.Input:
        return state.refresh()

    def score(self, state: _PreferredTerms, rows: fwk.Rows) -> fwk.Scores:
        return state.score_rows(rows)

    def span(self, scores: fwk.Scores, feasible: fwk.Mask) -> tuple[int, ...]:
        first = int(feasible.argmax())
        among = np.where(feasible, scores, scores[first]) if feasible[first] else np.zeros(1, np.int64)
        return int(among.min()), int(among.max())

    def normalized(self, scores: fwk.Scores, span: tuple[int, ...]) -> fwk.Scores:
        low, high = span
        if low == high:
            return np.zeros_like(scores)
        shares = (scores - low) / (high - low)
        shares *= fwk.MAX_NODE_SCORE
        return shares.astype(np.int64)

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        pods = fwk.Action.ADD | fwk.Action.DELETE | fwk.Action.UPDATE_POD_LABEL
        return (
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, pods, self._after_pod_change),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | fwk.Action.UPDATE_NODE_LABEL, self._after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE_POD_LABEL),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        terms = pod_terms(pod.spec, pod.metadata.namespace)
        chosen_before = old is not None and self._all_select(terms.affinity, old)
        chosen_after = new is not None and self._all_select(terms.affinity, new)
        if terms.affinity and chosen_after and not chosen_before:
            return fwk.QueueingHint.QUEUE
        if terms.affinity and chosen_before and not chosen_after and self._all_select(terms.affinity, pod):
            return fwk.QueueingHint.QUEUE  # it may have been the last: then a pod of the same kind may begin anywhere
        before, after = self._find_conflicts(terms, pod, old), self._find_conflicts(terms, pod, new)
        return fwk.QueueingHint.of(bool(before - after))  # one of them is enough: they are about different domains

    def _all_select(self, terms: Sequence[AffinityTerm], other: Pod) -> bool:
        return all(self._selects_pod(term, other) for term in terms)

    def _selects_pod(self, term: AffinityTerm, other: Pod) -> bool:
        namespace = other.metadata.namespace
        return term.matches(namespace, other.metadata.labels, self._cluster.namespaces.get(namespace, {}))

    def _find_conflicts(self, terms: PodTerms, pod: Pod, other: Pod | None) -> set[AffinityTerm]:
        if other is None:
            return set()
        theirs = pod_terms(other.spec, other.metadata.namespace).anti_affinity
        own = {term for term in terms.anti_affinity if self._selects_pod(term, other)}
        return own | {term for term in theirs if self._selects_pod(term, pod)}

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        """Return QUEUE for a new node with the pod's topology labels, or if a node changed its domain of a term."""
        if new is None:
            return fwk.QueueingHint.SKIP
        terms = pod_terms(pod.spec, pod.metadata.namespace)
        keys = {term.topology_key for term in terms.affinity}
        if old is None:
            return fwk.QueueingHint.of(keys <= new.metadata.labels.keys())
        keys |= {term.topology_key for term in terms.anti_affinity}
        keys |= self._cluster.term_owners.topology_keys(TermKind.ANTI_AFFINITY)
        before, after = old.metadata.labels, new.metadata.labels
        return fwk.QueueingHint.of(any(before.get(key) != after.get(key) for key in keys))


def _select_own_group(choices: Iterable[PodChoice], signature: PodSignature, cluster: Cluster) -> bool:
    group = PodGroup(signature.namespace, signature.labels, terminating=False)
    return all(choice.selects(group, cluster.namespaces) for choice in choices)


def _masks_with_pods(counted: Iterable[DomainCounts]) -> Iterator[fwk.Mask]:
    domains: dict[Topology, set[int]] = {}
    for counts in counted:
        domains.setdefault(counts.topology, set()).update(counts.by_code)
    for topology, codes in domains.items():
        if len(codes) == 1:
            yield topology.codes == next(iter(codes))
        elif codes:
            table = np.zeros(len(topology.values), np.bool_)
            table[list(codes)] = True
            yield table.take(topology.codes)
