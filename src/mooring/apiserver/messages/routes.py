"""Resolve a path to the resource that it names: `/apis/apps/v1/namespaces/default/deployments/web/scale`.

``requests/app.py`` calls `Routes.resolve` for every path; the handlers in ``registry/`` and the authorizer receive the
result. Handlers check whether the resource has the verb.
"""

import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec.structs import replace

from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request, Response
from mooring.base.bounded_cache import BoundedCache

_PROXY = re.compile(r"(/api/[^/]+/(?:namespaces/[^/]+/(?:pods|services)|nodes)/[^/]+/proxy)(/.*)", re.DOTALL)
_COLLECTIONS, _LONGEST = 4096, 512
"""The maximum number of cached collections, and the maximum length of their paths."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class ResourceRoute(msgspec.Struct, frozen=True):
    """The resource that a path names. Without a name it is a collection, without a namespace it spans the cluster."""

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
        """Return whether the subresource streams to a node or a container: see ``streams/``."""
        found = self.kind.subresource(self.subresource) if self.subresource else None
        return found is not None and found.streams

    def verb(self, request: Request) -> str:
        """Return Kubernetes' verb of a request: `get`, `list`, `watch`, `create`, `deletecollection`…"""
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


class Routes:
    """Resolves request paths to resources, with a cache of collections."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._changes = scheme.changes
        self._collections: BoundedCache[str, ResourceRoute] = BoundedCache(_COLLECTIONS)
        """The cached routes of collections, by path."""

    def resolve(self, path: str) -> ResourceRoute | None:
        """Return the resource that a path names; None if it names no served resource."""
        if self._changes != self._scheme.changes:
            self._changes, self._collections = self._scheme.changes, BoundedCache(_COLLECTIONS)
        found = self._collections.get(path)
        if found is not None:
            return found
        above, _, last = path.rpartition("/")
        collection = self._collections.get(above)
        if collection is not None and last:
            return ResourceRoute(collection.kind, collection.namespace, last)
        above, _, name = above.rpartition("/")
        collection = self._collections.get(above)
        if collection is not None and last and name and collection.kind.subresource(last) is not None:
            return ResourceRoute(collection.kind, collection.namespace, name, last)
        route = resolve(self._scheme, path)
        if route is not None and _holds_objects(route) and not path.endswith("/") and len(path) <= _LONGEST:
            self._collections.put(path, route)
        return route


def _holds_objects(route: ResourceRoute) -> bool:
    """Return whether the segment after the path of a route is an object's name."""
    kind = route.kind  # behind `namespaces` a namespace may follow, and a resource in it
    return not (route.name or route.watch or kind.plural == "namespaces") and bool(route.namespace) == kind.namespaced


def resolve(scheme: Scheme, path: str) -> ResourceRoute | None:
    """Resolve a decoded path; return None if it names no served resource."""
    path, proxied = _cut_proxied(path)
    group, version, rest = _split(path)
    watch = bool(rest) and rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    if not rest or not all(rest):
        return None
    if rest[0] == "namespaces" and len(rest) >= 3:
        route = _in_namespace(scheme, group, version, rest, watch=watch)
        if route:
            return replace(route, path=proxied) if proxied else route
    route = _resource(scheme, group, version, "", rest, watch=watch)
    return replace(route, path=proxied) if route and proxied else route


def _cut_proxied(path: str) -> tuple[str, str]:
    """Split a path at `proxy` into the path of the resource and the path for the proxied server."""
    found = _PROXY.match(path)
    return (found[1], found[2]) if found else (path, "")


def _split(path: str) -> tuple[str, str, list[str]]:
    """Return group, version and the remaining segments of a path; `/api/v1/x` is in the core group."""
    parts = path.strip("/").split("/") if path.startswith("/") else []
    if len(parts) >= 2 and parts[0] == "api":
        return "", parts[1], parts[2:]
    if len(parts) >= 3 and parts[0] == "apis":
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _in_namespace(scheme: Scheme, group: str, version: str, rest: list[str], *, watch: bool) -> ResourceRoute | None:
    """Resolve `namespaces/default/pods/web`; return None for `namespaces/default/status`, a part of the namespace."""
    kind = scheme.resource(group, version, rest[2])
    if kind is None or not kind.namespaced:
        return None
    return _resource(scheme, group, version, rest[1], rest[2:], watch=watch)


def _resource(
    scheme: Scheme, group: str, version: str, namespace: str, rest: list[str], *, watch: bool
) -> ResourceRoute | None:
    kind = scheme.resource(group, version, rest[0])
    if kind is None or len(rest) > 3:
        return None
    if kind.namespaced and not namespace and len(rest) > 1:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and kind.subresource(subresource) is None:
        return None
    return ResourceRoute(kind, namespace, name, subresource, watch)
