"""A policy with its bindings, as both sorts of policies have them: whom it concerns, where, and with which parameters.

`Bound.invocations` goes through the bindings that concern a request, and through the parameters of each. What is wrong
with a policy or binding itself becomes a `Problem`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from mooring.admission.options import stored_policies
from mooring.admission.policy.attributes import Attributes, Tree
from mooring.admission.policy.compiling import Compiled, compiled
from mooring.admission.policy.evaluation import EVERYTHING, OUT_OF_BUDGET, Seen, values_for
from mooring.admission.policy.matching import Match, Matcher
from mooring.admission.policy.params import Cluster, ConfigurationError, check_kind, params_for
from mooring.admission.policy.strategy import declared_type
from mooring.api.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Variable,
)
from mooring.api.errors import StatusError
from mooring.cel.environment import Environment
from mooring.cel.types import DYN, Type
from mooring.constraints.celenv.admission import with_variables

Policy = ValidatingAdmissionPolicy | MutatingAdmissionPolicy
Binding = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding
P = TypeVar("P", bound=Policy)
B = TypeVar("B", bound=Binding)


class BoundBinding(msgspec.Struct, Generic[B], frozen=True):
    """A binding, and whom it concerns beside its policy."""

    binding: B
    matcher: Matcher | None

    @classmethod
    def of(cls, binding: B) -> "BoundBinding[B]":
        resources = binding.spec.match_resources
        return cls(binding, None if resources is None else Matcher.of(resources))


class Problem(NamedTuple):
    """Something is wrong with a policy, or with one of its bindings."""

    policy: str
    binding: str
    """Empty where the policy itself is meant."""
    message: str


class Check(NamedTuple):
    """An expression that was judged, as metrics count it; those that hold are not counted one by one."""

    policy: str
    binding: str
    action: str
    """What came of it: `allow`, `deny`, `warn` or `audit`; empty for mutations."""
    message: str
    """Why it is not met; empty where nothing is wrong."""
    seconds: float

    @property
    def error_type(self) -> str:
        """In Kubernetes' words. One that is plainly not met is an `invalid_error` there."""
        if not self.message:
            return "no_error"
        if self.message.startswith("compilation"):
            return "compile_error"
        return "out_of_budget" if self.message.startswith(OUT_OF_BUDGET) else "invalid_error"


class Invocation(NamedTuple, Generic[B]):
    """A question for a policy: as what it sees the request, for which binding, with which parameters."""

    match: Match
    binding: B
    params: Tree | None


class Bound(Generic[P, B]):
    """A policy and its bindings."""

    def __init__(self, policy: P, bindings: Iterable[B]) -> None:
        self.policy = policy
        self.bindings = [BoundBinding.of(each) for each in bindings]
        constraints = policy.spec.match_constraints
        self.matcher = Matcher.of(constraints) if constraints is not None else Matcher()

        self.name = policy.metadata.name
        self.is_plain = (
            policy.spec.param_kind is None
            and self.matcher.selects_all
            and all(each.matcher is None for each in self.bindings)
        )
        """Whether its rules alone decide about whom it concerns."""

    def is_of(self, policy: Policy, bindings: Sequence[Binding]) -> bool:
        """Whether it was made of these very objects."""
        if self.policy is not policy or len(self.bindings) != len(bindings):
            return False
        return all(mine.binding is other for mine, other in zip(self.bindings, bindings, strict=True))

    def invocations(
        self, attributes: Attributes, cluster: Cluster, problems: list[Problem], by_rules: Match | None = None
    ) -> Iterator[Invocation[B]]:
        """All questions that a request makes for the policy; what is wrong goes to `problems`."""

        def labels(namespace: str) -> Mapping[str, str]:
            found: Mapping[str, str] = cluster.namespace(namespace)["metadata"].get("labels") or {}
            return found

        try:
            match = self.matcher.match(attributes, labels, by_rules)
            if match is None:
                return
            if self.policy.spec.param_kind is not None:
                check_kind(self.policy.spec.param_kind, cluster)
        except (ConfigurationError, StatusError) as error:
            problems.append(Problem(self.name, "", f"failed to configure policy: {error}"))
            return
        for each in self.bindings:
            try:
                if each.matcher is not None and each.matcher.match(attributes, labels) is None:
                    continue
                found = self._params(each.binding, attributes, cluster)
            except (ConfigurationError, StatusError) as error:
                name = each.binding.metadata.name
                problems.append(Problem(self.name, name, f"failed to configure binding: {error}"))
                continue
            for params in found:
                yield Invocation(match, each.binding, params)

    def _params(self, binding: B, attributes: Attributes, cluster: Cluster) -> Sequence[Tree | None]:
        return params_for(self.policy.spec.param_kind, binding.spec.param_ref, attributes.namespace, cluster)


K = TypeVar("K", bound=Bound[Any, Any])


def bound(policies: Iterable[P], bindings: Iterable[B]) -> Iterator[tuple[P, list[B]]]:
    """The policies that have bindings, by name, each with its own."""
    by_policy: dict[str, list[B]] = {}
    for binding in sorted(bindings, key=lambda each: each.metadata.name):
        by_policy.setdefault(binding.spec.policy_name, []).append(binding)
    for policy in sorted(policies, key=lambda each: each.metadata.name):
        own = by_policy.get(policy.metadata.name)
        if own:
            yield policy, own


def kept_or_made(before: Iterable[K], pairs: Iterable[tuple[P, list[B]]], make: Callable[[P, list[B]], K]) -> list[K]:
    """Policies with their bindings; those that are as they were keep what they have compiled."""
    known = {each.name: each for each in before}
    made = []
    for policy, bindings in pairs:
        old = known.get(policy.metadata.name)
        made.append(old if old is not None and old.is_of(policy, bindings) else make(policy, bindings))
    return made


class Compiler:
    """Compiles the expressions of one stored policy, its variables first."""

    def __init__(self, *, params: bool, variables: Iterable[Variable]) -> None:
        self._params = params
        self._types: dict[str, Type] = {}
        self.variables: dict[str, Compiled] = {}
        for each in variables:
            found = compiled(self.environment(each.expression), each.expression)
            self.variables[each.name] = found
            self._types[each.name] = DYN if found.error else declared_type(found.program.output_type)
        self._environment = self.environment()

    def environment(self, text: str | None = None, *, authorizer: bool = True, patches: bool = False) -> Environment:
        """For one expression, or for all."""
        made = stored_policies(params=self._params, authorizer=authorizer, patches=patches)
        return with_variables(made, self._types, text)

    def compile(self, expression: str, results: Sequence[str], **environment: Any) -> Compiled:
        made = self.environment(**environment) if environment else self._environment
        return compiled(made, expression, results)


def values_of(
    invocation: Invocation[B], attributes: Attributes, cluster: Cluster, seen: Seen = EVERYTHING
) -> dict[str, Any]:
    """The variables of an invocation."""
    kept = variables_of(invocation.match, attributes, cluster, seen)
    return kept if invocation.params is None else {**kept, "params": invocation.params}


def variables_of(match: Match, attributes: Attributes, cluster: Cluster, seen: Seen) -> dict[str, Any]:
    """The variables that are the same for all policies that see a request alike."""
    place = (match, seen)
    kept: dict[str, Any] | None = attributes.kept.get(place)
    if kept is None:
        namespace = namespace_of(attributes, cluster)
        kept = values_for(attributes, match, namespace=namespace, decide=cluster.decide, seen=seen)
        attributes.kept[place] = kept
    return kept


def namespace_of(attributes: Attributes, cluster: Cluster) -> Tree | None:
    """The variable `namespaceObject`; None for what is in no namespace, and for namespaces."""
    if not attributes.namespace or attributes.kind == ("", "v1", "Namespace"):
        return None
    return cluster.namespace(attributes.namespace)


def namespace_tree(tree: Tree) -> Tree:
    """Of a namespace what policies see."""
    metadata = {key: value for key, value in tree["metadata"].items() if key in _SEEN}
    return {"metadata": metadata, **{key: tree[key] for key in ("spec", "status") if key in tree}}


_SEEN = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    }
)
