"""NodeAffinity: `nodeSelector`, required and preferred node affinity, and the affinity that the configuration adds to
all pods.

`mooring.constraints.node_selector` implements terms, operators and expressions, also for `addedAffinity` of the
arguments, which is validated when the scheduler starts (``added_affinity.py``).
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.api import core_v1
from mooring.api.base import Object
from mooring.api.core_v1 import Node, Pod
from mooring.base import logs
from mooring.constraints import node_selector
from mooring.constraints.columns import LabelColumns
from mooring.constraints.node_selector import PreferredAffinity, RequiredAffinity
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.normalization import Proportional

log = logs.get(__name__)

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
_REASONS = ("", REASON_ENFORCED, REASON_POD)


class NodeAffinityArgs(Object):
    """The arguments of the NodeAffinity plugin."""

    added_affinity: core_v1.NodeAffinity | None = None
    """Node affinity that every pod has in addition to its own."""


class _RequiredNodeAffinity(msgspec.Struct, frozen=True):
    """The required node affinity of a pod, and that of the configuration."""

    labels: LabelColumns
    required: RequiredAffinity
    added: RequiredAffinity


class _PreferredNodeAffinity(msgspec.Struct, frozen=True):
    labels: LabelColumns
    preferred: PreferredAffinity


class NodeAffinity(Proportional[_PreferredNodeAffinity], fwk.FilterPlugin[_RequiredNodeAffinity]):
    name = "NodeAffinity"
    filters = fwk.Declaration(fwk.Part.UNPINNED, fwk.Input.NODE_LABELS)
    scores = fwk.Declaration(fwk.Part.UNPINNED, fwk.Input.NODE_LABELS, is_normalized=True)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        super().__init__()
        self._options = handle.features.constraints
        added = plugin_arguments.read(self.name, arguments, NodeAffinityArgs).added_affinity
        spec = core_v1.PodSpec()
        if added is not None:
            _check_added(added)
            spec = core_v1.PodSpec(affinity=core_v1.Affinity(node_affinity=added))
        self._added = node_selector.required_affinity(spec, self._options)
        self._added_preferred = node_selector.preferred_affinity(spec, self._options)
        if ignored := node_selector.features_with_gate_off(spec, self._options):
            log.warning(
                "addedAffinity uses %s, whose feature gate is off: terms with it match no node", ", ".join(ignored)
            )

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_RequiredNodeAffinity] | fwk.Status:
        spec = pod.signature.spec
        required = node_selector.required_affinity(spec, self._options)
        if pod.signature.is_pinned:
            return fwk.PreFilterResult(_RequiredNodeAffinity(cluster.labels, required, self._added), is_pinned=True)
        if required is node_selector.ANY_NODE and self._added is node_selector.ANY_NODE:
            return fwk.SKIP
        names = _find_named_nodes(spec)
        if names is not None and not names:
            return fwk.unresolvable(REASON_CONFLICT)
        return fwk.PreFilterResult(_RequiredNodeAffinity(cluster.labels, required, self._added), names)

    def filter(self, state: _RequiredNodeAffinity, rows: fwk.Rows) -> fwk.Verdicts:
        codes: fwk.Codes = (~state.labels.required_mask(state.required)[rows]).astype(np.int32)
        codes *= -2
        if state.added is not node_selector.ANY_NODE:
            codes[~state.labels.required_mask(state.added)[rows]] = -1
        return fwk.Verdicts(codes, lambda code: (_REASONS[code],))

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _PreferredNodeAffinity | fwk.Status:
        affinity = pod.signature.spec.affinity and pod.signature.spec.affinity.node_affinity
        wishes = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
        if not wishes and not self._added_preferred.terms:
            return fwk.SKIP
        own = node_selector.preferred_affinity(pod.signature.spec, self._options)
        return _PreferredNodeAffinity(cluster.labels, PreferredAffinity(self._added_preferred.terms + own.terms))

    def score(self, state: _PreferredNodeAffinity, rows: fwk.Rows) -> fwk.Scores:
        return state.labels.preferred_scores(state.preferred)[rows]

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        changed = fwk.Action.ADD | fwk.Action.UPDATE_NODE_LABEL
        return (fwk.wake_on(fwk.Kind.NODE, changed, self._after_node_change),)

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        required = node_selector.required_affinity(pod.spec, self._options)
        matched = old is not None and self._matches(required, old)
        return fwk.QueueingHint.of(new is not None and not matched and self._matches(required, new))

    def _matches(self, required: RequiredAffinity, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        return self._added.matches(labels, name) and required.matches(labels, name)


def _check_added(added: core_v1.NodeAffinity) -> None:
    from mooring.scheduler.plugins.added_affinity import problems  # noqa: PLC0415 - few configurations have it

    if found := problems(added):
        raise plugin_arguments.error(NodeAffinity.name, "; ".join(map(str, found)))


def _find_named_nodes(spec: core_v1.PodSpec) -> frozenset[str] | None:
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required or not required.node_selector_terms:
        return None
    chosen: set[str] = set()
    for term in required.node_selector_terms:
        wanted: frozenset[str] | None = None
        for entry in term.match_fields:
            if entry.key == node_selector.NAME_FIELD and entry.operator == "In":
                values = frozenset(entry.values)
                wanted = values if wanted is None else wanted & values
        if wanted is None:
            return None
        chosen |= wanted
    return frozenset(chosen)
