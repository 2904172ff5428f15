"""Admission by policies and webhooks for requests that store nothing: connections to pods and nodes, and tokens.

``requests/app.py`` calls `admit_connection` before it opens a stream, ``access/reviews.py`` calls `admit_token` before
it issues a token.
"""

from typing import Any

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource
from mooring.api.admissionregistration_v1 import CONNECT, CREATE
from mooring.api.authentication_v1 import TokenRequest
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext

_FLAGS = ("stdin", "stdout", "stderr", "tty")


async def admit_connection(context: HandlerContext, request: Request, route: ResourceRoute) -> None:
    """Have policies and webhooks admit CONNECT requests (logs are none); raise the error of a refusal."""
    subresource = route.kind.subresource(route.subresource)
    if context.admission.extensions.is_idle or subresource is None or not subresource.kind:
        return
    options = {"kind": subresource.kind, "apiVersion": route.kind.api_version, **_connect_options(request, route)}
    attributes = Attributes(
        scheme=context.kinds.scheme,
        operation=CONNECT,
        resource_kind=route.kind,
        kind=GroupVersionKind(route.kind.group, route.kind.version, subresource.kind),
        resource=GroupVersionResource.of_kind(route.kind),
        subresource=route.subresource,
        namespace=route.namespace,
        name=route.name,
        user=request.user,
        connect_options=options,
        audit_annotations=request.audit_annotations,
    )
    await context.admission.extensions.admit(attributes)


async def admit_token(context: HandlerContext, request: Request, route: ResourceRoute, wanted: TokenRequest) -> None:
    """Have policies and webhooks admit the creation of a service account's token; raise the error of a refusal."""
    stored, kind = context.kinds.find(route.kind), context.kinds.scheme.kind(wanted.api_version, wanted.kind)
    accepted = request.negotiate_format()
    call = Call(request, route.kind, stored, route.namespace, route.name, route.subresource, accepted)
    await context.admission.admit(call, CREATE, wanted, None, kind=kind)


def _connect_options(request: Request, route: ResourceRoute) -> dict[str, Any]:
    """Return the query of exec, attach or the like as the fields of its options kind, without empty ones."""
    found: dict[str, Any] = {}
    match route.subresource:
        case "proxy":
            found = {"path": route.path}
        case "portforward":
            ports = (port for port in request.query.get("ports", ()) if port.isdecimal() and len(port) < 10)
            found = {"ports": [*map(int, ports)]}
        case "attach" | "exec":
            found = {name: request.flag(name) for name in _FLAGS}
            found["container"] = request.parameter("container")
            if route.subresource == "exec":
                found["command"] = [*request.query.get("command", ())]
    return {name: value for name, value in found.items() if value}
