"""Which words of a constraint its reader does not know: those have to be said in others.

A reader's words are a `ConstraintOptions` too: a field is true where the reader understands that feature. A word that
the control plane's own gate has switched off counts as foreign to everybody, so that it is lowered to "never" (fail
closed) also for a reader who would judge it.
"""

from typing import Final

from mooring.api.core_v1 import NodeSelector, NodeSelectorTerm, PodSpec, Toleration
from mooring.constraints import semver
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NUMERIC

STOCK: Final = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)
"""A reader who knows none of the new words."""


def understood(known: ConstraintOptions, options: ConstraintOptions) -> ConstraintOptions:
    """What may be left as it is: words that the reader knows and the control plane has switched on."""
    return ConstraintOptions(
        numeric_tolerations=known.numeric_tolerations and options.numeric_tolerations,
        semver_operators=known.semver_operators and options.semver_operators,
        cel=known.cel and options.cel,
    )


def is_foreign(part: Toleration | NodeSelectorTerm, known: ConstraintOptions = STOCK) -> bool:
    """Whether a toleration or a node selector term uses a word that is not among `known`."""
    if isinstance(part, NodeSelectorTerm):
        return bool(part.match_cel_expressions and not known.cel) or (
            not known.semver_operators and any(entry.operator in semver.OPERATORS for entry in part.match_expressions)
        )
    if part.expression:
        return not known.cel
    if part.operator in NUMERIC:
        return not known.numeric_tolerations
    return part.operator in semver.OPERATORS and not known.semver_operators


def has_foreign_words(spec: PodSpec, known: ConstraintOptions = STOCK) -> bool:
    """Whether anything in a pod's tolerations or node affinity is not among `known`."""
    if any(is_foreign(toleration, known) for toleration in spec.tolerations):
        return True
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity:
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    return (required is not None and selector_is_foreign(required, known)) or any(
        is_foreign(entry.preference, known) for entry in affinity.preferred_during_scheduling_ignored_during_execution
    )


def selector_is_foreign(selector: NodeSelector, known: ConstraintOptions = STOCK) -> bool:
    return any(is_foreign(term, known) for term in selector.node_selector_terms)
