"""Decide which nodes get the pods of a DaemonSet, and build a pod for one node."""

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import NamedTuple

from msgspec import structs

from mooring.api import core_v1
from mooring.constraints import node_selector, tolerations
from mooring.constraints.options import ConstraintOptions

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints that every pod of a DaemonSet tolerates."""
_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_TURN_SECONDS = 0.02


def daemon_tolerations(spec: core_v1.PodSpec) -> list[core_v1.Toleration]:
    """Return a template's tolerations, and those that every pod of a DaemonSet has."""
    added = [*_TOLERATED, *([_NETWORK] if spec.host_network else [])]
    kept = [
        each
        for each in spec.tolerations
        if each.expression or (each.operator, each.value) != ("Exists", "") or (each.key, each.effect) not in added
    ]
    return [*kept, *(core_v1.Toleration(key=key, operator="Exists", effect=effect) for key, effect in added)]


class Suitability(NamedTuple):
    """The result of evaluating a node for a DaemonSet: whether its pods should run there, and may stay there."""

    should_run: bool
    may_stay: bool
    """Whether a running pod may stay, also on a node where none would be created."""
    is_evaluated: bool = True
    """False if the affinity cannot be evaluated (its gate is off): running pods stay, none are created."""


class DaemonPlacement:
    """Decides, for one DaemonSet template, on which nodes pods should run."""

    def __init__(self, spec: core_v1.PodSpec, options: ConstraintOptions) -> None:
        self._node_name = spec.node_name
        self._affinity = node_selector.required_affinity(spec, options)
        self._tolerations = tolerations.index_tolerations(daemon_tolerations(spec), options)
        self._possible = node_selector.possible_affinity(spec, options)
        self.off_operators = node_selector.features_with_gate_off(spec, options)
        """Operators in the template's affinity that are not evaluated, because their gate is off."""
        self._suitabilities: dict[tuple[str, str], Suitability] = {}

    def evaluate(self, node: core_v1.Node) -> Suitability:
        """Return whether a pod should run on the node, and whether a running pod may stay."""
        key = (node.metadata.uid, node.metadata.resource_version)
        suitability = self._suitabilities.get(key)
        if suitability is None:
            suitability = self._suitabilities[key] = self._evaluate_uncached(node)
        return suitability

    async def evaluate_all(self, nodes: Iterable[core_v1.Node], clock: Callable[[], float] = perf_counter) -> None:
        """Evaluate nodes and cache the results; yield to other controllers every 20 ms, as CEL may be slow."""
        until = clock() + _TURN_SECONDS
        for node in nodes:
            self.evaluate(node)
            if clock() >= until:
                await asyncio.sleep(0)
                until = clock() + _TURN_SECONDS

    def _evaluate_uncached(self, node: core_v1.Node) -> Suitability:
        name, labels = node.metadata.name, node.metadata.labels
        if self._node_name not in ("", name) or not self._possible.matches(labels, name):
            return Suitability(should_run=False, may_stay=False)
        if self._tolerations.find_untolerated(node.spec.taints) is not None:
            no_execute = frozenset({tolerations.NO_EXECUTE})
            may_stay = self._tolerations.find_untolerated(node.spec.taints, no_execute) is None
            return Suitability(should_run=False, may_stay=may_stay)
        is_evaluated = self._affinity.matches(labels, name)
        return Suitability(should_run=is_evaluated, may_stay=True, is_evaluated=is_evaluated)


def affects_placement(old: core_v1.Node | None, new: core_v1.Node | None) -> bool:
    """Return whether an added, updated or deleted node may change where pods of DaemonSets run."""
    if old is None or new is None:
        return True
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints


def pin_spec_to_node(spec: core_v1.PodSpec, node: str) -> core_v1.PodSpec:
    """Return the template's spec with affinity to the node's name in place of its node affinity."""
    by_name = core_v1.NodeSelectorRequirement(key=node_selector.NAME_FIELD, operator="In", values=[node])
    affinity = spec.affinity or core_v1.Affinity()
    given = affinity.node_affinity or core_v1.NodeAffinity()
    required = core_v1.NodeSelector(node_selector_terms=[core_v1.NodeSelectorTerm(match_fields=[by_name])])
    pinned = structs.replace(given, required_during_scheduling_ignored_during_execution=required)
    return structs.replace(
        spec, affinity=structs.replace(affinity, node_affinity=pinned), tolerations=daemon_tolerations(spec)
    )


def target_node_of(pod: core_v1.Pod) -> str:
    """Return the node that a DaemonSet's pod is bound to, else the one in its affinity, else an empty string."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    names = node_selector.named_nodes(required) if required else None
    return next(iter(names), "") if names else ""
