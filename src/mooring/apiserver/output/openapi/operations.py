"""Build the OpenAPI paths of resources, with their operations and parameters.

`Operations` iterates over the served kinds of a group-version. kubectl looks here for the kind of a resource
(`explain`), and for the parameters `dryRun` and `fieldValidation` of PATCH before it uses them. ``streams/`` serves
subresources that stream to nodes and containers, such as `log`, `exec` and `proxy`.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from mooring.api.base import Object
from mooring.api.kinds import GroupVersion, Kind, Subresource
from mooring.api.meta_v1 import DeleteOptions, Status
from mooring.api.scheme import Scheme
from mooring.apiserver.output.openapi.schemas import Dialect, Schema, Schemas, gvk

_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_JSON = ("application/json", "application/yaml")
_TEXT, _NUMBER, _SWITCH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_Parameters = dict[str, tuple[dict[str, str], str]]
"""The schemas and descriptions of query parameters, by name."""
_LISTING: _Parameters = {
    "allowWatchBookmarks": (_SWITCH, "Whether to send events of type BOOKMARK."),
    "continue": (_TEXT, "The continue token of the previous page."),
    "fieldSelector": (_TEXT, "Selects objects by their fields."),
    "labelSelector": (_TEXT, "Selects objects by their labels."),
    "limit": (_NUMBER, "The maximum number of items in one page."),
    "resourceVersion": (_TEXT, "The minimum version of the response, or the version after which a watch starts."),
    "resourceVersionMatch": (_TEXT, "How to apply resourceVersion: NotOlderThan or Exact."),
    "sendInitialEvents": (_SWITCH, "Whether a watch begins with the existing objects."),
    "timeoutSeconds": (_NUMBER, "The timeout of the call in seconds."),
    "watch": (_SWITCH, "Whether to stream changes instead of a list."),
}
_QUERY: _Parameters = {
    **_LISTING,
    "dryRun": (_TEXT, "All: validate and admit the request, but store nothing."),
    "fieldManager": (_TEXT, "The name of the client that makes the change, for managedFields."),
    "fieldValidation": (_TEXT, "What happens to unknown and duplicate fields: Ignore, Warn or Strict."),
    "force": (_SWITCH, "Whether server-side apply takes fields over from other managers."),
    "gracePeriodSeconds": (_NUMBER, "The grace period in seconds; zero deletes the object immediately."),
    "orphanDependents": (_SWITCH, "Use propagationPolicy instead."),
    "pretty": (_TEXT, "Whether to indent the response."),
    "propagationPolicy": (_TEXT, "What happens to dependents: Orphan, Background or Foreground."),
}
_CONTAINER = (_TEXT, "The container, if the pod has several.")
_STANDARD_STREAMS = {
    "container": _CONTAINER,
    "stderr": (_SWITCH, "Whether to stream standard error."),
    "stdin": (_SWITCH, "Whether to stream standard input."),
    "stdout": (_SWITCH, "Whether to stream standard output."),
    "tty": (_SWITCH, "Whether to allocate a terminal."),
}
_PROXIED = (_TEXT, "The path to request from the proxied server.")
_STREAM_QUERY: dict[str, _Parameters] = {
    "attach": _STANDARD_STREAMS,
    "exec": {"command": (_TEXT, "The command and its arguments, one value each."), **_STANDARD_STREAMS},
    "log": {
        "container": _CONTAINER,
        "follow": (_SWITCH, "Whether to wait for further lines."),
        "insecureSkipTLSVerifyBackend": (_SWITCH, "Whether to skip verifying the certificate of the kubelet."),
        "limitBytes": (_NUMBER, "The maximum number of bytes."),
        "previous": (_SWITCH, "Whether to return the log of the previous run of the container."),
        "sinceSeconds": (_NUMBER, "The maximum age of lines in seconds."),
        "sinceTime": (_TEXT, "The time from which to return lines."),
        "tailLines": (_NUMBER, "The number of last lines to return."),
        "timestamps": (_SWITCH, "Whether each line begins with its time."),
    },
    "portforward": {"ports": (_NUMBER, "The ports, if the protocol does not name them later.")},
    "proxy": {"path": _PROXIED},
}
_DELETING = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")


class _VerbDescription(NamedTuple):
    """An API verb as the document describes it: HTTP method, summary, parameters and response codes."""

    method: str
    prefix: str
    about: str
    parameters: tuple[str, ...] = ()
    codes: tuple[str, ...] = ("200",)


_VERBS = {
    "get": _VerbDescription("get", "read", "read the specified"),
    "list": _VerbDescription("get", "list", "list or watch objects of kind", (*_LISTING,)),
    "create": _VerbDescription("post", "create", "create a", _WRITING, ("200", "201", "202")),
    "update": _VerbDescription("put", "replace", "replace the specified", _WRITING, ("200", "201")),
    "patch": _VerbDescription("patch", "patch", "partially update the specified", (*_WRITING, "force"), ("200", "201")),
    "delete": _VerbDescription("delete", "delete", "delete a", _DELETING),
    "deletecollection": _VerbDescription("delete", "deleteCollection", "delete collection of", (*_DELETING, *_LISTING)),
}
_WORDS = {"200": "OK", "201": "Created", "202": "Accepted"}


class Operations:
    """Builds the paths of an OpenAPI document, and adds the schemas that they use to it."""

    def __init__(self, scheme: Scheme, schemas: Schemas, dialect: Dialect) -> None:
        self._scheme = scheme
        self._schemas = schemas
        self._dialect = dialect

    def build_paths(self, where: GroupVersion) -> dict[str, Schema]:
        """Return the paths of a group and version by URL, each with its operations."""
        root = f"/apis/{where.group}/{where.version}" if where.group else f"/api/{where.version}"
        kinds = self._scheme.resources(*where)
        return dict(
            sorted((found for kind in kinds for found in self._build_paths_of_kind(root, kind)), key=itemgetter(0))
        )

    def _build_paths_of_kind(self, root: str, kind: Kind) -> Iterator[tuple[str, Schema]]:
        collection = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        if verbs := _supported_verbs(kind.verbs, "list", "create", "deletecollection"):
            yield collection, self._build_path_item(kind, verbs)
        if kind.namespaced and "list" in kind.verbs:
            yield f"{root}/{kind.plural}", self._build_path_item(kind, ["list"], everywhere=True)
        if verbs := _supported_verbs(kind.verbs, "get", "update", "patch", "delete"):
            yield f"{collection}/{{name}}", self._build_path_item(kind, verbs, named=True)
        for each in kind.subresources:
            path = f"{collection}/{{name}}/{each.name}"
            if each.streams:
                yield from self._build_stream_paths(kind, each, path)
            else:
                verbs = _supported_verbs(each.verbs, "get", "create", "update", "patch")
                yield path, self._build_path_item(kind, verbs, subresource=each, named=True)

    def _build_path_item(
        self,
        kind: Kind,
        verbs: list[str],
        *,
        subresource: Subresource | None = None,
        named: bool = False,
        everywhere: bool = False,
    ) -> Schema:
        operations = {_VERBS[verb].method: self._build_operation(kind, verb, subresource, everywhere) for verb in verbs}
        places = self._build_path_parameters(kind, named=named, everywhere=everywhere)
        pretty = self._build_parameter("pretty", "query", *_QUERY["pretty"])
        return {**operations, "parameters": [*places, pretty]}

    def _build_path_parameters(self, kind: Kind, *, named: bool = True, everywhere: bool = False) -> list[Schema]:
        name = self._build_parameter("name", "path", _TEXT, f"The name of the {kind.kind}.")
        namespace = self._build_parameter("namespace", "path", _TEXT, "The namespace of the object.")
        return [*([name] if named else ()), *([namespace] if kind.namespaced and not everywhere else ())]

    def _build_stream_paths(self, kind: Kind, subresource: Subresource, path: str) -> Iterator[tuple[str, Schema]]:
        places = self._build_path_parameters(kind)
        query = [
            self._build_parameter(name, "query", *about) for name, about in _STREAM_QUERY[subresource.name].items()
        ]
        yield path, {**self._build_connect_operations(kind, subresource), "parameters": [*places, *query]}
        if subresource.name == "proxy":
            operations = self._build_connect_operations(kind, subresource, "WithPath")
            rest = self._build_parameter("path", "path", *_PROXIED)
            yield f"{path}/{{path}}", {**operations, "parameters": [*places, rest]}

    def _build_connect_operations(self, kind: Kind, subresource: Subresource, suffix: str = "") -> Schema:
        """Return, by HTTP method, the operations of a subresource such as exec or proxy."""
        is_log = subresource.name == "log"
        media_types = ("text/plain",) if is_log else ("*/*",)
        scope = "Namespaced" if kind.namespaced else ""
        item: Schema = {}
        for method in (_VERBS[verb].method for verb in subresource.verbs):
            begin = "readCoreV1" if is_log else f"connectCoreV1{method.capitalize()}"
            answer = {"description": "OK", **self._build_content(_TEXT, media_types)}
            item[method] = {
                "description": f"connect {method.upper()} requests to {subresource.name} of {kind.kind}",
                "operationId": f"{begin}{scope}{kind.kind}{subresource.name.capitalize()}{suffix}",
                "tags": ["core_v1"],
                "responses": {"200": answer, "401": {"description": "Unauthorized"}},
                "x-kubernetes-action": "get" if is_log else "connect",
                "x-kubernetes-group-version-kind": gvk(kind.group_version, subresource.kind or kind.kind),
            }
            if self._dialect is Dialect.V2:
                item[method] |= {"consumes": ["*/*"], "produces": [*media_types]}
        return item

    def _build_operation(self, kind: Kind, verb: str, subresource: Subresource | None, everywhere: bool) -> Schema:
        shown, where = self._find_body_type(kind, subresource)
        name = subresource.kind or kind.kind if subresource else kind.kind
        scope = "Namespaced" if kind.namespaced and not everywhere else ""
        suffix = (subresource.name.capitalize() if subresource else "") + ("ForAllNamespaces" if everywhere else "")
        group = "".join(part.capitalize() for part in kind.group.removesuffix(".k8s.io").split(".")) or "Core"
        operation: Schema = {
            "description": f"{_VERBS[verb].about} {f'{subresource.name} of ' if subresource else ''}{kind.kind}",
            "operationId": f"{_VERBS[verb].prefix}{group}{kind.version.capitalize()}{scope}{kind.kind}{suffix}",
            "tags": [f"{group[0].lower()}{group[1:]}_{kind.version}"],
            "parameters": [self._build_parameter(name, "query", *_QUERY[name]) for name in _VERBS[verb].parameters],
            "x-kubernetes-action": _VERBS[verb].method if verb in {"create", "update"} else verb,
            "x-kubernetes-group-version-kind": gvk(where, name),
        }
        self._add_body(operation, verb, shown, where, kind)
        if verb in {"delete", "deletecollection"}:
            answer = self._schemas.reference_type(Status, where)
        else:
            answer = self._reference_shown(kind, shown, where, is_list=verb == "list")
        self._add_responses(operation, verb, answer)
        return operation

    def _reference_shown(self, kind: Kind, shown: type[Object], where: GroupVersion, *, is_list: bool) -> Schema:
        if shown is kind.type and kind.custom:
            return self._schemas.reference_custom_kind(kind, is_list=is_list)
        return self._schemas.reference_type(kind.list_type if is_list and kind.list_type else shown, where)

    def _find_body_type(self, kind: Kind, subresource: Subresource | None) -> tuple[type[Object], GroupVersion]:
        """Return the type that a path's requests and responses have, and its group and version."""
        if subresource and subresource.kind:
            where = subresource.group_version or kind.group_version
            other = self._scheme.kind(where.api_version, subresource.kind)
            if other:
                return other.type, where
        return kind.type, kind.group_version

    def _add_body(self, operation: Schema, verb: str, shown: type[Object], where: GroupVersion, kind: Kind) -> None:
        media_types: Sequence[str] = _JSON
        if verb in {"create", "update"}:
            schema = self._reference_shown(kind, shown, where, is_list=False)
        elif verb == "patch":
            schema, media_types = self._schemas.reference_patch(), _PATCHES[:3] if kind.custom else _PATCHES
        elif verb in {"delete", "deletecollection"}:
            schema = self._schemas.reference_type(DeleteOptions, where)
        else:
            return
        required = verb in {"create", "update", "patch"}
        if self._dialect is Dialect.V2:
            operation["consumes"] = [*media_types]
            body: Schema = {"in": "body", "name": "body", "schema": schema}
            operation["parameters"].append({**body, "required": True} if required else body)
        else:
            content = self._build_content(schema, media_types)
            operation["requestBody"] = {**content, "required": True} if required else content

    def _add_responses(self, operation: Schema, verb: str, schema: Schema) -> None:
        if self._dialect is Dialect.V2:
            operation["produces"] = [*_JSON]
        content = self._build_content(schema, _JSON)
        answers = {code: {"description": _WORDS[code], **content} for code in _VERBS[verb].codes}
        operation["responses"] = {**answers, "401": {"description": "Unauthorized"}}

    def _build_content(self, schema: Schema, media_types: Sequence[str]) -> Schema:
        """Return the schema of a body; version 2 names the media types elsewhere."""
        if self._dialect is Dialect.V2:
            return {"schema": schema}
        return {"content": {media_type: {"schema": schema} for media_type in media_types}}

    def _build_parameter(self, name: str, where: str, schema: dict[str, str], description: str) -> Schema:
        found: Schema = {"name": name, "in": where, "description": description}
        if where == "path":
            found["required"] = True
        if self._dialect is Dialect.V2:
            return {**found, **schema, "uniqueItems": True}
        return {**found, "schema": {**schema, "uniqueItems": True}}


def _supported_verbs(verbs: Sequence[str], *wanted: str) -> list[str]:
    return [verb for verb in wanted if verb in verbs]
