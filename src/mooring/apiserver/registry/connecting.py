"""What policies and webhooks are told of requests that store nothing: streams to nodes, and tokens of accounts.

The edge calls `admit_connection` before it lets somebody through to a container, and ``access/reviews.py`` has
`admit_token` called before an account gets a token.
"""

from collections.abc import Callable
from typing import Any

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource
from mooring.api.admissionregistration_v1 import CONNECT, CREATE
from mooring.api.authentication_v1 import TokenRequest
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.context import Call, HandlerContext

Tree = dict[str, Any]
_FLAGS = ("stdin", "stdout", "stderr", "tty")


async def admit_connection(context: HandlerContext, request: Request, route: ResourceRoute) -> None:
    """Ask whether somebody may be let through; raises a `StatusError` if not. Reading a log is no connection."""
    subresource = route.kind.subresource(route.subresource)
    if context.extensions.is_idle or subresource is None or not subresource.kind:
        return
    asked = _ASKED[route.subresource](request, route)
    attributes = Attributes(
        scheme=context.scheme,
        operation=CONNECT,
        resource_kind=route.kind,
        kind=GroupVersionKind(route.kind.group, route.kind.version, subresource.kind),
        resource=GroupVersionResource.of(route.kind),
        subresource=route.subresource,
        namespace=route.namespace,
        name=route.name,
        user=request.user,
        connect_options={"kind": subresource.kind, "apiVersion": route.kind.api_version, **asked},
        audit_annotations=request.audit_annotations,
    )
    await context.extensions.admit(attributes)


async def admit_token(context: HandlerContext, request: Request, route: ResourceRoute, wanted: TokenRequest) -> None:
    """Ask whether an account may have a token."""
    stored, kind = context.stored(route.kind), context.scheme.kind(wanted.api_version, wanted.kind)
    accepted = request.accepted()
    call = Call(request, route.kind, stored, route.namespace, route.name, route.subresource, accepted)
    attributes = context.extended(call, CREATE, wanted, None, kind=kind)
    if attributes is not None:
        await context.extensions.admit(attributes)


def _terminal(request: Request, _route: ResourceRoute) -> Tree:
    tree: Tree = {name: True for name in _FLAGS if request.flag(name)}
    if container := request.parameter("container"):
        tree["container"] = container
    return tree


def _command(request: Request, route: ResourceRoute) -> Tree:
    command = request.query.get("command")
    return {**_terminal(request, route), "command": [*command]} if command else _terminal(request, route)


def _ports(request: Request, _route: ResourceRoute) -> Tree:
    ports = [int(port) for port in request.query.get("ports", ()) if port.isdecimal() and len(port) < 10]
    return {"ports": ports} if ports else {}


def _path(_request: Request, route: ResourceRoute) -> Tree:
    return {"path": route.path} if route.path else {}


_ASKED: dict[str, Callable[[Request, ResourceRoute], Tree]] = {
    "attach": _terminal,
    "exec": _command,
    "portforward": _ports,
    "proxy": _path,
}
"""What the query of a stream asks for, as its kind of options says it."""
