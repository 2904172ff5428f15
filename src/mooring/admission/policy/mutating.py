"""MutatingAdmissionPolicies: how they change an object, one after the other.

A mutation is an expression that makes an `Object{…}`, which is merged as server-side apply merges, or a list of
`JSONPatch{…}`. How trees are merged, patched and decoded is handed in as `Patching`. A mistake of a policy refuses the
request, in Kubernetes' words, unless its failure policy is `Ignore`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, Tree
from mooring.admission.policy.bound import Bound, Check, Compiler, Invocation, Problem, bound, kept_or_made, values_of
from mooring.admission.policy.compiling import Compiled
from mooring.admission.policy.conditions import ConditionError, Conditions
from mooring.admission.policy.evaluation import Activation, Budget, OutOfBudgetError
from mooring.admission.policy.matching import Index
from mooring.admission.policy.params import Cluster
from mooring.admission.policy.reinvocation import Reinvocation
from mooring.api import errors
from mooring.api.admissionregistration_v1 import (
    APPLY_CONFIGURATION,
    IF_NEEDED,
    IGNORE,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from mooring.api.meta_v1 import Resource, StatusCause
from mooring.api.quoting import quoted
from mooring.cel.values import Duration, Struct, Timestamp
from mooring.constraints.celenv.admission import BUDGET

_OBJECT, _PATCHES = "Object", "list(JSONPatch)"


class MutationError(Exception):
    """A mutation cannot be made; the message is Kubernetes'."""


class Patching(Protocol):
    """What is done to trees outside of this layer. All of it raises MutationError."""

    def merge(self, tree: Tree, config: Tree, kind: GroupVersionKind) -> Tree:
        """A tree with a configuration applied."""
        ...

    def patch(self, tree: Tree, operations: Sequence[Tree]) -> Tree | None:
        """A tree after JSON patch operations; None where one of its tests fails."""
        ...

    def decode(self, tree: Tree, kind: GroupVersionKind) -> Resource:
        """The object that a tree says, in the newest version and with defaults; raises StatusError."""
        ...


class _Mutation(NamedTuple):
    is_apply: bool
    program: Compiled


class _Question(NamedTuple):
    policy: "MutatingPolicy"
    invocation: Invocation[MutatingAdmissionPolicyBinding]

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other questions of the same request."""
        metadata = (self.invocation.params or {}).get("metadata", {})
        param = (metadata.get("namespace", ""), metadata.get("name", ""))
        return (self.policy.name, self.invocation.binding.metadata.name, *param)


class MutatingPolicy(Bound[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding]):
    """A policy with its bindings; expressions are compiled when the first request comes that it concerns."""

    @property
    def ignores_errors(self) -> bool:
        return self.policy.spec.failure_policy == IGNORE

    @cached_property
    def program(self) -> tuple[Conditions, list[_Mutation], Mapping[str, Compiled]]:
        """Compiled, which takes a while the first time."""
        spec = self.policy.spec
        compiler = Compiler(params=spec.param_kind is not None, variables=spec.variables)
        conditions = Conditions(spec.match_conditions, spec.failure_policy, compiler.environment(), compiler.variables)
        mutations = []
        for each in spec.mutations:
            is_apply = each.patch_type == APPLY_CONFIGURATION
            patch = each.apply_configuration if is_apply else each.json_patch
            text = patch.expression if patch is not None else ""
            result = _OBJECT if is_apply else _PATCHES
            mutations.append(_Mutation(is_apply, compiler.compile(text, (result,), patches=True)))
        return conditions, mutations, compiler.variables

    def mutate(
        self,
        question: _Question,
        attributes: Attributes,
        cluster: Cluster,
        patching: Patching,
        reinvocation: Reinvocation,
        *,
        checks: list[Check],
    ) -> Iterator[str]:
        """Change the object as one binding wants it; yields what goes wrong."""
        conditions, mutations, variables = self.program
        invocation = question.invocation
        try:
            if not conditions.hold(values_of(invocation, attributes, cluster)):
                return
        except ConditionError as error:
            yield str(error)
            return
        if reinvocation.skips(question.key):
            return
        kind, changed = invocation.match.kind, False
        for mutation in mutations:
            tree = attributes.object_tree(kind)
            if tree is None:
                continue
            activation = Activation(values_of(invocation, attributes, cluster), variables)
            began, problem, made = perf_counter(), "", None
            try:
                made = _mutated(mutation, activation, tree, kind, patching)
            except (MutationError, OutOfBudgetError) as error:
                problem = str(error)
            seconds = perf_counter() - began
            checks.append(Check(self.name, invocation.binding.metadata.name, "", problem, seconds))
            if problem:
                yield problem
                continue
            if made is not None and made != tree:
                attributes.replace_object(patching.decode(made, kind))
                changed = True
        if changed:
            reinvocation.changed()
        if self.policy.spec.reinvocation_policy == IF_NEEDED:
            reinvocation.invoked(question.key)


def _mutated(
    mutation: _Mutation, activation: Activation, tree: Tree, kind: GroupVersionKind, patching: Patching
) -> Tree | None:
    if mutation.program.error:
        raise MutationError(mutation.program.error)
    outcome = Budget(BUDGET).evaluate(mutation.program, activation)
    if outcome.error:
        raise MutationError(outcome.error)
    value = outcome.value
    if mutation.is_apply:
        _check_names(value, _OBJECT)
        config = {**plain(value), "apiVersion": kind.api_version, "kind": kind.kind}
        return patching.merge(tree, config, kind)
    operations = []
    for each in value:
        if isinstance(each.get("value"), Struct):
            _check_names(each["value"], each["value"].cel_type.name)
        operations.append({key: part if key != "value" else plain(part) for key, part in each.items()})
    return patching.patch(tree, operations)


def _check_names(value: Any, path: str) -> None:
    """`Object.spec{…}` may only stand in the field `spec`, and so on."""
    wrong = [*_wrong_names(value, path)]
    if wrong:
        raise MutationError("type mismatch: " + "\n".join(wrong))


def _wrong_names(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Struct):
        name = value.cel_type.name
        if name != path:
            where = "which matches field name path from root Object type"
            yield f"unexpected type name {quoted(name)}, expected {quoted(path)}, {where}"
        for key, each in value.items():
            yield from _wrong_names(each, f"{path}.{key}")
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _wrong_names(each, path)
    elif isinstance(value, list):
        for each in value:
            yield from _wrong_names(each, path)


def plain(value: Any) -> Any:
    """A CEL value as JSON."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise MutationError(f"map key {quoted(str(key))} is of type {type(key).__name__}, not string")
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str | float):
        return value
    if isinstance(value, Timestamp | Duration):
        return str(value)
    raise MutationError("the expression evaluated to a type that could not marshal to JSON")


class MutatingPolicies:
    """All policies that are bound."""

    def __init__(
        self,
        policies: Iterable[MutatingAdmissionPolicy] = (),
        bindings: Iterable[MutatingAdmissionPolicyBinding] = (),
        before: "MutatingPolicies | None" = None,
    ) -> None:
        """Those of `before` that are still the same objects are taken over."""
        known = before.policies if before is not None else ()
        self.policies: Sequence[MutatingPolicy] = kept_or_made(known, bound(policies, bindings), MutatingPolicy)
        self._index = Index(self.policies)
        self.spares = self._index.spares

    def __bool__(self) -> bool:
        return bool(self.policies)

    def compile(self, attributes: Attributes) -> Iterator[None]:
        """Compile those that concern a request, step by step."""
        for policy in self._index.concerned(attributes):
            _ = policy.program
            yield

    def mutate(
        self,
        attributes: Attributes,
        cluster: Cluster,
        patching: Patching,
        reinvocation: Reinvocation | None = None,
        asked: list[tuple[str, str]] | None = None,
        *,
        checks: list[Check] | None = None,
    ) -> None:
        """Let all policies that concern a request change its object; raises a `StatusError` for their mistakes.

        `asked` gets the policies and bindings that concerned it, `checks` what metrics count.
        """
        reinvocation = reinvocation or Reinvocation()
        checks = [] if checks is None else checks
        problems: list[tuple[MutatingPolicy, Problem]] = []
        questions: list[_Question] = []
        for policy, match in self._index.matching(attributes):
            own: list[Problem] = []
            questions += [_Question(policy, each) for each in policy.invocations(attributes, cluster, own, match)]
            problems += [(policy, each) for each in own]
        failed: list[tuple[str, str]] = [(_denied(each), "") for policy, each in problems if not policy.ignores_errors]
        for question in questions:
            policy, binding = question.policy, question.invocation.binding.metadata.name
            if asked is not None:
                asked.append((policy.name, binding))
            messages = [*policy.mutate(question, attributes, cluster, patching, reinvocation, checks=checks)]
            if not policy.ignores_errors:
                failed += [(_denied(Problem(policy.name, binding, each)), "Invalid") for each in messages]
        if failed:
            raise _refused(attributes, failed)


def _denied(problem: Problem) -> str:
    if problem.binding:
        return f"policy '{problem.policy}' with binding '{problem.binding}' denied request: {problem.message}"
    return f"policy {quoted(problem.policy)} denied request: {problem.message}"


def _refused(attributes: Attributes, failed: Sequence[tuple[str, str]]) -> errors.StatusError:
    where = attributes.resource
    refused = errors.forbidden(where.resource, attributes.name, "", group=where.group)
    status = refused.status
    status.message, reason = failed[0]
    status.reason = reason or status.reason
    if status.details is not None:
        status.details.causes = [StatusCause(message=message) for message, _ in failed]
    return refused
