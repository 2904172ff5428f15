"""Lowering: rewrite constraints in operators that upstream Kubernetes knows, for one node or for a whole cluster.

Kubelets, kube-scheduler and autoscalers know `Equal` and `Exists` tolerations and six operators on labels, but not
`Semver*`, CEL, or (before its gate) `Lt` and `Gt` of tolerations. A lowered constraint matches, under upstream rules,
the current taints and labels that the original matches. Everything here is pure. Where the result cannot be equal, it
matches less, never more.

    support.py      which features a reader supports (`STOCK`: none), and which constraints use unsupported ones
    tolerations.py  `lower_tolerations`: `Equal` tolerations for the taints of a node, or of a cluster
    terms.py        `Constraint`: the unsupported part of a node selector term, its label key, whether a node matches;
                    `lower_term`: a term for the cluster, `term_of_known_values`: one for cluster autoscalers
    for_node.py     `lower_pod`, `lower_volume`: whole objects for one node, where every result is known already

Used by the API server (for kubelets), the bridge (stock clusters) and `mooring bridge convert`. All functions take
`options`, the control plane's gates (a disabled feature never matches), and `known`, the reader's features.

    >>> from mooring.api.core_v1 import Taint, Toleration
    >>> from mooring.constraints.lowering.tolerations import lower_tolerations
    >>> from mooring.constraints.options import ConstraintOptions
    >>> wanted = Toleration(key="sla", operator="Gt", value="950", effect="NoExecute", toleration_seconds=30)
    >>> taints = [Taint(key="sla", value="960", effect="NoExecute"), Taint(key="sla", value="940", effect="NoExecute")]
    >>> [lowered] = lower_tolerations([wanted], taints, ConstraintOptions())
    >>> lowered.operator, lowered.value, lowered.toleration_seconds
    ('Equal', '960', 30)
"""
