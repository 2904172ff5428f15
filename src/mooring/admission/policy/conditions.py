"""Match conditions of policies and webhooks: expressions that must all be true for a request to match.

If one is false, the request does not match. If none is false and one failed, the failure policy decides.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.admission.policy.compiling import Compiled, compile_expression
from mooring.admission.policy.evaluation import Activation, Budget, OutOfBudgetError
from mooring.api.admissionregistration_v1 import IGNORE, MatchCondition
from mooring.cel.environment import Environment
from mooring.constraints.celenv.admission import CONDITIONS_BUDGET, admission_environment

BOOL = ("bool",)


class ConditionError(Exception):
    """Match conditions failed to evaluate and the failure policy is `Fail`; the message is Kubernetes'."""


class Conditions:
    """The match conditions of a policy or webhook."""

    def __init__(
        self,
        conditions: Sequence[MatchCondition],
        failure_policy: str | None,
        environment: Environment | None = None,
        variables: Mapping[str, Compiled] | None = None,
    ) -> None:
        """Compile the conditions. Webhooks pass no environment and have no variables."""
        self._ignored = failure_policy == IGNORE
        self._variables = variables
        if conditions:
            environment = environment or admission_environment(None)
        self.compiled = (
            [compile_expression(environment, each.expression, BOOL) for each in conditions] if environment else []
        )

    def __bool__(self) -> bool:
        return bool(self.compiled)

    def are_met(self, values: Mapping[str, Any]) -> bool:
        """Whether all conditions are true for a request, given by its CEL variables (`values_for`).

        Raise ConditionError if none is false, one failed and the failure policy is Fail.
        """
        if not self.compiled:
            return True
        activation = Activation({**values, "namespaceObject": None}, self._variables)
        budget = Budget(CONDITIONS_BUDGET)
        try:
            outcomes = [budget.evaluate(each, activation) for each in self.compiled]
        except OutOfBudgetError as error:
            return self._handle_failure([str(error)])
        problems = [outcome.error for outcome in outcomes if outcome.error]
        if any(outcome.value is False for outcome in outcomes if not outcome.error):
            return False
        return self._handle_failure(problems) if problems else True

    def _handle_failure(self, problems: list[str]) -> bool:
        if self._ignored:
            return False
        distinct = [*dict.fromkeys(problems)]
        raise ConditionError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
