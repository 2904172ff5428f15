"""Kubernetes' authorizer library: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

A chain of calls builds an `Action`; `check` authorizes it with a `Decide` function that admission passes in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mooring.api import names
from mooring.api.authentication_v1 import UserInfo
from mooring.cel.costs import LIST, STRUCT, CallCost, arg, fixed, scaled
from mooring.cel.costs import STRING as PER_CHARACTER
from mooring.cel.errors import EvaluationError
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, STRING, Type, object_type


class Action(NamedTuple):
    """The attributes of an authorization check: a verb on a resource, or on a non-resource path."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class Decision(NamedTuple):
    """The decision, its reason, and an error of the authorizer."""

    allowed: bool
    reason: str = ""
    error: str = ""


Decide = Callable[[UserInfo, Action], Decision]


def deny_all(user: UserInfo, action: Action) -> Decision:  # noqa: ARG001 - there is no authorizer
    """Deny everything: for places without an authorizer."""
    return Decision(allowed=False)


@dataclass(frozen=True, slots=True)
class AuthorizerValue:
    """The variable `authorizer`: a user and the authorizer."""

    cel_type: ClassVar[Type] = object_type("kubernetes.authorization.Authorizer")
    user: UserInfo
    decide: Decide = field(compare=False)


class PathCheck(msgspec.Struct, frozen=True):
    """A non-resource path to check."""

    cel_type: ClassVar[Type] = object_type("kubernetes.authorization.PathCheck")
    who: AuthorizerValue
    path: str


class GroupCheck(msgspec.Struct, frozen=True):
    """An API group whose resources can be checked."""

    cel_type: ClassVar[Type] = object_type("kubernetes.authorization.GroupCheck")
    who: AuthorizerValue
    group: str


class ResourceCheck(msgspec.Struct, frozen=True):
    """A resource to check; the verb is still missing."""

    cel_type: ClassVar[Type] = object_type("kubernetes.authorization.ResourceCheck")
    who: AuthorizerValue
    action: Action


class DecisionValue(msgspec.Struct, frozen=True):
    """The result of a check."""

    cel_type: ClassVar[Type] = object_type("kubernetes.authorization.Decision")
    decision: Decision


def _path(who: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(who, path)


def _service_account(who: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    user = UserInfo(username=f"system:serviceaccount:{namespace}:{name}", groups=[*groups, "system:authenticated"])
    return AuthorizerValue(user, who.decide)


def _resource(of: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(of.who, Action("", group=of.group, resource=resource))


def _set_attribute(part: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, value: replace(check, action=check.action._replace(**{part: value}))


def _check_resource(check: ResourceCheck, verb: str) -> DecisionValue:
    return DecisionValue(check.who.decide(check.who.user, check.action._replace(verb=verb)))


def _check_path(check: PathCheck, verb: str) -> DecisionValue:
    return DecisionValue(check.who.decide(check.who.user, Action(verb, path=check.path)))


_CHECK: Final = CallCost(fixed(350_000))
"""High enough that an expression can make only two checks."""
_SELECTOR: Final = CallCost(fixed(LIST) + scaled(arg(1), PER_CHARACTER) + scaled(scaled(arg(1), 0.5), LIST + STRUCT))
_A, _P, _G, _R, _D = (each.cel_type for each in (AuthorizerValue, PathCheck, GroupCheck, ResourceCheck, DecisionValue))


def _member(
    name: str, *overloads: tuple[str, Sequence[Type], Type, Callable[..., Any]], cost: CallCost | None = None
) -> Function:
    made = (
        Overload(id_, (*args,), result, impl, member=True, cost=cost or CallCost())
        for id_, args, result, impl in overloads
    )
    return function(name, *made)


AUTHORIZER_LIBRARY: Final = Library(
    "kubernetes.authz",
    functions=(
        _member("path", ("authorizer_path", (_A, STRING), _P, _path)),
        _member("group", ("authorizer_group", (_A, STRING), _G, GroupCheck)),
        _member("serviceAccount", ("authorizer_serviceaccount", (_A, STRING, STRING), _A, _service_account)),
        _member("resource", ("groupcheck_resource", (_G, STRING), _R, _resource)),
        _member("subresource", ("resourcecheck_subresource", (_R, STRING), _R, _set_attribute("subresource"))),
        _member("namespace", ("resourcecheck_namespace", (_R, STRING), _R, _set_attribute("namespace"))),
        _member("name", ("resourcecheck_name", (_R, STRING), _R, _set_attribute("name"))),
        _member(
            "check",
            ("pathcheck_check", (_P, STRING), _D, _check_path),
            ("resourcecheck_check", (_R, STRING), _D, _check_resource),
            cost=_CHECK,
        ),
        _member("allowed", ("decision_allowed", (_D,), BOOL, lambda decision: decision.decision.allowed)),
        _member("reason", ("decision_reason", (_D,), STRING, lambda decision: decision.decision.reason)),
        _member("errored", ("decision_errored", (_D,), BOOL, lambda decision: bool(decision.decision.error))),
        _member("error", ("decision_error", (_D,), STRING, lambda decision: decision.decision.error)),
    ),
    types=(_A, _P, _G, _R, _D),
)
SELECTORS_LIBRARY: Final = Library(
    "kubernetes.authzSelectors",
    functions=(
        _member(
            "fieldSelector",
            ("authorizer_fieldselector", (_R, STRING), _R, _set_attribute("field_selector")),
            cost=_SELECTOR,
        ),
        _member(
            "labelSelector",
            ("authorizer_labelselector", (_R, STRING), _R, _set_attribute("label_selector")),
            cost=_SELECTOR,
        ),
    ),
)
