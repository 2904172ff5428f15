"""From a path to the resource it names: `/apis/apps/v1/namespaces/default/deployments/web/scale`.

`resolve` is called by the edge for every path below `/api/` and `/apis/` with a version in it; the handlers in
``resources/`` and the authorizer get its result. Whether the resource has the verb is for the handlers to say.
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request
from mooring.base.bounded_cache import BoundedCache

MANY = "-"
"""In place of a name: several objects, which the body names. No object can have this name."""
_PROXY = re.compile(r"(/api/[^/]+/(?:namespaces/[^/]+/(?:pods|services)|nodes)/[^/]+/proxy)(/.*)", re.DOTALL)
_COLLECTIONS, _LONGEST = 4096, 512
"""How many collections are remembered, and how long their paths may be."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class ResourceRoute(msgspec.Struct, frozen=True):
    """What a path names. Without a name it is a collection, without a namespace one of the whole cluster."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """The path was of the old form with `/watch/`."""
    path: str = ""
    """What stands behind `proxy`, with its slash."""

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
        """Whether it reaches through to a node or a container: see ``streams/``."""
        found = self.kind.subresource(self.subresource) if self.subresource else None
        return found is not None and found.streams

    def verb(self, request: Request) -> str:
        """Kubernetes' word for what a request wants: `get`, `list`, `watch`, `create`, `deletecollection`…"""
        if request.method in {"GET", "HEAD"}:
            if self.watch or (request.flag("watch") and not self.subresource):
                return "watch"
            return "get" if self.name else "list"
        if request.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return _VERBS.get(request.method) or request.method.lower()


class Routes:
    """`resolve` for a server: paths below a collection that was asked for before are not taken apart again."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._changes = scheme.changes
        self._collections: BoundedCache[str, ResourceRoute] = BoundedCache(_COLLECTIONS)
        """By their paths, those that objects can be right below."""

    def resolve_all(self, paths: Sequence[str]) -> list[ResourceRoute | None]:
        """As `resolve`, fast for paths that differ in nothing but the names of objects."""
        first = self.resolve(paths[0])
        behind = f"/{first.subresource}" if first and first.subresource else ""
        before = paths[0].removesuffix(behind).rpartition("/")[0] + "/"
        if first is None or not first.name or paths[0] != f"{before}{first.name}{behind}":
            return [first if path == paths[0] else self.resolve(path) for path in paths]
        routes: list[ResourceRoute | None] = []
        for path in paths:
            name = path[len(before) : len(path) - len(behind)]
            is_name = name and "/" not in name and path == f"{before}{name}{behind}"
            routes.append(replace(first, name=name) if is_name else self.resolve(path))
        return routes

    def resolve(self, path: str) -> ResourceRoute | None:
        """As the function of that name."""
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
    """Whether what follows behind the path of a route is the name of an object."""
    kind = route.kind  # behind `namespaces` a namespace may follow, and a resource in it
    return not (route.name or route.watch or kind.plural == "namespaces") and bool(route.namespace) == kind.namespaced


def resolve(scheme: Scheme, path: str) -> ResourceRoute | None:
    """The resource that a (decoded) path names, None when it names none that is served."""
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
    """A path up to `proxy`, and what the proxied server is asked for."""
    found = _PROXY.match(path)
    return (found[1], found[2]) if found else (path, "")


def _split(path: str) -> tuple[str, str, list[str]]:
    """Group, version and the parts behind them; `/api/v1/x` is of the core group."""
    parts = path.strip("/").split("/") if path.startswith("/") else []
    if len(parts) >= 2 and parts[0] == "api":
        return "", parts[1], parts[2:]
    if len(parts) >= 3 and parts[0] == "apis":
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _in_namespace(scheme: Scheme, group: str, version: str, rest: list[str], *, watch: bool) -> ResourceRoute | None:
    """`namespaces/default/pods/web`; None for `namespaces/default/status`, which belongs to the namespace itself."""
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
    if kind.namespaced and not namespace and len(rest) > 1 and rest != ["resourceclaims", MANY, "status"]:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and kind.subresource(subresource) is None:
        return None
    return ResourceRoute(kind, namespace, name, subresource, watch)
