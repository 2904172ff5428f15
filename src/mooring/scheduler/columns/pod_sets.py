"""Sets of placed pods selected by affinity terms and spread constraints, counted by row.

Pods with the same namespace and labels form a group. When a set or a group is new, the selectors that share a label
with it are evaluated once (``selector_index.py``). Placing a pod then adds one to the sets of its group, without
evaluating selectors. A set is freed when no derived value refers to it.

`TermOwners` has the pod-affinity terms of placed pods: a new pod needs to know which of them select it. A term is
dropped with the last pod that has it.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import TypeAlias
from weakref import ReferenceType, WeakValueDictionary, ref

import msgspec

from mooring.api.label_selector import NOTHING, Selector
from mooring.constraints.columns.revisions import next_revision
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.scheduler.columns.inputs import Input, Inputs
from mooring.scheduler.columns.selector_index import LabelIndex, SelectorIndex
from mooring.scheduler.columns.signatures import Group, PodTerms, TermKey, TermKind
from mooring.scheduler.columns.topology import DomainCounts, RowCounts, Topologies, Topology, WeakList

GroupKey: TypeAlias = tuple[Group, bool]
"""The key of a group of pods: namespace, labels, and whether they are terminating."""
NamespaceLabels = Mapping[str, Mapping[str, str]]


class PodChoice(msgspec.Struct, frozen=True):
    """A selection of pods by label selector and namespaces, as in an affinity term."""

    selector: Selector
    namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector = NOTHING
    terminating: bool = True
    """Whether terminating pods are selected too."""

    @classmethod
    def of_term(cls, term: AffinityTerm) -> "PodChoice":
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def selects(self, group: "PodGroup", namespaces: NamespaceLabels) -> bool:
        if group.terminating and not self.terminating:
            return False
        return self.selector.matches(group.labels) and self.selects_namespace(group.namespace, namespaces)

    def selects_namespace(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        if namespace in self.namespaces or self.namespace_selector.is_empty():
            return True
        labels = namespaces.get(namespace)  # a selector selects no namespace that is not known
        return labels is not None and self.namespace_selector.matches(labels)


class PodSet(RowCounts):
    """The placed pods that match every one of `choices`, counted by node row."""

    def __init__(self, choices: tuple[PodChoice, ...]) -> None:
        super().__init__()
        self.choices = choices

    def selects(self, group: "PodGroup", namespaces: NamespaceLabels) -> bool:
        return all(choice.selects(group, namespaces) for choice in self.choices)


class PodGroup:
    """Placed pods of one namespace with the same labels."""

    __slots__ = ("by_row", "labels", "namespace", "sets", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.by_row: dict[int, int] = {}
        self.sets: WeakList[PodSet] = WeakList()


class PodSets:
    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._groups: dict[GroupKey, PodGroup] = {}
        self._groups_of: dict[str, LabelIndex[PodGroup]] = {}
        self._sets: WeakValueDictionary[tuple[PodChoice, ...], PodSet] = WeakValueDictionary()
        self._index: SelectorIndex[ReferenceType[PodSet]] = SelectorIndex()

    def __len__(self) -> int:
        return len(self._sets)

    def pod_set(self, *choices: PodChoice) -> PodSet:
        """Return the set of placed pods that all choices select, kept current; one object for equal choices."""
        found = self._sets.get(choices)
        if found is None:
            found = self._sets[choices] = PodSet(choices)
            first = choices[0]
            named = None if first.namespace_selector.selectable else first.namespaces
            self._index.add(ref(found, self._index.remove), first.selector, named)
            for group in self._find_candidate_groups(first):
                if found.selects(group, self._namespaces):
                    _add_group_to_set(group, found)
        return found

    def _find_candidate_groups(self, choice: PodChoice) -> Iterator[PodGroup]:
        wanted = self._groups_of if choice.namespace_selector.selectable else choice.namespaces
        for namespace in wanted:
            groups = self._groups_of.get(namespace)
            if groups is not None and choice.selects_namespace(namespace, self._namespaces):
                yield from groups.find_candidates(choice.selector)

    def add(self, row: int, key: GroupKey, labels: Mapping[str, str]) -> None:
        """Count a pod that was placed on a node row in the sets that select it."""
        for pods in self._add_to_group(row, key, labels):
            pods.add(row, 1)

    def subtract(self, row: int, key: GroupKey) -> None:
        """Uncount a pod that was removed from a node row."""
        for pods in self._leave_group(row, key):
            pods.add(row, -1)

    def move(self, row: int, before: GroupKey, after: GroupKey, labels: Mapping[str, str]) -> bool:
        """Recount a pod whose labels changed or which began to terminate; return whether any set changed."""
        were, are = set(self._leave_group(row, before)), set(self._add_to_group(row, after, labels))
        for pods in were - are:
            pods.add(row, -1)
        for pods in are - were:
            pods.add(row, 1)
        return were != are

    def _add_to_group(self, row: int, key: GroupKey, labels: Mapping[str, str]) -> list[PodSet]:
        group = self._groups.get(key)
        if group is None:
            (namespace, _), terminating = key
            group = self._groups[key] = PodGroup(namespace, labels, terminating=terminating)
            self._groups_of.setdefault(namespace, LabelIndex()).add(group, labels)
            for pods in self._find_selecting_sets(group):
                group.sets.add(pods)
        group.by_row[row] = group.by_row.get(row, 0) + 1
        return group.sets.members()

    def _find_selecting_sets(self, group: PodGroup) -> list[PodSet]:
        alive = (reference() for reference in self._index.find_candidates(group.namespace, group.labels))
        return [pods for pods in alive if pods is not None and pods.selects(group, self._namespaces)]

    def _leave_group(self, row: int, key: GroupKey) -> list[PodSet]:
        group = self._groups[key]
        group.by_row[row] -= 1
        if not group.by_row[row]:
            del group.by_row[row]
        if not group.by_row:
            del self._groups[key]
            groups = self._groups_of[group.namespace]
            groups.remove(group, group.labels)
            if not len(groups):
                del self._groups_of[group.namespace]
        return group.sets.members()

    def namespace_changed(self, namespace: str) -> None:
        """Match the pod groups of a namespace with all sets again, after its labels changed."""
        for group in self._groups_of.get(namespace, ()):
            before, after = group.sets.members(), self._find_selecting_sets(group)
            for pods in before:
                if pods not in after:
                    group.sets.remove(pods)
                    for row, number in group.by_row.items():
                        pods.add(row, -number)
            for pods in after:
                if pods not in before:
                    _add_group_to_set(group, pods)


def _add_group_to_set(group: PodGroup, pods: PodSet) -> None:
    group.sets.add(pods)
    for row, number in group.by_row.items():
        pods.add(row, number)


class OwnedTerm(RowCounts):
    """A pod-affinity term of placed pods, with the number of pods that have it on each node row."""

    def __init__(self, key: TermKey, topology: Topology) -> None:
        super().__init__()
        self.key = key
        self.domains: DomainCounts = self.by_domain(topology)


class TermOwners:
    """The pod-affinity terms of placed pods, found by a label index for the pods that they select."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]], inputs: Inputs) -> None:
        self._namespaces = namespaces
        self._inputs = inputs
        self._terms: dict[TermKey, OwnedTerm] = {}
        self._index: SelectorIndex[OwnedTerm] = SelectorIndex()
        self._changed_at = dict.fromkeys(TermKind, 0)
        self._topology_keys: dict[TermKind, Counter[str]] = {kind: Counter() for kind in TermKind}

    def terms(self) -> list[OwnedTerm]:
        return list(self._terms.values())

    def changed_at(self, kind: TermKind) -> int:
        """Return the revision at which terms of a kind were last added or dropped, or began to select other pods."""
        return self._changed_at[kind]

    def topology_keys(self, kind: TermKind) -> frozenset[str]:
        """Return the topology keys of all terms of one kind (required, preferred or anti-affinity)."""
        return frozenset(self._topology_keys[kind])

    def find_selecting(self, kinds: Container[TermKind], namespace: str, labels: Mapping[str, str]) -> list[OwnedTerm]:
        """Return the affinity terms of some kinds that select pods with the given labels."""
        found = [term for term in self._index.find_candidates(namespace, labels) if term.key.kind in kinds]
        own = self._namespaces.get(namespace, {}) if found else {}
        return [term for term in found if term.key.term.matches(namespace, labels, own)]

    def add(self, row: int, terms: PodTerms, topologies: Topologies) -> None:
        for key in terms.keys:
            term = self._terms.get(key)
            if term is None:
                term = self._terms[key] = OwnedTerm(key, topologies.of(key.term.topology_key))
                named = None if key.term.namespace_selector.selectable else key.term.namespaces
                self._index.add(term, key.term.selector, named)
                self._topology_keys[key.kind][key.term.topology_key] += 1
                self._record_change(key.kind)
            term.add(row, 1)

    def subtract(self, row: int, terms: PodTerms) -> None:
        for key in terms.keys:
            term = self._terms[key]
            term.add(row, -1)
            if not term.total:
                self._drop_term(term)

    def _drop_term(self, term: OwnedTerm) -> None:
        key = term.key
        del self._terms[key]
        self._index.remove(term)
        used = self._topology_keys[key.kind]
        used[key.term.topology_key] -= 1
        if not used[key.term.topology_key]:
            del used[key.term.topology_key]
        self._record_change(key.kind)

    def _record_change(self, kind: TermKind) -> None:
        self._changed_at[kind] = next_revision()
        self._inputs.touch(Input.TERMS)

    def namespace_changed(self) -> None:
        """Invalidate lookups of terms that select pods by namespace labels, after the labels of a namespace changed."""
        self._changed_at = dict.fromkeys(TermKind, next_revision())
