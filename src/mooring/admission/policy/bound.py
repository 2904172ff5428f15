"""A policy with its bindings and parameters, common to validating and mutating policies.

`PolicyWithBindings.invocations` yields the matching bindings for a request, each with its parameters, the objects that
the binding selects. `PolicyLookups` provides namespaces, objects and authorization. A policy or binding that refers to
something that does not exist becomes a `ConfigurationProblem`, with Kubernetes' message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from mooring.admission.options import stored_policies
from mooring.admission.policy.attributes import Attributes, Tree
from mooring.admission.policy.compiling import CompiledExpression, compile_expression
from mooring.admission.policy.evaluation import EVERYTHING, OUT_OF_BUDGET, VariableReads, build_variables
from mooring.admission.policy.matching import Matcher, MatcherIndex, RequestView
from mooring.admission.policy.strategy import to_declarable_type
from mooring.api import admissionregistration_v1 as v1
from mooring.api import label_selector
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector
from mooring.cel.environment import Environment
from mooring.cel.types import DYN, Type
from mooring.constraints.celenv.admission import with_variables
from mooring.constraints.celenv.authorizer import Decide


class ConfigurationError(Exception):
    """Raised if a policy's or binding's parameter kind or object does not exist; the message is Kubernetes'."""


class PolicyLookups(Protocol):
    """Interface to the cluster state that policies may read; the API server and the advisor implement it."""

    @property
    def decide(self) -> Decide:
        """Return the function that decides whether a user may do an action, for the CEL variable `authorizer`."""
        ...

    def namespace(self, name: str) -> Tree:
        """Return a Namespace object as JSON. Raise NotFound if it does not exist."""
        ...

    def param_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind with this apiVersion and name; None if the server does not serve it."""
        ...

    def find_object(self, kind: Kind, namespace: str, name: str) -> Tree | None: ...

    def select_objects(self, kind: Kind, namespace: str, selector: Selector) -> Sequence[Tree]:
        """Return the objects of a kind, as JSON, in a namespace (empty: in all) whose labels match a selector."""
        ...


NONE: Sequence[Tree | None] = (None,)
"""The parameters of a policy without a paramKind, which is evaluated once, without parameters."""


def find_params(
    kind: v1.ParamKind | None, ref: v1.ParamRef | None, namespace: str, cluster: PolicyLookups
) -> Sequence[Tree | None]:
    """Return a binding's parameter objects for a request; a single None if the policy takes none. Raise
    ConfigurationError if the kind is not served, or if there are none and the binding then denies.
    """
    if kind is None or ref is None:
        return NONE
    known = find_param_kind(kind, cluster)
    where = _param_namespace(known, ref, namespace)
    if ref.name:
        one = cluster.find_object(known, where, ref.name)
        found: Sequence[Tree | None] = () if one is None else (one,)
    else:
        found = cluster.select_objects(known, where, label_selector.from_label_selector(ref.selector))
    if not found and ref.parameter_not_found_action == v1.DENY:
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def find_param_kind(kind: v1.ParamKind, cluster: PolicyLookups) -> Kind:
    """Return the kind that a policy's `paramKind` names. Raise ConfigurationError if it is not served."""
    known = cluster.param_kind(kind.api_version, kind.kind)
    if known is None:
        problem = f"failed to find resource referenced by paramKind: '{_format_kind(kind)}'"
        raise ConfigurationError(problem)
    return known


def _param_namespace(kind: Kind, ref: v1.ParamRef, namespace: str) -> str:
    if not kind.namespaced:
        if ref.namespace:
            problem = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise ConfigurationError(problem)
        return ""
    if not ref.namespace and not namespace:
        problem = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(problem)
    return ref.namespace or namespace


def _format_kind(kind: v1.ParamKind) -> str:
    group, _, version = kind.api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind.kind}"


Policy = v1.ValidatingAdmissionPolicy | v1.MutatingAdmissionPolicy
Binding = v1.ValidatingAdmissionPolicyBinding | v1.MutatingAdmissionPolicyBinding
P = TypeVar("P", bound=Policy)
B = TypeVar("B", bound=Binding)


class BindingWithMatcher(msgspec.Struct, Generic[B], frozen=True):
    """A policy binding with the matcher for its `matchResources`, if it has any."""

    binding: B
    matcher: Matcher | None

    @classmethod
    def from_binding(cls, binding: B) -> "BindingWithMatcher[B]":
        resources = binding.spec.match_resources
        return cls(binding, None if resources is None else Matcher.from_match_resources(resources))


class ConfigurationProblem(NamedTuple):
    """A configuration error of a policy or binding, such as a missing parameter object, as a record."""

    policy: str
    binding: str
    """The name of the binding; empty for an error of the policy itself."""
    message: str


class EvaluationRecord(NamedTuple):
    """A metrics record of one evaluated expression of a policy: action, message and time taken."""

    policy: str
    binding: str
    action: str
    """`allow` if the check passed, else the binding's action (`deny`, `warn`, `audit`); empty for mutations."""
    message: str
    """Why the expression failed; empty if it did not."""
    seconds: float

    @property
    def metric_error_type(self) -> str:
        """Return the value of the label `error_type` of Kubernetes' policy metrics, such as `no_error`."""
        if not self.message:
            return "no_error"
        if self.message.startswith("compilation"):
            return "compile_error"
        return "out_of_budget" if self.message.startswith(OUT_OF_BUDGET) else "invalid_error"


class Invocation(NamedTuple, Generic[B]):
    """A matching binding of a policy with one parameter object, and the resource in which it sees the request."""

    match: RequestView
    binding: B
    params: Tree | None


class PolicyWithBindings(Generic[P, B]):
    """A policy with its bindings and their matchers. Subclasses compile its expressions (`program`) on first use."""

    program: Any

    def __init__(self, policy: P, bindings: Iterable[B]) -> None:
        self.policy = policy
        self.bindings = [BindingWithMatcher.from_binding(each) for each in bindings]
        constraints = policy.spec.match_constraints
        self.matcher = Matcher.from_match_resources(constraints) if constraints is not None else Matcher()

        self.name = policy.metadata.name
        self.ignores_errors = policy.spec.failure_policy == v1.IGNORE
        self.matches_by_rules_only = (
            policy.spec.param_kind is None
            and self.matcher.selects_all
            and all(each.matcher is None for each in self.bindings)
        )
        """Whether match rules alone decide which requests match: without parameters, selectors or rules of bindings."""

    def is_built_from(self, policy: Policy, bindings: Sequence[Binding]) -> bool:
        """Return whether this has the same policy and bindings (by identity), so that it need not be rebuilt."""
        if self.policy is not policy or len(self.bindings) != len(bindings):
            return False
        return all(mine.binding is other for mine, other in zip(self.bindings, bindings, strict=True))

    def invocations(
        self,
        attributes: Attributes,
        cluster: PolicyLookups,
        problems: list[ConfigurationProblem],
        by_rules: RequestView | None = None,
    ) -> Iterator[Invocation[B]]:
        """Yield each matching binding with each of its parameter objects; append configuration errors to `problems`."""

        def get_namespace_labels(namespace: str) -> Mapping[str, str]:
            found: Mapping[str, str] = cluster.namespace(namespace)["metadata"].get("labels") or {}
            return found

        try:
            match = self.matcher.match(attributes, get_namespace_labels, by_rules)
            if match is None:
                return
            if self.policy.spec.param_kind is not None:
                find_param_kind(self.policy.spec.param_kind, cluster)
        except (ConfigurationError, StatusError) as error:
            problems.append(ConfigurationProblem(self.name, "", f"failed to configure policy: {error}"))
            return
        for each in self.bindings:
            try:
                if each.matcher is not None and each.matcher.match(attributes, get_namespace_labels) is None:
                    continue
                found = self._find_binding_params(each.binding, attributes, cluster)
            except (ConfigurationError, StatusError) as error:
                name = each.binding.metadata.name
                problems.append(ConfigurationProblem(self.name, name, f"failed to configure binding: {error}"))
                continue
            for params in found:
                yield Invocation(match, each.binding, params)

    def _find_binding_params(self, binding: B, attributes: Attributes, cluster: PolicyLookups) -> Sequence[Tree | None]:
        return find_params(self.policy.spec.param_kind, binding.spec.param_ref, attributes.namespace, cluster)


K = TypeVar("K", bound=PolicyWithBindings[Any, Any])


class PoliciesWithBindings(Generic[P, B, K]):
    """The policies of a cluster that have bindings. Unchanged ones in `before` are reused with their compiled CEL."""

    policy_class: Callable[[P, list[B]], K]

    def __init__(
        self,
        policies: Iterable[P] = (),
        bindings: Iterable[B] = (),
        before: "PoliciesWithBindings[P, B, K] | None" = None,
    ) -> None:
        by_policy: dict[str, list[B]] = {}
        for binding in sorted(bindings, key=lambda each: each.metadata.name):
            by_policy.setdefault(binding.spec.policy_name, []).append(binding)
        known = {each.name: each for each in before.policies} if before is not None else {}
        self.policies: list[K] = []
        for policy in sorted(policies, key=lambda each: each.metadata.name):
            name = policy.metadata.name
            if own := by_policy.get(name):
                old = known.get(name)
                reuse = old is not None and old.is_built_from(policy, own)
                self.policies.append(old if old is not None and reuse else self.policy_class(policy, own))
        self._index = MatcherIndex(self.policies)
        self.spares = self._index.matches_nothing

    def __bool__(self) -> bool:
        return bool(self.policies)

    def compile(self, attributes: Attributes) -> Iterator[None]:
        """Compile the policies whose rules match a request, one per step, so that callers can pause in between."""
        for policy in self._index.candidates(attributes):
            _ = policy.program
            yield


class Compiler:
    """Compiles the CEL expressions of a stored policy. The constructor compiles its composed variables first."""

    def __init__(self, *, params: bool, variables: Iterable[v1.Variable]) -> None:
        self._find_binding_params = params
        self._types: dict[str, Type] = {}
        self.variables: dict[str, CompiledExpression] = {}
        for each in variables:
            found = compile_expression(self.environment(each.expression), each.expression)
            self.variables[each.name] = found
            self._types[each.name] = DYN if found.error else to_declarable_type(found.program.output_type)
        self._environment = self.environment()

    def environment(self, text: str | None = None, *, authorizer: bool = True, patches: bool = False) -> Environment:
        """Return the CEL environment for the expression `text`, with those composed variables that it names."""
        made = stored_policies(params=self._find_binding_params, authorizer=authorizer, patches=patches)
        return with_variables(made, self._types, text)

    def compile(self, expression: str, results: Sequence[str], **environment: Any) -> CompiledExpression:
        made = self.environment(**environment) if environment else self._environment
        return compile_expression(made, expression, results)


def get_invocation_variables(
    invocation: Invocation[B], attributes: Attributes, cluster: PolicyLookups, seen: VariableReads = EVERYTHING
) -> dict[str, Any]:
    """Return the CEL variables of a policy invocation, parameters included; `seen` says which fields are read."""
    kept = get_cel_variables(invocation.match, attributes, cluster, seen)
    return kept if invocation.params is None else {**kept, "params": invocation.params}


def get_cel_variables(
    match: RequestView, attributes: Attributes, cluster: PolicyLookups, seen: VariableReads
) -> dict[str, Any]:
    """Return a request's CEL variables without parameters; cached for policies that see it in the same version."""
    place = (match, seen)
    kept: dict[str, Any] | None = attributes.derived.get(place)
    if kept is None:
        namespace = build_namespace_variable(attributes, cluster)
        kept = build_variables(attributes, match, namespace=namespace, decide=cluster.decide, seen=seen)
        attributes.derived[place] = kept
    return kept


def build_namespace_variable(attributes: Attributes, cluster: PolicyLookups) -> Tree | None:
    """Return the CEL variable `namespaceObject`; None for Namespaces and other cluster-scoped objects."""
    if not attributes.namespace or attributes.kind == ("", "v1", "Namespace"):
        return None
    return cluster.namespace(attributes.namespace)


def select_visible_namespace_fields(tree: Tree) -> Tree:
    """Return a Namespace's JSON, reduced to spec, status and those metadata fields that policies may read."""
    metadata = {key: value for key, value in tree["metadata"].items() if key not in _HIDDEN_METADATA}
    return {"metadata": metadata, **{key: tree[key] for key in ("spec", "status") if key in tree}}


_HIDDEN_METADATA = frozenset({"managedFields", "ownerReferences", "selfLink"})
