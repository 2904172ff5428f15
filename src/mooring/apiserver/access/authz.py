"""Describe the action that a request needs authorization for, and the authorizer's decision.

`attributes_of` returns the `Attributes` of a request; ``rbac.py`` has the authorizer; `forbidden` returns the error.
"""

from typing import Protocol

import msgspec

from mooring.api import errors, field_selector
from mooring.api.authentication_v1 import UserInfo
from mooring.api.quoting import go_quote
from mooring.api.rbac_v1 import PolicyRule
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute

_OF_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})


class Attributes(msgspec.Struct, frozen=True):
    """An action to authorize: a user's verb on a resource or, if `path` is set, on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    selected_node: str = ""
    """The node to which a field selector on `spec.nodeName` restricts the request; empty if none."""

    @property
    def full_resource(self) -> str:
        """The resource and its subresource as RBAC rules name them: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Decision(msgspec.Struct, frozen=True):
    """The result of an authorization: whether it is allowed, and as reason the binding that allows it or why not."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision: ...

    async def prepare(self, user: UserInfo, attributes: Attributes) -> None:
        """Wait until the objects that `authorize` needs for this action are in memory."""
        ...

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        """Return all RBAC rules that apply to a user in a namespace; if it is empty, in the whole cluster."""
        ...

    async def catch_up(self) -> None:
        """Wait until this server's authorizer has seen all roles and bindings in the store."""
        ...


def require(authorizer: Authorizer, user: UserInfo, attributes: Attributes) -> Decision:
    """Authorize an action; return the decision, or raise Forbidden if it is not allowed."""
    decision = authorizer.authorize(user, attributes)
    if not decision.allowed:
        raise forbidden(user, attributes, decision.reason)
    return decision


def attributes_of(request: Request, route: ResourceRoute | None) -> Attributes:
    """Return the verb, resource and name of a request as `Attributes` to authorize."""
    if route is None:
        return Attributes(verb=request.method.lower(), path=request.path)
    kind, verb = route.kind, route.verb(request)
    name, node = route.name, ""
    if verb in _OF_COLLECTIONS:
        selector = request.parameter("fieldSelector")
        name = name or _only_name(selector, "metadata.name")
        node = selected_node(selector)
    namespace = route.namespace
    if kind.plural == "namespaces" and kind.group == "":
        namespace = route.name  # what is done to a namespace is done in it
    return Attributes(verb, kind.group, kind.plural, route.subresource, namespace, name, "", node)


def selected_node(selector: str) -> str:
    """Return the node to which a field selector restricts pods; empty if there is none or it is malformed."""
    return _only_name(selector, "spec.nodeName")


def _only_name(selector: str, field: str) -> str:
    """Return the one value that a field selector requires of a field; empty if there is none, or it is malformed."""
    if field not in selector:
        return ""
    try:
        return field_selector.parse(selector).requires_exactly(field) or ""
    except ValueError:
        return ""  # the handler says what is wrong with it


def forbidden(user: UserInfo, attributes: Attributes, reason: str = "") -> errors.Forbidden:
    """Return (not raise) the Forbidden error that refuses an action, with Kubernetes' message."""
    who = f"User {go_quote(user.username)} cannot {attributes.verb}"
    suffix = f": {reason}" if reason else ""
    if attributes.path:
        return errors.forbidden("", "", f"{who} path {go_quote(attributes.path)}{suffix}")
    where = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    what = f"resource {go_quote(attributes.full_resource)} in API group {go_quote(attributes.group)}"
    return errors.forbidden(
        attributes.resource, attributes.name, f"{who} {what} {where}{suffix}", group=attributes.group
    )
