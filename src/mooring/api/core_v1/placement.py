"""What a pod says about where it may run: affinity, taints, tolerations and topology spread.

The operators and expressions of KEP-5471, KEP-5721 and KEP-5500 and the label keys of KEP-3633 live in these types;
what they mean is in ``mooring.constraints``, who may write them in ``mooring.admission``.
"""

from typing import ClassVar

from msgspec import field

from mooring.api.base import Int32, Int64, Merge, Object, atomic, required
from mooring.api.meta_v1 import LabelSelector


class Taint(Object):
    """Keeps pods that do not tolerate it away from a node."""

    key: str = required(str)
    value: str = ""
    """The value that belongs to the key."""
    effect: str = required(str)
    """What happens to pods that do not tolerate it: NoSchedule, PreferNoSchedule or NoExecute."""
    time_added: str | None = None
    """When the taint was added or its value changed; the server sets it for NoExecute."""


class Toleration(Object):
    """Lets a pod run on nodes with matching taints, by key and operator or by a CEL expression."""

    key: str = ""
    """The taint key to match; empty with Exists matches every taint."""
    operator: str = ""
    """How the taint's value compares: Equal (the default), Exists, Lt, Gt, SemverLt, SemverGt or SemverEq."""
    value: str = ""
    """What the taint's value is compared with; for Lt and Gt an integer, for the semver operators a version."""
    effect: str = ""
    """The taint effect to match; empty matches every effect."""
    toleration_seconds: Int64 | None = None
    """How long a matched NoExecute taint is tolerated; for ever when absent."""
    expression: str = ""
    """A CEL expression over the variable taint, true for tolerated taints; only tolerationSeconds may be beside it."""


class NodeSelectorRequirement(Object):
    """A condition on one label or field of a node."""

    key: str = required(str)
    """The label key, or field in matchFields."""
    operator: str = required(str)
    """In, NotIn, Exists, DoesNotExist, Gt, Lt, SemverLt, SemverGt or SemverEq."""
    values: list[str] = []
    """What to compare with: one or more for In and NotIn, none for Exists and DoesNotExist, else exactly one."""


class NodeSelectorTerm(Object):
    """Conditions on a node that must all hold; a term without any matches no node."""

    __merge__: ClassVar[Merge | None] = atomic()

    match_expressions: list[NodeSelectorRequirement] = []
    """Conditions on the node's labels."""
    match_fields: list[NodeSelectorRequirement] = []
    """Conditions on the node's fields; only metadata.name can be chosen."""
    match_cel_expressions: list[str] = field(default_factory=list, name="matchCELExpressions")
    """CEL expressions over the variable node that must all be true."""


class NodeSelector(Object):
    """Chooses nodes: at least one term must match."""

    __merge__: ClassVar[Merge | None] = atomic()

    node_selector_terms: list[NodeSelectorTerm] = required(list)
    """The terms; at least one must match."""


class PreferredSchedulingTerm(Object):
    """A node selector term that gives points instead of excluding nodes."""

    weight: Int32 = required(int)
    """The points for nodes that match, from 1 to 100."""
    preference: NodeSelectorTerm = required(NodeSelectorTerm)


class NodeAffinity(Object):
    """Requirements and preferences about the labels and fields of nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that do not match are excluded."""
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []
    """Nodes that match get more points."""


class PodAffinityTerm(Object):
    """A set of pods, and the topology domain in which to be near or far from them."""

    label_selector: LabelSelector | None = None
    """Chooses the pods by their labels; absent chooses none."""
    namespaces: list[str] = []
    """Names of the namespaces of the pods; together with namespaceSelector, or the pod's own when both are absent."""
    topology_key: str = required(str)
    """The node label whose equal values make one domain."""
    namespace_selector: LabelSelector | None = None
    """Chooses the namespaces of the pods by their labels; empty chooses all."""
    match_label_keys: list[str] = []
    """Label keys whose values on the new pod the others must share; merged into labelSelector on creation."""
    mismatch_label_keys: list[str] = []
    """Label keys whose values on the new pod the others must not share; merged into labelSelector on creation."""


class WeightedPodAffinityTerm(Object):
    """A pod affinity term that gives points."""

    weight: Int32 = required(int)
    """The points of the term, from 1 to 100."""
    pod_affinity_term: PodAffinityTerm = required(PodAffinityTerm)


class PodAffinity(Object):
    """Requirements and preferences to be in the same topology domain as other pods."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    """Nodes outside the domains of the chosen pods are excluded."""
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []
    """Nodes in the domains of the chosen pods get more points."""


class PodAntiAffinity(Object):
    """Requirements and preferences not to be in the same topology domain as other pods."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    """Nodes in the domains of the chosen pods are excluded."""
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []
    """Nodes in the domains of the chosen pods get fewer points."""


class Affinity(Object):
    """Everything about which nodes and pods a pod wants to be with."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Object):
    """A constraint on how evenly matching pods are spread over the domains of a topology."""

    max_skew: Int32 = required(int)
    """By how much the number of pods in one domain may exceed that in the emptiest."""
    topology_key: str = required(str)
    """The node label whose equal values make one domain."""
    when_unsatisfiable: str = required(str)
    """What to do when the skew would be too large: DoNotSchedule or ScheduleAnyway."""
    label_selector: LabelSelector | None = None
    """Chooses the pods that are counted."""
    min_domains: Int32 | None = None
    """With fewer domains than this the emptiest counts as having no pods."""
    node_affinity_policy: str | None = None
    """Whether nodes that the pod's node affinity excludes are left out of the count: Honor or Ignore."""
    node_taints_policy: str | None = None
    """Whether nodes that the pod does not tolerate are left out of the count: Honor or Ignore."""
    match_label_keys: list[str] = []
    """Label keys whose values on the new pod the counted pods must share."""
