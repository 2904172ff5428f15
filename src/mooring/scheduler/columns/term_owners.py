"""The pod-affinity terms of placed pods, interned, with the number of their owners by row and by domain.

A new pod must know which of them choose it. That is judged once for each term and shape: a reader keeps the terms that
chose it and its place in `log`, and looks only at terms that were added since.
"""

from mooring.constraints.columns.revisions import next_revision
from mooring.scheduler.columns.shapes import PodTerms, TermKey
from mooring.scheduler.columns.topology import DomainCounts, RowCounts, Topologies, Topology

_SLACK = 64


class OwnedTerm(RowCounts):
    """A term that placed pods have: how many of them, and where."""

    def __init__(self, key: TermKey, topology: Topology, capacity: int) -> None:
        super().__init__(capacity)
        self.key = key
        self.domains: DomainCounts = self.by_domain(topology)


class TermOwners:
    def __init__(self, capacity: int) -> None:
        self.log: list[OwnedTerm] = []
        """The terms, oldest first; some may have lost their last owner."""
        self.begun_at = 0
        """When the log was last begun anew."""
        self._capacity = capacity
        self._terms: dict[TermKey, OwnedTerm] = {}
        self._ownerless = 0

    def add(self, row: int, terms: PodTerms, topologies: Topologies) -> None:
        for key in terms.keys:
            term = self._terms.get(key)
            if term is None:
                term = OwnedTerm(key, topologies.of(key.term.topology_key), self._capacity)
                self._terms[key] = term
                self.log.append(term)
            elif not term.total:
                self._ownerless -= 1
            term.add(row, 1)

    def subtract(self, row: int, terms: PodTerms) -> None:
        for key in terms.keys:
            term = self._terms[key]
            term.add(row, -1)
            if not term.total:
                self._ownerless += 1
        if self._ownerless > len(self.log) // 2 + _SLACK:
            self._forget_ownerless()

    def _forget_ownerless(self) -> None:
        self._terms = {key: term for key, term in self._terms.items() if term.total}
        self.start_again()

    def start_again(self) -> None:
        """Make readers judge all terms again, because some are gone or namespaces have changed."""
        self.log = list(self._terms.values())
        self._ownerless = sum(not term.total for term in self.log)
        self.begun_at = next_revision()

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for term in self._terms.values():
            term.grow(capacity)
