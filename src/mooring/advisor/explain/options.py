"""The names of the gates that explanations mention: which matching rule does not count while it is off."""

from mooring.base import known_gates
from mooring.constraints import semver

CEL_GATE = known_gates.CEL
SEMVER_GATE = known_gates.SEMVER_OPERATORS
OPERATOR_GATES = {
    "Lt": ("numeric_tolerations", known_gates.COMPARISON_OPERATORS),
    "Gt": ("numeric_tolerations", known_gates.COMPARISON_OPERATORS),
    **dict.fromkeys(semver.OPERATORS, ("semver_operators", known_gates.SEMVER_OPERATORS)),
}
"""By operator of a toleration: the option that switches it, and its gate."""
