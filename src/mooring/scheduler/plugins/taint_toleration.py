"""TaintToleration: rejects nodes with taints that the pod does not tolerate; prefers nodes with fewer untolerated
PreferNoSchedule taints.

`mooring.constraints.tolerations` decides what a toleration tolerates, including numbers, versions and expressions;
`mooring.constraints.columns` does so for all nodes at once.
"""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, Taint
from mooring.constraints.columns import NO_NODE, TaintColumns
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import find_untolerated, untolerated_reason
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.plugins.normalization import Proportional


class _TaintVerdicts:
    """The verdicts of one pod signature's tolerations on the taints of all nodes."""

    def __init__(self, columns: TaintColumns, pod: PodInfo) -> None:
        self.columns = columns
        self.tolerations = pod.signature.spec.tolerations
        self._sets: fwk.ReasonSets[str] = fwk.ReasonSets(lambda reason: (reason,))
        self._table: fwk.Codes = np.zeros(0, np.int32)
        self._taints: Sequence[Taint] = ()

    def verdicts(self, rows: fwk.Rows) -> fwk.Verdicts:
        untolerated = self.columns.find_untolerated(self.tolerations)
        if self._taints is not untolerated.taints or len(self._table) < len(self._taints) - NO_NODE:
            self._assign_codes(untolerated.taints)
        # The two numbers below zero, for "tolerated" and "no node", pick the last two entries of the table.
        return fwk.Verdicts(self._table[untolerated.numbers[rows]], self._sets.reasons)

    def _assign_codes(self, taints: Sequence[Taint]) -> None:
        self._taints = taints
        codes = (-self._sets.code(untolerated_reason(taint)) for taint in taints)
        self._table = np.array([*codes, 0, 0], np.int32)


class TaintToleration(Proportional[_TaintVerdicts], fwk.FilterPlugin[_TaintVerdicts]):
    name = "TaintToleration"
    filters = fwk.Declaration(fwk.Part.TOLERATIONS, fwk.Input.NODE_TAINTS, has_pre_point=False)
    scores = fwk.Declaration(fwk.Part.TOLERATIONS, fwk.Input.NODE_TAINTS, is_normalized=True)

    def __init__(self, _arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        super().__init__(reverse=True)
        self._options: ConstraintOptions = handle.features.constraints

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_TaintVerdicts]:
        return fwk.PreFilterResult(_TaintVerdicts(cluster.taints, pod))

    def filter(self, state: _TaintVerdicts, rows: fwk.Rows) -> fwk.Verdicts:
        return state.verdicts(rows)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _TaintVerdicts:
        return _TaintVerdicts(cluster.taints, pod)

    def score(self, state: _TaintVerdicts, rows: fwk.Rows) -> fwk.Scores:
        return state.columns.untolerated_preferences(state.tolerations)[rows].astype(np.int64)

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | fwk.Action.UPDATE_NODE_TAINT, self._after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE_POD_TOLERATION),
        )

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        was_refused = old is None or self._refuses(old, pod)
        return fwk.QueueingHint.of(was_refused and new is not None and not self._refuses(new, pod))

    def _refuses(self, node: Node, pod: Pod) -> bool:
        return find_untolerated(node.spec.taints, pod.spec.tolerations, self._options) is not None
