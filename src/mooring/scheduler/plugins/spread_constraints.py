"""The spread constraints of a pod: its own, or the plugin's defaults for pods of a Service or workload."""

from collections.abc import Hashable, Sequence
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api import codec, label_selector
from mooring.api.apps_v1 import ReplicaSet, StatefulSet
from mooring.api.base import Object
from mooring.api.core_v1 import Pod, PodSpec, ReplicationController, Service, TopologySpreadConstraint
from mooring.api.label_selector import EVERYTHING, NOTHING, Operator, Requirement, Selector, SelectorError
from mooring.api.meta_v1 import LabelSelector
from mooring.constraints import node_selector
from mooring.constraints.columns.revisions import NEVER
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.selector_index import SelectorIndex
from mooring.scheduler.columns.signatures import PodSignature
from mooring.scheduler.columns.topology import HOSTNAME, ZONE, Domains, Mask, Topology
from mooring.scheduler.framework import PluginArguments, SchedulerFeatures
from mooring.scheduler.plugins import arguments as plugin_arguments

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_HONOR = "Honor"
_SYSTEM = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", max_skew=5),
)


class PodTopologySpreadArgs(Object):
    """The arguments of the PodTopologySpread plugin."""

    default_constraints: list[TopologySpreadConstraint] = []  # noqa: RUF012 - msgspec copies it
    """Constraints for pods without constraints; without selectors, which come from the pod's Services and workload."""
    defaulting_type: str = ""
    """System (the default: spread over hosts and zones as far as possible) or List (as in defaultConstraints)."""


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A spread constraint with its selector compiled."""

    topology_key: str
    max_skew: int
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    @property
    def counted(self) -> Selector:
        """Return the selector of the pods that are counted: none for an empty selector, as in Kubernetes."""
        return NOTHING if self.selector.is_empty() else self.selector


class SpreadConstraints:
    """Finds the spread constraints of pods, by their spec or by the plugin's defaults."""

    def __init__(self, plugin: str, arguments: PluginArguments, cluster: Cluster, features: SchedulerFeatures) -> None:
        args = plugin_arguments.read(plugin, arguments, PodTopologySpreadArgs)
        self.features = features
        self._cluster = cluster
        self._is_system = args.defaulting_type in ("", "System")
        self._defaults: Sequence[TopologySpreadConstraint] = _SYSTEM if self._is_system else args.default_constraints
        self.refuse_by_default = any(entry.when_unsatisfiable == "DoNotSchedule" for entry in self._defaults)
        """Whether default constraints can reject pods (DoNotSchedule)."""
        self._services = _ServiceIndex(cluster)
        self.included = IncludedNodes(cluster, features.constraints)
        self._check_arguments(plugin, args)

    def _check_arguments(self, plugin: str, args: PodTopologySpreadArgs) -> None:
        if args.defaulting_type not in ("", "System", "List"):
            raise plugin_arguments.error(plugin, f'defaultingType "{args.defaulting_type}" is not System or List')
        if self._is_system and args.default_constraints:
            raise plugin_arguments.error(plugin, "when defaultingType is System, there are no defaultConstraints")
        for entry in args.default_constraints:
            if entry.label_selector is not None:
                raise plugin_arguments.error(plugin, "defaultConstraints must have no labelSelector")
            if entry.max_skew <= 0 or not entry.topology_key or entry.when_unsatisfiable not in _ACTIONS:
                raise plugin_arguments.error(plugin, f"the default constraint on {entry.topology_key!r} is not valid")

    def need_all_labels(self, signature: PodSignature) -> bool:
        """Return whether nodes without one of the topology labels are ignored; not for System default constraints."""
        return bool(signature.spec.topology_spread_constraints) or not self._is_system

    def changed_at(self, signature: PodSignature) -> int:
        """Return the latest revision at which the spread constraints of a pod signature may have changed."""
        if signature.spec.topology_spread_constraints or not self._defaults:
            return 0
        return self._cluster.changed_at(Service, ReplicaSet, StatefulSet, ReplicationController)

    def may_have(self, signature: PodSignature, action: str) -> bool:
        """Return whether a pod signature has constraints with this `whenUnsatisfiable`, or may get default ones."""
        constraints = signature.spec.topology_spread_constraints or self._defaults
        return any(entry.when_unsatisfiable == action for entry in constraints)

    def find_constraints(self, signature: PodSignature, action: str) -> list[SpreadConstraint]:
        """Return the spread constraints of a pod signature that have this `whenUnsatisfiable`."""
        own = signature.spec.topology_spread_constraints
        if own:
            return [
                self._compile_constraint(entry, signature.labels) for entry in own if entry.when_unsatisfiable == action
            ]
        wanted = [entry for entry in self._defaults if entry.when_unsatisfiable == action]
        selector = self._default_selector(signature) if wanted else EVERYTHING
        if selector.is_empty():
            return []
        return [self._compile_constraint(entry, signature.labels, selector) for entry in wanted]

    def find_constraints_of_pod(self, pod: Pod, action: str) -> list[SpreadConstraint]:
        return self.find_constraints(self._cluster.signatures.signature_of(pod), action)

    def _compile_constraint(
        self, source: TopologySpreadConstraint, labels: dict[str, str], selector: Selector | None = None
    ) -> SpreadConstraint:
        if selector is None:
            selector = _compile_selector(source.label_selector)
        if self.features.spread_label_keys:
            selector = self._with_label_keys(selector, source.match_label_keys, labels)
        policies = self.features.node_inclusion_policy
        return SpreadConstraint(
            topology_key=source.topology_key,
            max_skew=source.max_skew,
            selector=selector,
            min_domains=source.min_domains or 1,
            honor_affinity=not policies or source.node_affinity_policy in (None, _HONOR),
            honor_taints=policies and source.node_taints_policy == _HONOR,
        )

    def _with_label_keys(self, selector: Selector, keys: Sequence[str], labels: dict[str, str]) -> Selector:
        merged = {entry.key for entry in selector.requirements if entry.operator is Operator.IN}
        done = merged if self.features.spread_label_keys_merged else frozenset[str]()
        added = [Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels and key not in done]
        return selector.plus(added) if added else selector

    def _default_selector(self, signature: PodSignature) -> Selector:
        labels: dict[str, str] = {}
        for wanted in self._services.find_selecting(signature.namespace, signature.labels):
            labels |= wanted
        selector = label_selector.from_labels(labels)
        if signature.owner is None:
            return selector
        kind, name = signature.owner
        key = object_key(signature.namespace, name)
        if kind == "ReplicationController":
            controller = self._cluster.objects(ReplicationController).get(key)
            return label_selector.from_labels(labels | controller.spec.selector) if controller else selector
        owners: type[ReplicaSet | StatefulSet] = ReplicaSet if kind == "ReplicaSet" else StatefulSet
        owner = self._cluster.objects(owners).get(key)
        return selector.plus(_compile_selector(owner.spec.selector).requirements) if owner else selector


class IncludedNodes:
    """A cache of the nodes on which constraints count pods, because they are the same for most pods."""

    def __init__(self, cluster: Cluster, options: ConstraintOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._made_for: tuple[int, ...] = ()
        self._known: WeakValueDictionary[Hashable, CountedNodes] = WeakValueDictionary()

    def find_counted_nodes(
        self, spec: PodSpec, required: Sequence[Topology], constraints: Sequence[SpreadConstraint]
    ) -> "CountedNodes":
        """Return the nodes on which constraints count pods: those with the labels of all `required` topologies.

        Pods with equal constraints, node affinity and tolerations share the result.
        """
        cluster = self._cluster
        made_for = cluster.labels.changed_at, cluster.taints.changed_at, cluster.layout
        if made_for != self._made_for:
            self._known, self._made_for = WeakValueDictionary(), made_for
        rules = [(each.topology_key, each.honor_affinity, each.honor_taints) for each in constraints]
        affinity = spec.affinity and spec.affinity.node_affinity
        chosen = codec.encode((spec.node_selector, affinity)) if spec.node_selector or affinity else b""
        tolerations = codec.encode(spec.tolerations) if spec.tolerations else b""
        key = (*[topology.key for topology in required], None, *rules, chosen, tolerations)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = CountedNodes(cluster, spec, required, constraints, self._options)
        return found


class CountedNodes:
    """The nodes on which each constraint of a pod counts pods, with their domains."""

    def __init__(
        self,
        cluster: Cluster,
        spec: PodSpec,
        required: Sequence[Topology],
        constraints: Sequence[SpreadConstraint],
        options: ConstraintOptions,
    ) -> None:
        self.labelled: Mask = cluster.labels.nodes.copy()
        """The nodes that have all topology labels, or all nodes if labels are not required."""
        for topology in required:
            self.labelled &= topology.codes > 0
        self._topologies = [cluster.topologies.of(each.topology_key) for each in constraints]
        self.domains = Domains(self._topologies, cluster.capacity)
        self.unlabelled = [(codes == 0).nonzero()[0] for codes in self.domains.parts]
        self.counted: list[tuple[Mask, NDArray[np.intp]]] = []
        """For each constraint, the included nodes and their domains."""
        affine = self.labelled & cluster.labels.required_mask(node_selector.required_affinity(spec, options))
        tolerated = cluster.taints.find_untolerated(spec.tolerations).mask()
        for each, topology in zip(constraints, self._topologies, strict=True):
            nodes = affine if each.honor_affinity else self.labelled
            nodes = nodes & tolerated if each.honor_taints else nodes
            numbers = np.bincount(topology.codes[nodes], minlength=len(topology.values))
            numbers[0] = 0
            self.counted.append((nodes, numbers.nonzero()[0]))


class _ServiceIndex:
    """The selectors of Services, indexed by label."""

    def __init__(self, cluster: Cluster) -> None:
        self._services = cluster.objects(Service)
        self._log = cluster.changes(Service)
        self._verified_at = NEVER
        self._index: SelectorIndex[str] = SelectorIndex()

    def find_selecting(self, namespace: str, labels: dict[str, str]) -> list[dict[str, str]]:
        """Return the selectors of the Services that select a pod."""
        if self._verified_at != self._log.changed_at:
            self._update()
        found = (self._services[key].spec.selector for key in sorted(self._index.find_candidates(namespace, labels)))
        return [wanted for wanted in found if wanted.items() <= labels.items()]

    def _update(self) -> None:
        changed = self._log.entries_since(self._verified_at, most=len(self._services))
        self._verified_at = self._log.changed_at
        for key in list(self._index) if changed is None else changed:
            self._index.remove(key)
        for key in self._services if changed is None else changed:
            service = self._services.get(key)
            if service is not None and service.spec.selector:
                selector = label_selector.from_labels(service.spec.selector)
                self._index.add(key, selector, (service.metadata.namespace,))


def _compile_selector(source: LabelSelector | None) -> Selector:
    try:
        return label_selector.from_label_selector(source)
    except SelectorError:  # validation refuses it; if it was stored all the same, it chooses nothing
        return NOTHING
