"""Which of the gated matching rules are on: read once from the gates, then handed to every matching function.

Each component builds one at its start and never asks the gates again. What is off never matches (fail closed): the API
server may have stored an operator or expression while its gate was on, and a scheduler may be started with it off.
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


def from_gates(gates: FeatureGates) -> ConstraintOptions:
    return ConstraintOptions(
        numeric_tolerations=gates.enabled(known_gates.COMPARISON_OPERATORS),
        semver_operators=gates.enabled(known_gates.SEMVER_OPERATORS),
        cel=gates.enabled(known_gates.CEL),
    )


def declared(features: Container[str]) -> ConstraintOptions:
    """What a component understands that declares these features by the names of their gates."""
    return ConstraintOptions(
        numeric_tolerations=known_gates.COMPARISON_OPERATORS in features,
        semver_operators=known_gates.SEMVER_OPERATORS in features,
        cel=known_gates.CEL in features,
    )
