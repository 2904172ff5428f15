"""Validate `addedAffinity`, the node affinity that a scheduler's configuration adds to every pod.

A mistake in it would make every node infeasible, so the scheduler refuses to start, as kube-scheduler does. The rules
are those for pods in ``mooring.admission``. Gates are ignored: a gated operator does not match, and a scheduler must
still start after a rollback. Called by ``node_affinity.py``.
"""

from collections.abc import Iterator

from mooring.admission.node_selector import NodeSelectorRules, validate_node_selector_term
from mooring.admission.options import AdmissionOptions
from mooring.api import field_errors, label_selector
from mooring.api.core_v1 import NodeAffinity, NodeSelectorTerm
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path

_HERE = Path("addedAffinity")
_NOT_A_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"


def problems(added: NodeAffinity) -> Errors:
    """Return every mistake in `addedAffinity` with its field. Missing or empty terms are allowed, as upstream."""
    # Expressions of a configuration are not new ones of a client: whatever this version understands may be there.
    rules = NodeSelectorRules(semver_operators=True, check_expression=AdmissionOptions().expression_checks.stored_node)
    found: Errors = []
    for term, path, is_required in _terms_with_paths(added):
        found += validate_node_selector_term(term, path, rules, check_label_values=is_required)
        found += _check_numbers(term, path)
    return found


def _terms_with_paths(added: NodeAffinity) -> Iterator[tuple[NodeSelectorTerm, Path, bool]]:
    required = added.required_during_scheduling_ignored_during_execution
    here = _HERE.child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for index, term in enumerate(required.node_selector_terms if required else ()):
        yield term, here.index(index), True
    here = _HERE.child("preferredDuringSchedulingIgnoredDuringExecution")
    for index, weighted in enumerate(added.preferred_during_scheduling_ignored_during_execution):
        yield weighted.preference, here.index(index).child("preference"), False


def _check_numbers(term: NodeSelectorTerm, path: Path) -> Iterator[FieldError]:
    for index, entry in enumerate(term.match_expressions):
        if entry.operator in ("Gt", "Lt") and len(entry.values) == 1:
            value = entry.values[0]
            if label_selector.parse_lax_int64(value) is None:
                here = path.child("matchExpressions").index(index).child("values").index(0)
                yield field_errors.invalid(here, value, _NOT_A_NUMBER)
