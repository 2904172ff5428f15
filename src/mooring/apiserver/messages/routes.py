"""Resolve a path to the resource that it names: `/apis/apps/v1/namespaces/default/deployments/web/scale`.

``requests/app.py`` calls `resolve` for every path; the handlers in ``registry/`` and the authorizer receive the
result. Handlers check whether the resource has the verb.
"""

import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec.structs import replace

from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request, Response

_PROXY = re.compile(r"(/api/[^/]+/(?:namespaces/[^/]+/(?:pods|services)|nodes)/[^/]+/proxy)(/.*)", re.DOTALL)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class ResourceRoute(msgspec.Struct, frozen=True):
    """The resource, namespace, name and subresource in a URL path. Without a name, it is a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """Whether the path had the deprecated form `/api/v1/watch/…`."""
    path: str = ""
    """The part of the path after `proxy`, with its slash."""

    @property
    def group(self) -> str:
        return self.kind.group

    @property
    def version(self) -> str:
        return self.kind.version

    @property
    def resource(self) -> str:
        return self.kind.plural

    @property
    def streams(self) -> bool:
        """Return whether the subresource is served by a kubelet (logs, exec, proxy), see ``streams/``."""
        found = self.kind.subresource(self.subresource) if self.subresource else None
        return found is not None and found.streams

    def verb(self, request: Request) -> str:
        """Return the API verb of a request to this path: `get`, `list`, `watch`, `create`, `deletecollection`…"""
        if request.method in {"GET", "HEAD"}:
            if self.watch or (request.flag("watch") and not self.subresource):
                return "watch"
            return "get" if self.name else "list"
        if request.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return _VERBS.get(request.method) or request.method.lower()


ResourceHandler = Callable[[Request, ResourceRoute], Awaitable[Response]]
ResourceHandlers = Mapping[tuple[str, str, str], ResourceHandler]
"""Handlers of resources that are computed and not stored, by group, resource and subresource."""


def resolve(scheme: Scheme, path: str) -> ResourceRoute | None:
    """Return the resource in a URL path (percent-decoded); None if the path names no served resource."""
    proxy = _PROXY.match(path) if "/proxy/" in path else None
    path, proxied = (proxy[1], proxy[2]) if proxy else (path, "")
    parts = path.strip("/").split("/")
    begin = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    rest = parts[begin:]
    if not rest or "" in rest or not path.startswith("/"):
        return None
    group, version = "" if begin == 2 else parts[1], parts[begin - 1]
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        del rest[0]
    route = None
    if rest[0] == "namespaces" and len(rest) >= 3:
        kind = scheme.resource(group, version, rest[2])
        if kind is not None and kind.namespaced:  # otherwise it is a subresource of the namespace, such as `status`
            route = _route_to(kind, rest[1], rest[3:], watch=watch)
    if route is None and (kind := scheme.resource(group, version, rest[0])) is not None:
        route = _route_to(kind, "", rest[1:], watch=watch)
    return replace(route, path=proxied) if route and proxied else route


def _route_to(kind: Kind, namespace: str, rest: list[str], *, watch: bool) -> ResourceRoute | None:
    """Return the route to a kind's objects for the rest of a path: name and subresource. None if they do not fit."""
    if len(rest) > 2 or (rest and kind.namespaced and not namespace):
        return None
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) > 1 else ""
    if subresource and kind.subresource(subresource) is None:
        return None
    return ResourceRoute(kind, namespace, name, subresource, watch)
