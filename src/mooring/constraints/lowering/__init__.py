"""Constraints said again in the words of stock Kubernetes: for one node, or for a whole cluster.

Kubelets, kube-scheduler and autoscalers know `Equal` and `Exists` tolerations and six operators on labels. They do not
know `Semver*`, CEL, or (before its gate) `Lt` and `Gt` of tolerations. Lowering says what such a constraint means for
the taints and labels that are there now, so that stock rules on the lowered form decide what the new rules decide on
the original. Everything here is pure. It narrows where it cannot say the same, and never widens.

    words.py        which words a reader knows (`STOCK`: none of the new ones), and which of a constraint's are foreign
    tolerations.py  `lower_tolerations`: `Equal` tolerations for the taints of a node, or of a cluster
    terms.py        `Constraint`: the foreign part of a node selector term, its label key, whether a node meets it;
                    `lower_term`: a term for the cluster, `term_of_known_values`: one that autoscalers can reckon with
    for_node.py     `lower_pod`, `lower_volume`: whole objects for one node, where every verdict is known already;
                    `reliance`: what of a node decides, for caches that nodes share

Called by the API server (what nodes read), the bridge (stock clusters) and `mooring bridge convert`. All functions take
`options`, which says what the control plane's gates allow (what is off never matches), and `known`, the reader's words.

    >>> from mooring.api.core_v1 import Taint, Toleration
    >>> from mooring.constraints.options import ConstraintOptions
    >>> wanted = Toleration(key="sla", operator="Gt", value="950", effect="NoExecute", toleration_seconds=30)
    >>> taints = [Taint(key="sla", value="960", effect="NoExecute"), Taint(key="sla", value="940", effect="NoExecute")]
    >>> [lowered] = lower_tolerations([wanted], taints, ConstraintOptions())
    >>> lowered.operator, lowered.value, lowered.toleration_seconds
    ('Equal', '960', 30)
"""

from mooring.constraints.lowering.for_node import NodeWords, Reliance, lower_pod, lower_volume, reliance
from mooring.constraints.lowering.terms import (
    LABEL_PREFIX,
    LABEL_VALUE,
    Constraint,
    constraint_of,
    lower_term,
    term_of_known_values,
)
from mooring.constraints.lowering.tolerations import lower_tolerations
from mooring.constraints.lowering.words import STOCK, has_foreign_words, is_foreign

__all__ = [
    "LABEL_PREFIX",
    "LABEL_VALUE",
    "STOCK",
    "Constraint",
    "NodeWords",
    "Reliance",
    "constraint_of",
    "has_foreign_words",
    "is_foreign",
    "lower_pod",
    "lower_term",
    "lower_tolerations",
    "lower_volume",
    "reliance",
    "term_of_known_values",
]
