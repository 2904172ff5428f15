"""Evaluate Filter plugins over all rows: a vector of verdicts for each plugin and each value of the pod part it reads.

All pods with the same value share the vector. It refreshes itself from the inputs that its plugin declares, by
evaluating only changed rows. A `FilterPipeline` combines vectors into the set of feasible nodes. Called by
``evaluation.py``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import PodInfo, PodSignature
from mooring.scheduler.deciding.vectors import PlannedPlugin, Vector
from mooring.scheduler.framework.verdicts import count_codes, status_of

Amounts: TypeAlias = NDArray[np.int64]
"""Resource amounts of the evaluated nodes: a line for each resource, a column for each node."""
_NO_MASK: fwk.Mask = np.empty(0, np.bool_)


def _no_reasons(_code: int) -> tuple[str, ...]:
    return ()


class FilterVector(Vector):
    """The verdicts of a Filter plugin on all node rows, for all pods with the same value of the part it reads or, if it
    reads the pod itself, for one pod.

    Rows without a node are `ok`; the pipeline masks them.
    """

    status: fwk.Status = fwk.SUCCESS
    """The status of `pre_filter`: `SKIP` if the plugin does not apply, a rejection of all nodes, or an error."""
    node_names: frozenset[str] | None = None
    """The only nodes that can take the pod, if `pre_filter` named some; otherwise None."""
    is_pinned = False
    """Whether each pod may run only on the node that it was created for, as pods of DaemonSets."""
    refuses = False
    """Whether the plugin rejects any node; otherwise `codes` and `ok` may be absent."""
    codes: fwk.Codes = fwk.ALL_PASS
    ok: fwk.Mask = _NO_MASK
    reasons: Callable[[int], tuple[str, ...]] = staticmethod(_no_reasons)
    _statuses: dict[int, fwk.Status] | None = None

    def __init__(
        self, use: PlannedPlugin, pod: PodInfo | None, cluster: Cluster, found: fwk.PreFilterResult[Any] | fwk.Status
    ) -> None:
        """Create the vector from the result of `pre_filter`; `pod` is None unless the plugin reads the pod itself."""
        super().__init__(use, None, cluster)
        self._pod = pod
        if isinstance(found, fwk.PreFilterResult):
            self.state = found.state
            if found.node_names is not None or found.is_pinned:
                self.node_names, self.is_pinned = found.node_names, found.is_pinned
        elif found is not fwk.SUCCESS:
            self.status = found.by(use.name)

    @property
    def is_settled(self) -> bool:
        """Return whether every pod with this vector passes `pre_filter`, which names no nodes."""
        return self.node_names is None and not self.is_pinned and (self.status.is_success or self.status.is_skip)

    def refresh(self) -> None:
        """Evaluate the node rows that changed."""
        if self.state is None or self._idle.value == self._idle_at:
            return
        if not self._collect_changes():
            if self.status is not fwk.SKIP:
                self.change()
                self.status, self.dirty = fwk.SKIP, None
                self._store_all(fwk.ALL_PASS)
            return
        rows = self.dirty
        if rows is not None and not len(rows):
            return
        self.status, self.dirty = fwk.SUCCESS, None  # all rows again, unless the plugin returns
        verdicts = self.use.plugin.filter(self.state, fwk.ALL_ROWS if rows is None else rows)
        if isinstance(verdicts, fwk.Status):
            self.status = verdicts.by(self.name)
            self.change()
            return
        self.dirty = NO_ROWS
        if self._store_verdicts(verdicts, rows):
            self.change(rows)

    def evaluate_accepted(self, accepted: fwk.Mask) -> None:
        """Evaluate the node rows that every earlier filter accepted, if the plugin evaluates one node at a time."""

    def verdicts(self, rows: fwk.Rows) -> fwk.Verdicts | fwk.Status | None:
        """Return the current verdicts on some node rows without using or filling the cache; None if all pass."""
        state, use = self.state, self.use
        if state is None:
            return None
        if use.reads_pod:  # pods may have moved since `pre_filter`
            found: fwk.PreFilterResult[Any] | fwk.Status = use.plugin.pre_filter(self._pod, self._cluster)
            if isinstance(found, fwk.Status):
                return None if found.is_success or found.is_skip else found
            state = found.state
        elif use.refresh is not None and isinstance(use.refresh(state), Input):
            return None
        verdicts: fwk.Verdicts | fwk.Status = use.plugin.filter(state, rows)
        return verdicts

    def verdict(self, row: int) -> fwk.Status:
        """Return the current verdict on one node row without using or filling the cache."""
        verdicts = self.verdicts(np.array([row], np.intp))
        if isinstance(verdicts, fwk.Status):
            return verdicts.by(self.name)
        code = 0 if verdicts is None else verdicts.codes.item()
        return status_of(code, verdicts.reasons, self.name) if verdicts is not None and code else fwk.SUCCESS

    def may_apply_after(self, signatures: Iterable[PodSignature]) -> bool:
        """Return whether placing other pods, with these signatures, may make a skipped plugin apply to the pod."""
        return any(self.use.plugin.may_apply_after(signature) for signature in signatures)

    def passes(self, row: int) -> bool:
        """Return whether a node row passed at the last `refresh`."""
        if self.state is None:
            return self.status.is_success
        return self.dirty is not None and not len(self.dirty) and (not self.refuses or bool(self.ok[row]))

    # -- with other amounts of resources

    @property
    def reads_only_node(self) -> bool:
        """Return whether the verdicts depend on the nodes alone and not on placed pods."""
        return self.state is None or self.use.reads_only_node

    @property
    def reads_only_resources(self) -> bool:
        """Return whether only a node row's node and resources decide its verdict, so that `fits_with` can be called."""
        return self.reads_only_node or self.use.declared.only_resources or self.status.is_skip

    def fits_with(self, rows: NDArray[np.intp], allocatable: Amounts, used: Amounts) -> fwk.Mask | None:
        """Return which node rows would pass with other used resource amounts; None if all would."""
        if self.reads_only_node:
            return self.ok[rows] if self.refuses else None
        if self.status.is_skip or not self.use.declared.only_resources:
            return None
        fits: fwk.Mask = self.use.plugin.fits_resources(self.state, allocatable, used)
        return fits

    def refusals_with(
        self, rows: NDArray[np.intp], allocatable: Amounts, used: Amounts
    ) -> list[tuple[fwk.Status, NDArray[np.intp]]]:
        """Return why node rows would not pass with other used amounts: each reason with the rows' indexes."""
        if self.reads_only_node:
            codes, reasons = self.codes[rows], self.reasons
        else:
            codes, reasons = self.use.plugin.filter_resources(self.state, allocatable, used)
        return [(status_of(code, reasons, self.name), (codes == code).nonzero()[0]) for code, _ in count_codes(codes)]

    # -- how

    def status_of(self, code: int) -> fwk.Status:
        """Return the status (code and reasons) for an integer from `codes`, which holds one for each node row."""
        if self._statuses is None:
            self._statuses = {}
        found = self._statuses.get(code)
        if found is None:
            found = self._statuses[code] = status_of(code, self.reasons, self.name)
        return found

    def _store_verdicts(self, verdicts: fwk.Verdicts, rows: ChangedRows) -> bool:
        codes, changed = verdicts.codes, verdicts.reasons != self.reasons
        if changed:
            self.reasons, self._statuses = verdicts.reasons, None
        if rows is None:
            self._store_all(codes)
            return True
        if not len(self.codes):
            if not codes.any():
                return changed
            self._set_arrays(np.zeros(self._cluster.capacity, np.int32), np.ones(self._cluster.capacity, np.bool_))
        if len(rows) == 1:
            return self._store_verdict(codes.item(), rows.item()) or changed
        changed = changed or not np.array_equal(self.codes[rows], codes)
        self.codes[rows] = codes
        self.ok[rows] = (codes == 0) | ~self._cluster.labels.nodes[rows]
        self.refuses = not self.ok.all()
        return changed

    def _store_all(self, codes: fwk.Codes) -> None:
        if not (len(codes) and codes.any()):
            self.codes, self.ok, self.refuses = fwk.ALL_PASS, _NO_MASK, False
            self.charge(0)
            return
        self._set_arrays(codes, (codes == 0) | ~self._cluster.labels.nodes)
        self.refuses = not self.ok.all()

    def _set_arrays(self, codes: fwk.Codes, ok: fwk.Mask) -> None:
        self.codes, self.ok = codes, ok
        self.charge(codes.nbytes + ok.nbytes)

    def _store_verdict(self, code: int, row: int) -> bool:
        changed = code != self.codes.item(row)
        ok = code == 0 or not self._cluster.labels.nodes[row]
        if changed:
            self.codes[row] = code
        if ok != self.ok.item(row):
            self.ok[row] = ok
            self.refuses = not ok or not self.ok.all()
        return changed


class NodeFilterVector(FilterVector):
    """The verdicts of a plugin that evaluates one node at a time, for one pod."""

    def __init__(self, use: PlannedPlugin, pod: PodInfo, cluster: Cluster, cycle: fwk.CycleState) -> None:
        super().__init__(use, pod, cluster, fwk.PreFilterResult((cycle, pod.pod)))
        self._sets: fwk.ReasonSets[tuple[str, ...]] = fwk.ReasonSets(tuple)
        self._idle_at = self._idle.value  # `refresh` does nothing
        if use.has_pre_point:
            self.status = use.plugin.pre_filter_pod(cycle, pod.pod, cluster).by(use.name)

    def evaluate_accepted(self, accepted: fwk.Mask) -> None:
        rows = np.flatnonzero(accepted)
        verdicts = self.verdicts(rows)
        if isinstance(verdicts, fwk.Status):
            self.status = verdicts
            return
        codes = np.zeros(self._cluster.capacity, np.int32)
        codes[rows] = verdicts.codes
        self._store_verdicts(fwk.Verdicts(codes, verdicts.reasons), None)

    def verdicts(self, rows: fwk.Rows) -> fwk.Verdicts | fwk.Status:
        cycle, pod = self.state
        wanted = range(self._cluster.capacity) if isinstance(rows, slice) else rows.tolist()
        codes = np.zeros(len(wanted), np.int32)
        for index, row in enumerate(wanted):
            info = self._cluster.nodes[row]
            status = fwk.SUCCESS if info is None else self.use.plugin.filter_node(cycle, pod, info)
            if status.is_success:
                continue
            if not status.is_rejected:
                return status.by(self.name)
            code = self._sets.code(status.reasons)
            codes[index] = -code if status.code is fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE else code
        return fwk.Verdicts(codes, self._sets.reasons)


class Feasible(NamedTuple):
    """The nodes that pass all filters, as a mask. The object is replaced only when the set of nodes changes."""

    rows: fwk.Mask
    number: int
    considered: int
    rejected: Mapping[str, tuple[int, int]]
    """By Filter plugin, how many of the nodes that passed the filters before it it rejects, for now and for good."""


class _Stage(NamedTuple):
    """The nodes that pass one filter, among those that passed the filters before it."""

    rows: fwk.Mask
    number: int
    for_good: int


class FilterPipeline:
    """The feasible nodes by several filter vectors, cached for the next pod with the same vectors.

    It contains only vectors that reject some node, so pods that differ in other filters share it.
    """

    def __init__(self, vectors: Sequence[FilterVector], cluster: Cluster) -> None:
        self.vectors = vectors
        self._cluster = cluster
        self._nodes_at = NEVER
        self._verified_at = [NEVER] * len(vectors)
        self._stages: list[_Stage] = []
        """The nodes before the first vector, and those that pass each vector."""
        self._found: Feasible | None = None

    def refresh(self) -> Feasible:
        """Recompute the feasible nodes from the first changed vector on; return them. Vectors must be up to date."""
        first, found = len(self.vectors), self._found
        for index, vector in enumerate(self.vectors):
            if vector.changed_at != self._verified_at[index]:
                self._verified_at[index] = vector.changed_at
                first = min(first, index)
        if self._cluster.nodes_changed_at != self._nodes_at:
            self._nodes_at = self._cluster.nodes_changed_at
            found = self.combine(self._cluster.labels.nodes.copy())
        elif found is None or first < len(self.vectors):
            del self._stages[first + 1 :]
            found = self._combine_stages()
        self._found = found
        return found

    def combine(self, considered: fwk.Mask) -> Feasible:
        """Return the nodes of `considered` that pass all filters."""
        self._stages = [_Stage(considered, int(np.count_nonzero(considered)), 0)]
        return self._combine_stages()

    def _combine_stages(self) -> Feasible:
        stages = self._stages
        for vector in self.vectors[len(stages) - 1 :]:
            rows, number, _ = stages[-1]
            vector.evaluate_accepted(rows)
            passing = rows & vector.ok if vector.refuses else rows
            left = int(np.count_nonzero(passing))
            if left < number:
                stages.append(_Stage(passing, left, int(np.count_nonzero(rows & (vector.codes < 0)))))
            else:
                stages.append(_Stage(rows, number, 0))
        rejected: dict[str, tuple[int, int]] = {}
        for vector, before, after in zip(self.vectors, stages, stages[1:], strict=False):
            rejected[vector.name] = (before.number - after.number - after.for_good, after.for_good)
        return Feasible(stages[-1].rows, stages[-1].number, stages[0].number, rejected)
