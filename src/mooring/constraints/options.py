"""The gated matching rules that are on: read once from the feature gates, then passed to every matching function.

Each component builds one at start. A rule that is off never matches (fail closed): the API server may have stored an
operator or expression while its gate was on, and a scheduler may be started with it off.
"""

from collections.abc import Container

import msgspec

from mooring.base import known_gates
from mooring.base.gates import FeatureGates


class ConstraintOptions(msgspec.Struct, frozen=True):
    numeric_tolerations: bool = True
    """``Lt`` and ``Gt`` in tolerations (KEP-5471)."""
    semver_operators: bool = True
    """``SemverLt``, ``SemverGt`` and ``SemverEq`` in tolerations and node selector terms (KEP-5721)."""
    cel: bool = True
    """``expression`` in tolerations and ``matchCELExpressions`` in node selector terms (KEP-5500)."""


GATES = {
    "numeric_tolerations": known_gates.COMPARISON_OPERATORS,
    "semver_operators": known_gates.SEMVER_OPERATORS,
    "cel": known_gates.CEL,
}
"""The feature gate of each option."""


def from_gates(gates: FeatureGates) -> ConstraintOptions:
    return ConstraintOptions(**{option: gates.enabled(gate) for option, gate in GATES.items()})


def from_declared_features(features: Container[str]) -> ConstraintOptions:
    """Return the features that a component supports, given the gate names that it declares."""
    return ConstraintOptions(**{option: gate in features for option, gate in GATES.items()})
