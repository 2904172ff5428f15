"""Evaluate ValidatingAdmissionPolicies on a request.

`ValidatingPolicies.validate` evaluates every matching policy for every binding and set of parameters, and returns a
`PolicyResult`: denials, warnings and audit annotations. `build_rejection` builds the error of the first denial, with
Kubernetes' message. Evaluation is pure; ``apiserver/extension/policies.py`` and the advisor act on the result.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from mooring.admission.policy import bound, evaluation
from mooring.admission.policy.attributes import Attributes, MatchKey, Tree
from mooring.admission.policy.compiling import CompiledExpression
from mooring.admission.policy.matching import MAX_CACHED_KEYS, RequestView
from mooring.api import admissionregistration_v1 as v1
from mooring.api import errors
from mooring.api.meta_v1 import StatusCause
from mooring.cel.errors import CelError
from mooring.constraints.celenv.admission import BUDGET, PER_CALL

FAILURES = "validation.policy.admission.k8s.io/validation_failure"
_MAX_FAILURES = 50
_MAX_MESSAGE = 5 * 1024
_MAX_ANNOTATION = 10 * 1024
_INVALID = "Invalid"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, _INVALID: 422}
_STRING_OR_NULL = ("string", "null")


class PolicyDecision(NamedTuple):
    """A denial or warning by a policy: its name and its binding's, the message and the status reason."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        where = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{where} denied request: {self.message}"


class PolicyResult(msgspec.Struct):
    """The outcome of all validating policies for one request: denials, warnings and audit annotations."""

    denials: list[PolicyDecision] = []
    warnings: list[PolicyDecision] = []
    failures: list[Tree] = []
    """Failures that are only recorded in the audit log."""
    annotations: dict[str, list[str]] = {}
    """Audit annotations by policy and key."""
    asked: list[tuple[str, str]] = []
    """The matching policies and bindings."""
    checks: list[bound.EvaluationRecord] = []
    """The evaluated expressions, for metrics."""

    @property
    def is_quiet(self) -> bool:
        """Return whether the result has no denials, warnings, audit annotations or records for metrics."""
        return not (self.denials or self.warnings or self.failures or self.annotations or self.checks)

    @property
    def warning_texts(self) -> list[str]:
        return [
            f"Validation failed for ValidatingAdmissionPolicy '{each.policy}' with binding '{each.binding}':"
            f" {each.message}"
            for each in self.warnings
        ]

    @property
    def audit_annotations(self) -> dict[str, str]:
        texts = {key: ", ".join(values) for key, values in self.annotations.items()}
        if self.failures:
            texts[FAILURES] = json.dumps(self.failures[:_MAX_FAILURES], separators=(",", ":"), ensure_ascii=False)
        return texts


def build_rejection(result: PolicyResult, attributes: Attributes) -> errors.StatusError | None:
    """Return the API error for the first denial in a result; None if no policy denies the request."""
    if not result.denials:
        return None
    first = result.denials[0]
    refused = errors.forbidden(
        attributes.resource.resource, attributes.name, first.text, group=attributes.resource.group
    )
    status = refused.status
    status.reason = first.reason or _INVALID
    status.code = _CODES.get(status.reason, 422)
    if status.details is not None:
        status.details.causes = [*status.details.causes, StatusCause(message=first.text)]
    return refused


class _CompiledValidation(msgspec.Struct, frozen=True):
    """An item of a policy's `validations` with its compiled expression and message expression."""

    validation: v1.Validation
    program: CompiledExpression
    message: CompiledExpression | None


class ValidatingPolicy(bound.PolicyWithBindings[v1.ValidatingAdmissionPolicy, v1.ValidatingAdmissionPolicyBinding]):
    """A ValidatingAdmissionPolicy with its bindings; compiles its CEL expressions on first use."""

    def __init__(
        self, policy: v1.ValidatingAdmissionPolicy, bindings: Iterable[v1.ValidatingAdmissionPolicyBinding]
    ) -> None:
        super().__init__(policy, bindings)
        spec = policy.spec
        self.matches_by_rules_only = self.matches_by_rules_only and not (
            spec.match_conditions or spec.audit_annotations or spec.variables
        )
        """Whether the policy has only match rules and validations, so that all of its bindings give the same result."""
        self.asked = [(self.name, each.binding.metadata.name) for each in self.bindings]

    @cached_property
    def program(self) -> "_CompiledPolicy":
        return _CompiledPolicy(self.policy)

    def evaluate(
        self,
        attributes: Attributes,
        cluster: bound.PolicyLookups,
        seen: evaluation.VariableReads,
        result: PolicyResult,
        by_rules: RequestView | None = None,
    ) -> None:
        problems: list[bound.ConfigurationProblem] = []
        for invocation in self.invocations(attributes, cluster, problems, by_rules):
            result.asked.append((self.name, invocation.binding.metadata.name))
            values = bound.get_invocation_variables(invocation, attributes, cluster, seen)
            self.program.run(invocation.binding, values, result)
        if not self.ignores_errors:
            result.denials += [PolicyDecision(each.policy, each.binding, each.message) for each in problems]


class _CompiledPolicy:
    def __init__(self, policy: v1.ValidatingAdmissionPolicy) -> None:
        spec = policy.spec
        compiler = bound.Compiler(params=spec.param_kind is not None, variables=spec.variables)
        self._name = policy.metadata.name
        self._ignores = spec.failure_policy == v1.IGNORE
        self._variables = compiler.variables
        self._conditions = evaluation.MatchConditions(
            spec.match_conditions, spec.failure_policy, compiler.environment(), compiler.variables
        )
        self._rules = [
            _CompiledValidation(
                each,
                compiler.compile(each.expression, ("bool",)),
                compiler.compile(each.message_expression, ("string",), authorizer=False)
                if each.message_expression
                else None,
            )
            for each in spec.validations
        ]
        self._evaluators = (
            None if any(rule.program.error for rule in self._rules) else [*map(_choose_evaluator, self._rules)]
        )
        self._annotations = [
            (each.key, compiler.compile(each.value_expression, _STRING_OR_NULL)) for each in spec.audit_annotations
        ]

    @property
    def expressions(self) -> Iterator[CompiledExpression]:
        yield from self._variables.values()
        yield from self._conditions.compiled
        yield from (each for rule in self._rules for each in (rule.program, rule.message) if each is not None)
        yield from (each for _, each in self._annotations)

    def run(self, binding: v1.ValidatingAdmissionPolicyBinding, values: Tree, result: PolicyResult) -> None:
        """Evaluate a policy for one binding and parameter object; add denials, warnings and annotations to `result`."""
        recorder = _ActionRecorder(self._name, binding, result)
        budget = evaluation.CostBudget(BUDGET)
        activation = evaluation.Activation(values, self._variables)
        try:
            if not self._conditions.are_met(values):
                return
            decided = [self._evaluate_timed(rule, activation, budget) for rule in self._rules]
            annotations = [self._evaluate_annotation(key, each, values) for key, each in self._annotations]
        except (evaluation.ConditionError, evaluation.OutOfBudgetError) as error:
            recorder.record_failure(0, _FailedValidation(str(error), is_ignored=self._ignores), 0)
            return
        for index, (finding, seconds) in enumerate(decided):
            if finding is not None:
                recorder.record_failure(index, finding, seconds)
        for key, value, problem in annotations:
            if problem:
                recorder.deny_for_annotation(problem)
            elif value:
                result.annotations.setdefault(f"{self._name}/{key}", [])
                if value not in result.annotations[f"{self._name}/{key}"]:
                    result.annotations[f"{self._name}/{key}"].append(value)

    def passes_all_validations(self, values: Tree) -> bool:
        """Return whether all validations pass within the budget: a fast check. If not, `run` finds the failures."""
        if self._evaluators is None:
            return False
        left = BUDGET
        try:
            for evaluate, counted in self._evaluators:
                met, cost = evaluate(values, PER_CALL) if counted is None else (evaluate(values), counted)
                left -= cost
                if met is not True:
                    return False
        except CelError:
            return False
        return left >= 0

    def _evaluate_timed(
        self, rule: _CompiledValidation, activation: evaluation.Activation, budget: evaluation.CostBudget
    ) -> tuple["_FailedValidation | None", float]:
        began = perf_counter()
        finding = self._evaluate_validation(rule, activation, budget)
        return finding, perf_counter() - began

    def _evaluate_validation(
        self, rule: _CompiledValidation, activation: evaluation.Activation, budget: evaluation.CostBudget
    ) -> "_FailedValidation | None":
        outcome = budget.evaluate(rule.program, activation)
        if outcome.error:
            return _FailedValidation(outcome.error, is_ignored=self._ignores)
        if outcome.value is True:
            return None
        return _FailedValidation(
            self._build_failure_message(rule, activation, budget), rule.validation.reason or _INVALID
        )

    def _build_failure_message(
        self, rule: _CompiledValidation, activation: evaluation.Activation, budget: evaluation.CostBudget
    ) -> str:
        said = ""
        if rule.message is not None:
            outcome = budget.evaluate(rule.message, activation)
            if not outcome.error and isinstance(outcome.value, str):
                said = outcome.value.strip()
            if "\n" in said or len(said.encode(errors="surrogatepass")) > _MAX_MESSAGE:
                said = ""
        said = said or rule.validation.message.strip()
        return said or f"failed expression: {rule.validation.expression.strip()}"

    def _evaluate_annotation(self, key: str, each: CompiledExpression, values: Tree) -> tuple[str, str, str]:
        outcome = evaluation.CostBudget(BUDGET).evaluate(each, evaluation.Activation(values, self._variables))
        if outcome.error:
            return key, "", "" if self._ignores else outcome.error
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        return key, text.encode(errors="surrogatepass")[:_MAX_ANNOTATION].decode(errors="ignore"), ""


def _choose_evaluator(rule: _CompiledValidation) -> tuple[Callable[..., Any], int | None]:
    """Return a function that evaluates a validation, and its maximum cost; if that exceeds the limit of one call, a
    function that also counts the cost, and None.
    """
    program = rule.program.program
    # The estimate ignores reads of dynamic fields: at most as many for each step as the expression has characters.
    most = (program.max_cost + 1) * (len(program.expression) + 1)
    return (program.evaluate, most) if most <= PER_CALL else (program.counted, None)


class _FailedValidation(NamedTuple):
    """A validation that failed or could not be evaluated: its message and status reason."""

    message: str
    reason: str = ""
    is_ignored: bool = False
    """Whether evaluation failed and the failure policy is Ignore."""


class _ActionRecorder:
    """Adds failed validations to a result as denials, warnings, audit records (`validationActions`), and metrics."""

    def __init__(self, policy: str, binding: v1.ValidatingAdmissionPolicyBinding, result: PolicyResult) -> None:
        self._policy = policy
        self._binding = binding
        self._result = result

    def record_failure(self, index: int, finding: _FailedValidation, seconds: float) -> None:
        message = finding.message
        if finding.is_ignored:
            self._record_metric("allow", message, seconds)
            return
        name, actions = self._binding.metadata.name, self._binding.spec.validation_actions
        decision = PolicyDecision(self._policy, name, message, finding.reason)
        for action in actions:
            self._record_metric(action.lower(), message, seconds)
            if action == v1.DENY:
                self._result.denials.append(decision)
            elif action == v1.WARN:
                self._result.warnings.append(decision)
            elif action == v1.AUDIT:
                self._result.failures.append(
                    {
                        "message": message,
                        "policy": self._policy,
                        "binding": name,
                        "expressionIndex": index,
                        "validationActions": actions,
                    }
                )

    def deny_for_annotation(self, problem: str) -> None:
        """Add a denial because an audit annotation failed to evaluate, whatever the `validationActions` are."""
        self._result.denials.append(PolicyDecision(self._policy, self._binding.metadata.name, problem))
        self._record_metric("deny", problem, 0)

    def _record_metric(self, action: str, message: str, seconds: float) -> None:
        check = bound.EvaluationRecord(self._policy, self._binding.metadata.name, action, message, seconds)
        self._result.checks.append(check)


class ValidatingPolicies(
    bound.PoliciesWithBindings[v1.ValidatingAdmissionPolicy, v1.ValidatingAdmissionPolicyBinding, ValidatingPolicy]
):
    """The ValidatingAdmissionPolicies of a cluster that have bindings."""

    policy_class = ValidatingPolicy

    def __init__(
        self,
        policies: Iterable[v1.ValidatingAdmissionPolicy] = (),
        bindings: Iterable[v1.ValidatingAdmissionPolicyBinding] = (),
        before: "ValidatingPolicies | None" = None,
    ) -> None:
        super().__init__(policies, bindings, before)
        self._candidates: dict[MatchKey, _CandidatePolicies] = {}

    def validate(self, attributes: Attributes, cluster: bound.PolicyLookups) -> PolicyResult:
        """Evaluate all policies that match a request, for each binding and parameter; return what they decide."""
        asked = self._candidates.get(attributes.match_key) or self._find_candidates(attributes)
        result = PolicyResult()
        seen = asked.seen
        last: RequestView | None = None
        values: Tree = {}
        for policy, match in asked.policies:
            if match is not None and policy.matches_by_rules_only:  # the common case
                if match is not last:
                    last, values = match, bound.get_cel_variables(match, attributes, cluster, seen)
                if policy.program.passes_all_validations(values):
                    result.asked += policy.asked
                    continue
            policy.evaluate(attributes, cluster, seen, result, match)
        return result

    def _find_candidates(self, attributes: Attributes) -> "_CandidatePolicies":
        if len(self._candidates) >= MAX_CACHED_KEYS:
            self._candidates.clear()
        policies = self._index.find_candidates_with_views(attributes)
        seen = evaluation.find_reads(each for policy, _ in policies for each in policy.program.expressions)
        asked = self._candidates[attributes.match_key] = _CandidatePolicies(policies, seen)
        return asked


class _CandidatePolicies(NamedTuple):
    """The policies whose rules match requests with one `MatchKey`, and what their expressions read together."""

    policies: Sequence[tuple[ValidatingPolicy, RequestView | None]]
    seen: evaluation.VariableReads
