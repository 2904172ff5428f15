"""Find which features of a constraint its reader does not support, so that they must be lowered.

A reader's features are a `ConstraintOptions` too: a field is true if the reader supports that feature. A feature whose
gate is off in the control plane counts as unsupported everywhere, so that it is lowered to "never" (fail closed) also
for a reader that supports it.
"""

from typing import Final

from mooring.api.core_v1 import NodeSelectorTerm, PodSpec, Toleration
from mooring.constraints import semver
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NUMERIC

STOCK: Final = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)
"""A reader that supports none of the new features: upstream Kubernetes."""


def common_features(known: ConstraintOptions, options: ConstraintOptions) -> ConstraintOptions:
    """Return the features that need no lowering: the reader supports them and the control plane has them on."""
    return ConstraintOptions(
        numeric_tolerations=known.numeric_tolerations and options.numeric_tolerations,
        semver_operators=known.semver_operators and options.semver_operators,
        cel=known.cel and options.cel,
    )


def is_unsupported(part: Toleration | NodeSelectorTerm, known: ConstraintOptions = STOCK) -> bool:
    """Whether a toleration or a node selector term uses a feature that `known` lacks."""
    if isinstance(part, NodeSelectorTerm):
        return bool(part.match_cel_expressions and not known.cel) or (
            not known.semver_operators and any(entry.operator in semver.OPERATORS for entry in part.match_expressions)
        )
    if part.expression:
        return not known.cel
    if part.operator in NUMERIC:
        return not known.numeric_tolerations
    return part.operator in semver.OPERATORS and not known.semver_operators


def needs_lowering(spec: PodSpec, known: ConstraintOptions = STOCK) -> bool:
    """Whether a pod's tolerations or node affinity use a feature that `known` lacks."""
    if any(is_unsupported(toleration, known) for toleration in spec.tolerations):
        return True
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity:
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = [*(required.node_selector_terms if required is not None else ())]
    terms += [each.preference for each in affinity.preferred_during_scheduling_ignored_during_execution]
    return any(is_unsupported(term, known) for term in terms)
