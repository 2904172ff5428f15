"""OpenAPI paths of resources, with their operations and parameters.

`Operations` goes through the served kinds of a group-version. kubectl looks here for the kind behind a resource
(`explain`), and for the parameters `dryRun` and `fieldValidation` of PATCH before it uses them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mooring.api.base import Object
from mooring.api.kinds import GroupVersion, Kind, Subresource
from mooring.api.meta_v1 import DeleteOptions, Status
from mooring.api.scheme import Scheme
from mooring.apiserver.output.openapi.connections import connections
from mooring.apiserver.output.openapi.schemas import Dialect, Schema, Schemas, gvk

_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_JSON = ("application/json", "application/yaml")
_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_ACTIONS = {"create": "post", "update": "put"}
_PREFIXES = {
    "get": "read",
    "list": "list",
    "create": "create",
    "update": "replace",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "deleteCollection",
}
_TEXT, _NUMBER, _SWITCH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_QUERY: dict[str, tuple[dict[str, str], str]] = {
    "allowWatchBookmarks": (_SWITCH, "Asks for events of type BOOKMARK."),
    "continue": (_TEXT, "The token of the page before."),
    "dryRun": (_TEXT, "All: do everything but keep nothing."),
    "fieldManager": (_TEXT, "The name of the workflow or person that makes the change."),
    "fieldSelector": (_TEXT, "Restricts the answer by fields."),
    "fieldValidation": (_TEXT, "What happens to unknown and duplicate fields: Ignore, Warn or Strict."),
    "force": (_SWITCH, "Whether server-side apply takes fields over from other managers."),
    "gracePeriodSeconds": (_NUMBER, "Seconds that the object has to end; zero means at once."),
    "labelSelector": (_TEXT, "Restricts the answer by labels."),
    "limit": (_NUMBER, "The largest number of items in one page."),
    "orphanDependents": (_SWITCH, "Use propagationPolicy instead."),
    "pretty": (_TEXT, "Whether the answer is indented."),
    "propagationPolicy": (_TEXT, "What happens to dependents: Orphan, Background or Foreground."),
    "resourceVersion": (_TEXT, "How recent the answer must be, or where the watch starts."),
    "resourceVersionMatch": (_TEXT, "How the version is meant: NotOlderThan or Exact."),
    "sendInitialEvents": (_SWITCH, "Begins a watch with the present state."),
    "timeoutSeconds": (_NUMBER, "Ends the call after so many seconds."),
    "watch": (_SWITCH, "Streams the changes instead of listing."),
}
_LISTING = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETING = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS = {
    "list": _LISTING,
    "create": _WRITING,
    "update": _WRITING,
    "patch": (*_WRITING, "force"),
    "delete": _DELETING,
    "deletecollection": (*_DELETING, *_LISTING),
}


class Operations:
    """Makes the paths of a document, and the schemas that they need."""

    def __init__(self, scheme: Scheme, schemas: Schemas, dialect: Dialect) -> None:
        self._scheme = scheme
        self._schemas = schemas
        self._dialect = dialect

    def paths(self, where: GroupVersion) -> dict[str, Schema]:
        """All paths of a group-version."""
        root = f"/apis/{where.group}/{where.version}" if where.group else f"/api/{where.version}"
        kinds = self._scheme.resources(*where)
        return dict(sorted((found for kind in kinds for found in self._paths_of(root, kind)), key=_path))

    def _paths_of(self, root: str, kind: Kind) -> Iterator[tuple[str, Schema]]:
        collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        if verbs := _those_of(kind.verbs, "list", "create", "deletecollection"):
            yield collection, self._item(kind, verbs, namespaced=kind.namespaced)
        if kind.namespaced and "list" in kind.verbs:
            yield f"{root}/{kind.plural}", self._item(kind, ["list"], everywhere=True)
        if verbs := _those_of(kind.verbs, "get", "update", "patch", "delete"):
            yield f"{collection}/{{name}}", self._item(kind, verbs, namespaced=kind.namespaced, named=True)
        for each in kind.subresources:
            if each.streams:
                place = f"{collection}/{{name}}/{each.name}"
                yield from connections(kind, each, place, self._dialect, self._parameter)
                continue
            verbs = _those_of(each.verbs, "get", "create", "update", "patch")
            item = self._item(kind, verbs, subresource=each, namespaced=kind.namespaced, named=True)
            yield f"{collection}/{{name}}/{each.name}", item

    def _item(
        self,
        kind: Kind,
        verbs: list[str],
        *,
        subresource: Subresource | None = None,
        namespaced: bool = False,
        named: bool = False,
        everywhere: bool = False,
    ) -> Schema:
        item: Schema = {}
        for verb in verbs:
            item[_METHODS[verb]] = self._operation(kind, verb, subresource, namespaced, everywhere)
        shared = [self._parameter("pretty", "query", _TEXT, _QUERY["pretty"][1])]
        if named:
            shared.insert(0, self._parameter("name", "path", _TEXT, f"The name of the {kind.kind}."))
        if namespaced:
            shared.insert(-1, self._parameter("namespace", "path", _TEXT, "The namespace of the object."))
        return {**item, "parameters": shared}

    def _operation(
        self, kind: Kind, verb: str, subresource: Subresource | None, namespaced: bool, everywhere: bool
    ) -> Schema:
        shown, where = self._shown(kind, subresource)
        name = subresource.kind or kind.kind if subresource else kind.kind
        scope = "Namespaced" if namespaced else ""
        suffix = (subresource.name.capitalize() if subresource else "") + ("ForAllNamespaces" if everywhere else "")
        group = "".join(part.capitalize() for part in kind.group.removesuffix(".k8s.io").split(".")) or "Core"
        operation: Schema = {
            "description": _about(verb, kind, subresource),
            "operationId": f"{_PREFIXES[verb]}{group}{kind.version.capitalize()}{scope}{kind.kind}{suffix}",
            "tags": [f"{group[0].lower()}{group[1:]}_{kind.version}"],
            "parameters": [self._parameter(name, "query", *_QUERY[name]) for name in _PARAMETERS.get(verb, ())],
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": gvk(where, name),
        }
        self._add_body(operation, verb, shown, where, kind)
        self._add_answers(operation, verb, self._answer(kind, verb, shown, where))
        return operation

    def _answer(self, kind: Kind, verb: str, shown: type[Object], where: GroupVersion) -> Schema:
        if verb in {"delete", "deletecollection"}:
            return self._schemas.of(Status, where)
        if shown is kind.type and kind.custom:
            return self._schemas.of_custom(kind, is_list=verb == "list")
        return self._schemas.of(kind.list_type if verb == "list" and kind.list_type else shown, where)

    def _shown(self, kind: Kind, subresource: Subresource | None) -> tuple[type[Object], GroupVersion]:
        """Return the type that is read and written at a path, and its group-version."""
        if subresource and subresource.kind:
            where = subresource.group_version or kind.group_version
            other = self._scheme.kind(where.api_version, subresource.kind)
            if other:
                return other.type, where
        return kind.type, kind.group_version

    def _add_body(self, operation: Schema, verb: str, shown: type[Object], where: GroupVersion, kind: Kind) -> None:
        media_types: Sequence[str] = _JSON
        if verb in {"create", "update"}:
            own = kind.custom and shown is kind.type
            schema = self._schemas.of_custom(kind) if own else self._schemas.of(shown, where)
        elif verb == "patch":
            schema, media_types = self._schemas.patch(), _PATCHES[:3] if kind.custom else _PATCHES
        elif verb in {"delete", "deletecollection"}:
            schema = self._schemas.of(DeleteOptions, where)
        else:
            return
        required = verb in {"create", "update", "patch"}
        if self._dialect is Dialect.V2:
            operation["consumes"] = [*media_types]
            body: Schema = {"in": "body", "name": "body", "schema": schema}
            operation["parameters"].append({**body, "required": True} if required else body)
        else:
            content = {media_type: {"schema": schema} for media_type in media_types}
            operation["requestBody"] = {"content": content, "required": True} if required else {"content": content}

    def _add_answers(self, operation: Schema, verb: str, schema: Schema) -> None:
        codes = {"create": ("200", "201", "202"), "update": ("200", "201"), "patch": ("200", "201")}
        words = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}
        answers: dict[str, Any] = {}
        if self._dialect is Dialect.V2:
            operation["produces"] = [*_JSON]
        for code in codes.get(verb, ("200",)):
            if self._dialect is Dialect.V2:
                answers[code] = {"description": words[code], "schema": schema}
            else:
                content = {media_type: {"schema": schema} for media_type in _JSON}
                answers[code] = {"description": words[code], "content": content}
        operation["responses"] = {**answers, "401": {"description": words["401"]}}

    def _parameter(self, name: str, where: str, schema: dict[str, str], description: str) -> Schema:
        found: Schema = {"name": name, "in": where, "description": description}
        if where == "path":
            found["required"] = True
        if self._dialect is Dialect.V2:
            return {**found, **schema, "uniqueItems": True}
        return {**found, "schema": {**schema, "uniqueItems": True}}


def _path(item: tuple[str, Schema]) -> str:
    return item[0]


def _those_of(verbs: Sequence[str], *wanted: str) -> list[str]:
    return [verb for verb in wanted if verb in verbs]


def _about(verb: str, kind: Kind, subresource: Subresource | None) -> str:
    words = {
        "get": "read the specified",
        "list": "list or watch objects of kind",
        "create": "create a",
        "update": "replace the specified",
        "patch": "partially update the specified",
        "delete": "delete a",
        "deletecollection": "delete collection of",
    }
    what = f"{subresource.name} of {kind.kind}" if subresource else kind.kind
    return f"{words[verb]} {what}"
