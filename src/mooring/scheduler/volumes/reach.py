"""Find the nodes from which a PersistentVolume can be used, by its node affinity; cached until node labels change.

There are many local volumes, each usable on one node. If every term of the affinity requires one of some values of a
label (mostly the hostname), nodes are looked up by that label and only those are evaluated. Other affinities are
evaluated for all nodes at once, and volumes with the same affinity share the result.
"""

import numpy as np

from mooring.api.core_v1 import PersistentVolume
from mooring.api.label_selector import Operator, Requirement
from mooring.constraints import node_selector
from mooring.constraints.columns.revisions import NEVER
from mooring.constraints.node_selector import Selector, Term
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import ALL_ROWS, Mask, Rows

_SLACK = 1000
_FEW = 8
"""Up to this number of nodes, each is evaluated alone."""


class Reach:
    """The node rows from which each PersistentVolume can be used, cached by node affinity."""

    def __init__(self, cluster: Cluster, options: ConstraintOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._verified_at = NEVER
        self._selectors: dict[str, tuple[PersistentVolume, Selector | None]] = {}
        self._rows: dict[Selector, Rows] = {}
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def rows(self, volume: PersistentVolume) -> Rows:
        """Return the node rows from which the volume can be used; `ALL_ROWS` if it has no node affinity."""
        selector = self.selector(volume)
        if selector is None:
            return ALL_ROWS
        if self._verified_at != self._cluster.labels.changed_at:
            self._verified_at = self._cluster.labels.changed_at
            self._rows.clear()
            self._by_label.clear()
        found = self._rows.get(selector)
        if found is None:
            found = self._rows[selector] = self._evaluate(selector)
        return found

    def mask(self, volume: PersistentVolume) -> Mask:
        found = np.zeros(self._cluster.capacity, np.bool_)
        found[self.rows(volume)] = True
        return found

    def selector(self, volume: PersistentVolume) -> Selector | None:
        """Return the compiled node affinity of a volume; None if every node can use it."""
        name = volume.metadata.name
        known = self._selectors.get(name)
        if known is None or known[0].spec is not volume.spec:
            if len(self._selectors) > 2 * len(self._cluster.objects(PersistentVolume)) + _SLACK:
                self._selectors.clear()  # mostly of volumes that are gone
            compiled = node_selector.volume_selector(volume, self._options)
            known = self._selectors[name] = (volume, _by_labels_only(compiled))
        return known[1]

    def _evaluate(self, selector: Selector) -> Rows:
        few = self._find_candidates(selector)
        if few is None:
            return np.flatnonzero(self._cluster.labels.selector_mask(selector))
        nodes = [info for row in few if (info := self._cluster.nodes[row]) is not None]
        return np.array([info.row for info in nodes if selector.matches(info.node.metadata.labels, "")], np.intp)

    def _find_candidates(self, selector: Selector) -> set[int] | None:
        rows: set[int] = set()
        for term in selector.terms:
            requirements = (entry for entry in term.labels if isinstance(entry, Requirement))
            wanted = next((entry for entry in requirements if entry.operator is Operator.IN), None)
            if wanted is None:
                return None
            index = self._rows_by_label(wanted.key)
            for value in wanted.values:
                rows.update(index.get(value, ()))
            if len(rows) > _FEW:
                return None
        return rows

    def _rows_by_label(self, key: str) -> dict[str, list[int]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for info in self._cluster.node_infos():
                value = info.node.metadata.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(info.row)
        return found


def _by_labels_only(selector: Selector | None) -> Selector | None:
    if selector is None or not any(term.names for term in selector.terms):
        return selector
    terms = [Term((), term.labels) for term in selector.terms if all(entry.matches("") for entry in term.names)]
    return None if any(not term.labels for term in terms) else Selector(tuple(terms))
