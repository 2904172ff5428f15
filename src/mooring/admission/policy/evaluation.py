"""Evaluate expressions of policies and match conditions within Kubernetes' cost budgets.

An `Activation` holds the variables of one request and one set of parameters; `CostBudget.evaluate` charges the cost of
an expression and of the composed variables that it evaluates first. `MatchConditions` are the match conditions of a
policy or webhook, which must all be true. `Reinvocation` decides which policies and webhooks mutate an object a second
time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.admission.policy.attributes import Attributes, Tree
from mooring.admission.policy.compiling import CompiledExpression, compile_expression
from mooring.admission.policy.matching import RequestView
from mooring.api.admissionregistration_v1 import IGNORE, MatchCondition
from mooring.api.excerpt import Excerpt
from mooring.api.quoting import go_quote
from mooring.cel.environment import Environment, Program
from mooring.cel.errors import CostLimitExceeded, EvaluationError
from mooring.constraints.celenv.admission import CONDITIONS_BUDGET, PER_CALL, admission_environment
from mooring.constraints.celenv.authorizer import Action, AuthorizerValue, Decide, ResourceCheck, deny_all

OUT_OF_BUDGET = "validation failed due to running out of cost budget"
_TOO_EXPENSIVE = "operation cancelled: actual cost limit exceeded"


class OutOfBudgetError(Exception):
    """Raised when the expressions of a policy exceed their cost budget together; the message is Kubernetes'."""

    def __init__(self) -> None:
        super().__init__(f"{OUT_OF_BUDGET}, no further validation rules will be run")


class EvaluationOutcome(NamedTuple):
    """The value of an evaluated CEL expression, or a non-empty error."""

    value: Any = None
    error: str = ""


class CostBudget:
    """The CEL cost that the expressions of one policy may still spend on a request."""

    __slots__ = ("left",)

    def __init__(self, amount: int) -> None:
        self.left = amount

    def evaluate(self, each: CompiledExpression, activation: "Activation") -> EvaluationOutcome:
        """Evaluate an expression and subtract its cost; return value or error. Raise OutOfBudgetError if too high."""
        if each.error:
            return EvaluationOutcome(error=f"compilation error: {each.error}")
        outcome, cost = evaluate_program(each.program, activation)
        self.spend(cost + activation.pop_cost())
        if outcome.error:
            return EvaluationOutcome(error=f"expression '{each.expression}' resulted in error: {outcome.error}")
        return outcome

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise OutOfBudgetError


def evaluate_program(program: Program, bindings: Mapping[str, Any]) -> tuple[EvaluationOutcome, int]:
    """Evaluate a CEL program within the cost limit of one call; return its value or error, and its cost."""
    try:
        value, cost = program.evaluate_counted(bindings, PER_CALL)
    except CostLimitExceeded:
        return EvaluationOutcome(error=_TOO_EXPENSIVE), PER_CALL
    except EvaluationError as error:
        return EvaluationOutcome(error=str(error)), 1
    return EvaluationOutcome(value), cost


class Activation(dict[str, Any]):
    """The CEL variables of one policy evaluation; adds up the cost of composed variables as they are evaluated."""

    __slots__ = ("cost",)

    def __init__(self, values: Mapping[str, Any], variables: Mapping[str, CompiledExpression] | None = None) -> None:
        super().__init__(values)
        self.cost = 0
        if variables:
            self["variables"] = _ComposedVariables(variables, self)

    def pop_cost(self) -> int:
        """Return the cost of composed variables evaluated since the last call, and reset it to 0."""
        cost, self.cost = self.cost, 0
        return cost


class _ComposedVariables(Mapping[str, Any]):
    """The CEL variable `variables`: evaluates a composed variable on first access and caches its value or error."""

    __slots__ = ("_activation", "_compiled", "_known")

    def __init__(self, variables: Mapping[str, CompiledExpression], activation: Activation) -> None:
        self._compiled = variables
        self._activation = activation
        self._known: dict[str, EvaluationOutcome] = {}

    def __getitem__(self, name: str) -> Any:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._evaluate_variable(name, self._compiled[name])
        if found.error:
            raise EvaluationError(found.error)
        return found.value

    def _evaluate_variable(self, name: str, each: CompiledExpression) -> EvaluationOutcome:
        if each.error:
            return EvaluationOutcome(error=f"composited variable {go_quote(name)} fails to compile: {each.error}")
        outcome, cost = evaluate_program(each.program, self._activation)
        self._activation.cost += cost
        if outcome.error:
            return EvaluationOutcome(error=f"composited variable {go_quote(name)} fails to evaluate: {outcome.error}")
        return outcome

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._compiled else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._compiled)

    def __len__(self) -> int:
        return len(self._compiled)


class VariableReads(NamedTuple):
    """The fields of `object` and `oldObject` (None: all) that CEL expressions read, and whether they read `request`."""

    object: Excerpt | None = None
    old: Excerpt | None = None
    request: bool = True
    authorizer: bool = True


EVERYTHING = VariableReads()


def find_reads(expressions: Iterable[CompiledExpression]) -> VariableReads:
    """Return which object fields the CEL expressions read in all, and whether one reads `request` or `authorizer`."""
    new, old, others = Excerpt(), Excerpt(), set()
    for each in expressions:
        for (variable, *path), keys in each.program.reads.items():
            if variable == "object":
                new.add(path, keys)
            elif variable == "oldObject":
                old.add(path, keys)
            else:
                others.add(variable)
    return VariableReads(
        None if new.is_whole else new,
        None if old.is_whole else old,
        "request" in others,
        not others.isdisjoint({"authorizer", "authorizer.requestResource"}),
    )


def build_variables(
    attributes: Attributes,
    match: RequestView,
    *,
    params: Tree | None = None,
    namespace: Tree | None = None,
    decide: Decide = deny_all,
    seen: VariableReads = EVERYTHING,
) -> dict[str, Any]:
    """Return the CEL variables for a request: objects in the version of `match`, reduced to the fields in `seen`."""
    values: dict[str, Any] = {
        "object": attributes.object_tree(match.kind, seen.object),
        "oldObject": attributes.old_tree(match.kind, seen.old),
        "request": build_request_tree(attributes, match) if seen.request else None,
        "params": params,
        "namespaceObject": namespace,
    }
    if seen.authorizer:
        resource = attributes.resource
        action = Action(
            "",
            group=resource.group,
            resource=resource.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        who = values["authorizer"] = AuthorizerValue(attributes.user, decide)
        values["authorizer.requestResource"] = ResourceCheck(who, action)
    return values


def build_request_tree(attributes: Attributes, match: RequestView) -> Tree:
    """Return the CEL variable `request`: the request of an AdmissionReview, without objects and uid."""
    user = attributes.user
    user_info = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    tree: Tree = {
        "kind": match.kind.to_tree(),
        "resource": match.resource.to_tree(),
        "requestKind": attributes.kind.to_tree(),
        "requestResource": attributes.resource.to_tree(),
        "operation": attributes.operation,
        "userInfo": {key: value for key, value in user_info.items() if value},
        "dryRun": attributes.dry_run,
    }
    for key, value in (
        ("name", attributes.name),
        ("namespace", attributes.namespace),
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("options", attributes.options),
    ):
        if value:
            tree[key] = value
    return tree


BOOL = ("bool",)


class ConditionError(Exception):
    """Raised if match conditions fail to evaluate and the failure policy is `Fail`; the message is Kubernetes'."""


class MatchConditions:
    """The compiled `matchConditions` of a policy or webhook: all must be true for a request to match."""

    def __init__(
        self,
        conditions: Sequence[MatchCondition],
        failure_policy: str | None,
        environment: Environment | None = None,
        variables: Mapping[str, CompiledExpression] | None = None,
    ) -> None:
        """Compile the conditions. For webhooks, `environment` and `variables` are None."""
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
        """Return whether all conditions are true for a request's CEL variables.

        If one fails to evaluate and none is false, return False, or raise ConditionError if the failure policy is Fail.
        """
        if not self.compiled:
            return True
        activation = Activation({**values, "namespaceObject": None}, self._variables)
        budget = CostBudget(CONDITIONS_BUDGET)
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


class Reinvocation(msgspec.Struct):
    """Records in the first round of mutating policies and webhooks which ones must run in a second round.

    Those with the reinvocation policy `IfNeeded` run again if the object was changed after they ran.
    """

    is_second: bool = False
    wanted: bool = False
    _invoked: set[object] = msgspec.field(default_factory=set)
    _again: set[object] = msgspec.field(default_factory=set)

    def record_invocation(self, invocation: object) -> None:
        """Record that a policy binding or webhook with the reinvocation policy `IfNeeded` has run."""
        self._invoked.add(invocation)

    def record_change(self) -> None:
        """Record that the object has changed: all policy bindings and webhooks recorded so far must run again."""
        self.wanted = True
        self._again |= self._invoked
        self._invoked = set()

    def should_skip(self, invocation: object) -> bool:
        """Return whether to skip a binding or webhook: in the second round, unless it was recorded before a change."""
        return self.is_second and invocation not in self._again
