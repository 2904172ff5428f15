"""OpenAPI paths of subresources that stream from nodes and containers, such as `log`, `exec` and `proxy`.

``operations.py`` asks for them beside the other subresources; ``streams/`` answers the requests.
"""

from collections.abc import Callable, Iterator

from mooring.api.kinds import Kind, Subresource
from mooring.apiserver.output.openapi.schemas import Dialect, Schema, gvk

Parameter = Callable[[str, str, dict[str, str], str], Schema]
_METHODS = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_TEXT, _NUMBER, _SWITCH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_CONTAINER = (_TEXT, "The container, where the pod has several.")
_STANDARD_STREAMS = {
    "container": _CONTAINER,
    "stderr": (_SWITCH, "Whether standard error is wanted."),
    "stdin": (_SWITCH, "Whether standard input will come."),
    "stdout": (_SWITCH, "Whether standard output is wanted."),
    "tty": (_SWITCH, "Whether there is a terminal in between."),
}
_QUERY: dict[str, dict[str, tuple[dict[str, str], str]]] = {
    "attach": _STANDARD_STREAMS,
    "exec": {"command": (_TEXT, "The command and its arguments, one value each."), **_STANDARD_STREAMS},
    "log": {
        "container": _CONTAINER,
        "follow": (_SWITCH, "Whether to wait for further lines."),
        "insecureSkipTLSVerifyBackend": (_SWITCH, "Whether any certificate of the kubelet will do."),
        "limitBytes": (_NUMBER, "End after so many bytes."),
        "previous": (_SWITCH, "The run before the present one."),
        "sinceSeconds": (_NUMBER, "Only lines that are at most so old."),
        "sinceTime": (_TEXT, "Only lines from this time on."),
        "tailLines": (_NUMBER, "Only so many lines at the end."),
        "timestamps": (_SWITCH, "Whether each line begins with its time."),
    },
    "portforward": {"ports": (_NUMBER, "The ports, where the protocol does not name them later.")},
    "proxy": {"path": (_TEXT, "What to ask the server behind the proxy for.")},
}


def connections(
    kind: Kind, subresource: Subresource, path: str, dialect: Dialect, parameter: Parameter
) -> Iterator[tuple[str, Schema]]:
    """Yield the paths of a subresource that streams."""
    shared = [parameter("name", "path", _TEXT, f"The name of the {kind.kind}.")]
    if kind.namespaced:
        shared.append(parameter("namespace", "path", _TEXT, "The namespace of the object."))
    query = [parameter(name, "query", *about) for name, about in _QUERY[subresource.name].items()]
    yield path, _item(kind, subresource, [*shared, *query], dialect)
    if subresource.name == "proxy":
        behind = parameter("path", "path", _TEXT, "What to ask the server behind the proxy for.")
        yield f"{path}/{{path}}", _item(kind, subresource, [*shared, behind], dialect, "WithPath")


def _item(kind: Kind, subresource: Subresource, parameters: list[Schema], dialect: Dialect, suffix: str = "") -> Schema:
    item: Schema = {}
    scope = "Namespaced" if kind.namespaced else ""
    where = f"{scope}{kind.kind}{subresource.name.capitalize()}{suffix}"
    for verb in subresource.verbs:
        method = _METHODS[verb]
        is_log = subresource.name == "log"
        begin = "readCoreV1" if is_log else f"connectCoreV1{method.capitalize()}"
        item[method] = {
            "description": f"connect {method.upper()} requests to {subresource.name} of {kind.kind}",
            "operationId": f"{begin}{where}",
            "tags": ["core_v1"],
            "responses": _responses("text/plain" if is_log else "*/*", dialect),
            "x-kubernetes-action": "get" if is_log else "connect",
            "x-kubernetes-group-version-kind": gvk(kind.group_version, subresource.kind or kind.kind),
        }
        if dialect is Dialect.V2:
            item[method] |= {"consumes": ["*/*"], "produces": ["text/plain" if is_log else "*/*"]}
    return {**item, "parameters": parameters}


def _responses(media_type: str, dialect: Dialect) -> Schema:
    body: Schema = {"schema": _TEXT} if dialect is Dialect.V2 else {"content": {media_type: {"schema": _TEXT}}}
    return {"200": {"description": "OK", **body}, "401": {"description": "Unauthorized"}}
