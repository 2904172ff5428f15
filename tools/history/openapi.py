"""Reads facts out of the OpenAPI and discovery files that Kubernetes publishes with every release."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.history.releases import Release

_REF = "#/components/schemas/"
_PATH = re.compile(r"^/(?:api|apis/([^/]+))/([^/]+)/(namespaces/\{namespace\}/)?([a-z]+)(?:/\{name\}(?:/([a-z]+))?)?$")
_VERBS = {"list": "list", "post": "create", "get": "get", "put": "update", "patch": "patch", "delete": "delete"}


@dataclass
class Resource:
    """A resource of a group and version in one release."""

    kind: str
    namespaced: bool = False
    verbs: set[str] = field(default_factory=set)
    subresources: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Property:
    """A field of a definition."""

    type: str
    """`string`, `Affinity`, `[]Container`, `{}Quantity`."""
    default: str = ""
    deprecated: bool = False


@dataclass
class Surface:
    """The API of one release: resources by group, version and plural; definitions; the storage version's hashes."""

    resources: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    definitions: dict[str, dict[str, Property]] = field(default_factory=dict)
    kinds: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The definition of a kind, by group, version and kind."""
    hashes: dict[tuple[str, str, str], str] = field(default_factory=dict)


def surface(release: Release) -> Surface:
    """All that a release has, switched off by default or not."""
    found = Surface()
    for _, text in release.files(lambda each: each.startswith("api/openapi-spec/v3/") and each.endswith(".json")):
        document = json.loads(text)
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            found.definitions.setdefault(short(name), dict(_properties(schema)))
            for gvk in schema.get("x-kubernetes-group-version-kind", []):
                if f".{gvk['version']}.{gvk['kind']}" in name and ".meta." not in name:
                    found.kinds[gvk["group"], gvk["version"], gvk["kind"]] = short(name)
        _paths(document.get("paths", {}), found)
    for path, text in release.files(lambda each: re.match(r"api/discovery/api(s__.+)?__v\w+\.json", each) is not None):
        group, version = path.removeprefix("api/discovery/api").removesuffix(".json").rpartition("__")[::2]
        for each in json.loads(text).get("resources", []):
            key = (group.removeprefix("s__"), version, each["name"])
            if each.get("storageVersionHash"):
                found.hashes[key] = each["storageVersionHash"]
    return found


def _properties(schema: dict[str, Any]) -> Iterator[tuple[str, Property]]:
    for name, each in schema.get("properties", {}).items():
        default = each.get("default")
        about = each.get("description", "")
        yield (
            name,
            Property(
                _type(each),
                json.dumps(default) if isinstance(default, str | int | bool) and default != "" else "",
                bool(
                    re.match(r"(?:\W*deprecated\b)", about, re.IGNORECASE)
                    or re.search(r"\bDEPRECATED\b|\bDeprecated[:.]", about)
                ),
            ),
        )


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return short(schema["$ref"].removeprefix(_REF))
    for each in schema.get("allOf", []):
        return _type(each)
    kind = schema.get("type", "any")
    if kind == "array":
        return f"[]{_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{{}}{_type(schema['additionalProperties'])}"
    return str(kind)


def _paths(paths: dict[str, Any], found: Surface) -> None:
    for path, operations in paths.items():
        parts = _PATH.match(path)
        if not parts or parts[4] == "watch":
            continue
        group, version, plural, sub = parts[1] or "", parts[2], parts[4], parts[5]
        for operation in operations.values():
            gvk = operation.get("x-kubernetes-group-version-kind") if isinstance(operation, dict) else None
            action = operation.get("x-kubernetes-action") if isinstance(operation, dict) else None
            if not gvk or not action:
                continue
            own = found.resources.setdefault((group, version, plural), Resource(""))
            verb = _VERBS.get(action, str(action))
            if sub:
                own.subresources.setdefault(sub, set()).add("get" if verb == "connect" else verb)
                continue
            own.kind = own.kind or gvk["kind"]
            own.namespaced = own.namespaced or bool(parts[3])
            own.verbs |= {"list", "watch"} if verb == "list" else {verb}


def short(name: str) -> str:
    """Return the name of a definition: `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`."""
    words = name.split(".")
    if words[-1] in ("IntOrString", "Quantity", "RawExtension"):
        return words[-1]
    return ".".join(words[-3:])


def storage_hash(group: str, version: str, kind: str) -> str:
    """Return the hash by which discovery names a storage version."""
    text = f"{group}/{version}/{kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
