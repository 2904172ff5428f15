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
    """The action of a request to authorize: on a resource or, if `path` is set, on a non-resource path."""

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
        """The resource with subresource as roles name it: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Decision(msgspec.Struct, frozen=True):
    """The result of an authorization: whether an action is allowed, by which binding, or why not."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision: ...

    async def prepare(self, user: UserInfo, attributes: Attributes) -> None:
        """Load the objects that `authorize` needs for this action."""
        ...

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        """Return all rules that a user has in a namespace; without a namespace, in the whole cluster."""
        ...

    async def catch_up(self) -> None:
        """Wait until all stored roles and bindings are in effect."""
        ...


def require(authorizer: Authorizer, user: UserInfo, attributes: Attributes) -> Decision:
    """Authorize an action; raise Forbidden if it is not allowed."""
    decision = authorizer.authorize(user, attributes)
    if not decision.allowed:
        raise forbidden(user, attributes, decision.reason)
    return decision


def attributes_of(request: Request, route: ResourceRoute | None) -> Attributes:
    """Return the attributes of a request for authorization."""
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
    """Return the only node that a field selector allows; empty if it allows several or is malformed."""
    return _only_name(selector, "spec.nodeName")


def _only_name(selector: str, field: str) -> str:
    """Return the only object name that a field selector allows: a user with a right to one object may list it."""
    if field not in selector:
        return ""
    try:
        return field_selector.parse(selector).requires_exactly(field) or ""
    except ValueError:
        return ""  # the handler says what is wrong with it


def forbidden(user: UserInfo, attributes: Attributes, reason: str = "") -> errors.Forbidden:
    """Return the Forbidden error for a request, with Kubernetes' message."""
    who = f"User {go_quote(user.username)} cannot {attributes.verb}"
    suffix = f": {reason}" if reason else ""
    if attributes.path:
        return errors.forbidden("", "", f"{who} path {go_quote(attributes.path)}{suffix}")
    where = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    what = f"resource {go_quote(attributes.full_resource)} in API group {go_quote(attributes.group)}"
    return errors.forbidden(
        attributes.resource, attributes.name, f"{who} {what} {where}{suffix}", group=attributes.group
    )
