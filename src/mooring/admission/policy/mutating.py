"""Apply MutatingAdmissionPolicies to an object, one after the other.

A mutation is an expression that returns an `Object{…}`, which is merged like server-side apply, or a list of
`JSONPatch{…}`. `JsonOperations` merges, patches and decodes trees. A failure of a policy rejects the request with
Kubernetes' message, unless its failure policy is `Ignore`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from mooring.admission.policy import bound, evaluation
from mooring.admission.policy.attributes import Attributes, GroupVersionKind, Tree
from mooring.admission.policy.compiling import CompiledExpression
from mooring.api import admissionregistration_v1 as v1
from mooring.api import errors
from mooring.api.meta_v1 import Resource, StatusCause
from mooring.api.quoting import go_quote
from mooring.cel.values import Duration, Struct, Timestamp
from mooring.constraints.celenv.admission import BUDGET

_OBJECT, _PATCHES = "Object", "list(JSONPatch)"


class MutationError(Exception):
    """Raised if a mutation fails to evaluate or to apply; the message is Kubernetes'."""


class JsonOperations(Protocol):
    """Interface of the JSON operations that mutating policies need. They raise MutationError if they fail."""

    def merge(self, tree: Tree, config: Tree, kind: GroupVersionKind) -> Tree:
        """Return a JSON object with an apply configuration merged into it, as by server-side apply."""
        ...

    def patch(self, tree: Tree, operations: Sequence[Tree]) -> Tree | None:
        """Return a patched JSON object; None if a `test` operation fails. Raise MutationError if another one fails."""
        ...

    def decode(self, tree: Tree, kind: GroupVersionKind) -> Resource:
        """Decode a JSON object of this kind into a struct of the newest version, with defaults. Raise StatusError."""
        ...


class _CompiledMutation(NamedTuple):
    is_apply: bool
    program: CompiledExpression


class _PolicyInvocation(NamedTuple):
    policy: "MutatingPolicy"
    invocation: bound.Invocation[v1.MutatingAdmissionPolicyBinding]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the names of policy, binding and parameter object, which identify the invocation in `Reinvocation`."""
        metadata = (self.invocation.params or {}).get("metadata", {})
        param = (metadata.get("namespace", ""), metadata.get("name", ""))
        return (self.policy.name, self.invocation.binding.metadata.name, *param)


class MutatingPolicy(bound.PolicyWithBindings[v1.MutatingAdmissionPolicy, v1.MutatingAdmissionPolicyBinding]):
    """A MutatingAdmissionPolicy with its bindings; compiles its CEL expressions on first use."""

    @cached_property
    def program(self) -> tuple[evaluation.MatchConditions, list[_CompiledMutation], Mapping[str, CompiledExpression]]:
        spec = self.policy.spec
        compiler = bound.Compiler(params=spec.param_kind is not None, variables=spec.variables)
        conditions = evaluation.MatchConditions(
            spec.match_conditions, spec.failure_policy, compiler.environment(), compiler.variables
        )
        mutations = []
        for each in spec.mutations:
            is_apply = each.patch_type == v1.APPLY_CONFIGURATION
            patch = each.apply_configuration if is_apply else each.json_patch
            text = patch.expression if patch is not None else ""
            result = _OBJECT if is_apply else _PATCHES
            mutations.append(_CompiledMutation(is_apply, compiler.compile(text, (result,), patches=True)))
        return conditions, mutations, compiler.variables

    def mutate(
        self,
        policy_invocation: _PolicyInvocation,
        attributes: Attributes,
        cluster: bound.PolicyLookups,
        patching: JsonOperations,
        reinvocation: evaluation.Reinvocation,
        *,
        checks: list[bound.EvaluationRecord],
    ) -> Iterator[str]:
        """Apply a policy's mutations to the request's object, for one binding and parameter; yield failure messages."""
        conditions, mutations, variables = self.program
        invocation = policy_invocation.invocation
        try:
            if not conditions.are_met(bound.get_invocation_variables(invocation, attributes, cluster)):
                return
        except evaluation.ConditionError as error:
            yield str(error)
            return
        if reinvocation.should_skip(policy_invocation.key):
            return
        kind, changed = invocation.match.kind, False
        for mutation in mutations:
            tree = attributes.object_tree(kind)
            if tree is None:
                continue
            activation = evaluation.Activation(
                bound.get_invocation_variables(invocation, attributes, cluster), variables
            )
            began, problem, made = perf_counter(), "", None
            try:
                made = _apply_mutation(mutation, activation, tree, kind, patching)
            except (MutationError, evaluation.OutOfBudgetError) as error:
                problem = str(error)
            seconds = perf_counter() - began
            checks.append(bound.EvaluationRecord(self.name, invocation.binding.metadata.name, "", problem, seconds))
            if problem:
                yield problem
                continue
            if made is not None and made != tree:
                attributes.replace_object(patching.decode(made, kind))
                changed = True
        if changed:
            reinvocation.record_change()
        if self.policy.spec.reinvocation_policy == v1.IF_NEEDED:
            reinvocation.record_invocation(policy_invocation.key)


def _apply_mutation(
    mutation: _CompiledMutation,
    activation: evaluation.Activation,
    tree: Tree,
    kind: GroupVersionKind,
    patching: JsonOperations,
) -> Tree | None:
    if mutation.program.error:
        raise MutationError(mutation.program.error)
    outcome = evaluation.CostBudget(BUDGET).evaluate(mutation.program, activation)
    if outcome.error:
        raise MutationError(outcome.error)
    value = outcome.value
    if mutation.is_apply:
        _require_type_names(value, _OBJECT)
        config = {**to_json(value), "apiVersion": kind.api_version, "kind": kind.kind}
        return patching.merge(tree, config, kind)
    operations = []
    for each in value:
        if isinstance(each.get("value"), Struct):
            _require_type_names(each["value"], each["value"].cel_type.name)
        operations.append({key: part if key != "value" else to_json(part) for key, part in each.items()})
    return patching.patch(tree, operations)


def _require_type_names(value: Any, path: str) -> None:
    wrong = [*_find_wrong_type_names(value, path)]
    if wrong:
        raise MutationError("type mismatch: " + "\n".join(wrong))


def _find_wrong_type_names(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Struct):
        name = value.cel_type.name
        if name != path:
            where = "which matches field name path from root Object type"
            yield f"unexpected type name {go_quote(name)}, expected {go_quote(path)}, {where}"
        for key, each in value.items():
            yield from _find_wrong_type_names(each, f"{path}.{key}")
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _find_wrong_type_names(each, path)
    elif isinstance(value, list):
        for each in value:
            yield from _find_wrong_type_names(each, path)


def to_json(value: Any) -> Any:
    """Convert a CEL value to JSON. Raise MutationError for a type that JSON does not have."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise MutationError(f"map key {go_quote(str(key))} is of type {type(key).__name__}, not string")
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [to_json(each) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str | float):
        return value
    if isinstance(value, Timestamp | Duration):
        return str(value)
    raise MutationError("the expression evaluated to a type that could not marshal to JSON")


class MutatingPolicies(
    bound.PoliciesWithBindings[v1.MutatingAdmissionPolicy, v1.MutatingAdmissionPolicyBinding, MutatingPolicy]
):
    """The MutatingAdmissionPolicies of a cluster that have bindings."""

    policy_class = MutatingPolicy

    def mutate(
        self,
        attributes: Attributes,
        cluster: bound.PolicyLookups,
        patching: JsonOperations,
        reinvocation: evaluation.Reinvocation | None = None,
        asked: list[tuple[str, str]] | None = None,
        *,
        checks: list[bound.EvaluationRecord] | None = None,
    ) -> None:
        """Apply all matching policies to the object. Raise a `StatusError` if one fails whose failure policy is Fail.
        Append the matching policies and bindings to `asked`, and records for metrics to `checks`.
        """
        reinvocation = reinvocation or evaluation.Reinvocation()
        checks = [] if checks is None else checks
        problems: list[tuple[MutatingPolicy, bound.ConfigurationProblem]] = []
        policy_invocations: list[_PolicyInvocation] = []
        for policy, match in self._index.find_candidates_with_views(attributes):
            own: list[bound.ConfigurationProblem] = []
            policy_invocations += [
                _PolicyInvocation(policy, each) for each in policy.invocations(attributes, cluster, own, match)
            ]
            problems += [(policy, each) for each in own]
        failed: list[tuple[str, str]] = [
            (_format_problem(each), "") for policy, each in problems if not policy.ignores_errors
        ]
        for policy_invocation in policy_invocations:
            policy, binding = policy_invocation.policy, policy_invocation.invocation.binding.metadata.name
            if asked is not None:
                asked.append((policy.name, binding))
            messages = [*policy.mutate(policy_invocation, attributes, cluster, patching, reinvocation, checks=checks)]
            if not policy.ignores_errors:
                failed += [
                    (_format_problem(bound.ConfigurationProblem(policy.name, binding, each)), "Invalid")
                    for each in messages
                ]
        if failed:
            raise _build_rejection(attributes, failed)


def _format_problem(problem: bound.ConfigurationProblem) -> str:
    if problem.binding:
        return f"policy '{problem.policy}' with binding '{problem.binding}' denied request: {problem.message}"
    return f"policy {go_quote(problem.policy)} denied request: {problem.message}"


def _build_rejection(attributes: Attributes, failed: Sequence[tuple[str, str]]) -> errors.StatusError:
    where = attributes.resource
    refused = errors.forbidden(where.resource, attributes.name, "", group=where.group)
    status = refused.status
    status.message, reason = failed[0]
    status.reason = reason or status.reason
    if status.details is not None:
        status.details.causes = [StatusCause(message=message) for message, _ in failed]
    return refused
