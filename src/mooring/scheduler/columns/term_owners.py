"""The pod-affinity terms of placed pods, interned, with the number of pods that have them by row and by domain.

A new pod needs to know which of these terms select it; `selecting` finds them by a label index, so that terms of other
apps cost nothing. A term is dropped with the last pod that has it.
"""

from collections import Counter
from collections.abc import Mapping

from mooring.constraints.columns.revisions import next_revision
from mooring.scheduler.columns.inputs import Input, Inputs
from mooring.scheduler.columns.selector_index import SelectorIndex
from mooring.scheduler.columns.signatures import PodTerms, TermKey, TermKind
from mooring.scheduler.columns.topology import DomainCounts, RowCounts, Topologies, Topology


class OwnedTerm(RowCounts):
    """A pod-affinity term of placed pods, with the number of pods that have it on each node row."""

    def __init__(self, key: TermKey, topology: Topology) -> None:
        super().__init__()
        self.key = key
        self.domains: DomainCounts = self.by_domain(topology)


class TermOwners:
    def __init__(self, namespaces: Mapping[str, Mapping[str, str]], inputs: Inputs) -> None:
        self._namespaces = namespaces
        self._inputs = inputs
        self._terms: dict[TermKey, OwnedTerm] = {}
        self._indexes = {kind: SelectorIndex[OwnedTerm]() for kind in TermKind}
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

    def selecting(self, kind: TermKind, namespace: str, labels: Mapping[str, str]) -> list[OwnedTerm]:
        """Return the terms of one kind that select pods with these labels."""
        own = self._namespaces.get(namespace, {})
        candidates = self._indexes[kind].candidates(namespace, labels)
        return [term for term in candidates if term.key.term.matches(namespace, labels, own)]

    def add(self, row: int, terms: PodTerms, topologies: Topologies) -> None:
        for key in terms.keys:
            term = self._terms.get(key)
            if term is None:
                term = self._terms[key] = OwnedTerm(key, topologies.of(key.term.topology_key))
                named = None if key.term.namespace_selector.selectable else key.term.namespaces
                self._indexes[key.kind].add(term, key.term.selector, named)
                self._topology_keys[key.kind][key.term.topology_key] += 1
                self._note(key.kind)
            term.add(row, 1)

    def subtract(self, row: int, terms: PodTerms) -> None:
        for key in terms.keys:
            term = self._terms[key]
            term.add(row, -1)
            if not term.total:
                self._forget(term)

    def _forget(self, term: OwnedTerm) -> None:
        key = term.key
        del self._terms[key]
        self._indexes[key.kind].remove(term)
        used = self._topology_keys[key.kind]
        used[key.term.topology_key] -= 1
        if not used[key.term.topology_key]:
            del used[key.term.topology_key]
        self._note(key.kind)

    def _note(self, kind: TermKind) -> None:
        self._changed_at[kind] = next_revision()
        self._inputs.touch(Input.TERMS)

    def namespace_changed(self) -> None:
        """Invalidate lookups of terms that select pods by namespace labels, after the labels of a namespace changed."""
        self._changed_at = dict.fromkeys(TermKind, next_revision())
