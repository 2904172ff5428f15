"""Build the OpenAPI schemas of custom kinds: those of their definitions, plus type and standard metadata.

OpenAPI v2 cannot express everything, and kubectl misinterprets parts of it; as in Kubernetes, these parts are left out
of v2. Called by ``schemas.py``.
"""

from typing import Any

import msgspec

from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TypeMeta
from mooring.api.openapi_docs import descriptions

Schema = dict[str, Any]
_CONDITIONS = ("allOf", "anyOf", "oneOf", "not")


def schema_name(kind: Kind, *, is_list: bool = False) -> str:
    """Return the name of a custom kind's schema in the document: `com.example.stable.v1.CronTab`."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{kind.list_kind if is_list else kind.kind}"


def build_definition(kind: Kind, metadata: Schema, *, v2: bool) -> Schema:
    """Return the OpenAPI schema of a custom kind; `metadata` refers to the schema of ObjectMeta."""
    props = kind.custom.version.schema.open_api_v3_schema if kind.custom and kind.custom.version.schema else None
    if props is None or (v2 and props.preserve_unknown_fields):
        return {"type": "object", **_group_version_kind(kind, kind.kind)}
    schema = _supported_schema(msgspec.to_builtins(props), v2=v2)
    _add_embedded_fields(schema, metadata, v2=v2)
    schema["properties"] = dict(sorted({**schema.get("properties", {}), **_type_fields(metadata)}.items()))
    return {**schema, **_group_version_kind(kind, kind.kind), **_selectable_fields(kind, v2=v2)}


def build_list_definition(kind: Kind, item: Schema, metadata: Schema, *, v2: bool) -> Schema:
    """Return the OpenAPI schema of a custom kind's list, such as CronTabList."""
    return {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_fields(metadata),
            "items": {"description": f"List of {kind.plural}.", "type": "array", "items": item},
        },
        **_group_version_kind(kind, kind.list_kind),
        **_selectable_fields(kind, v2=v2),
    }


def _type_fields(metadata: Schema) -> Schema:
    about = descriptions(TypeMeta)
    return {
        "apiVersion": {"description": about["api_version"], "type": "string"},
        "kind": {"description": about["kind"], "type": "string"},
        "metadata": metadata,
    }


def _group_version_kind(kind: Kind, name: str) -> Schema:
    return {"x-kubernetes-group-version-kind": [{"group": kind.group, "kind": name, "version": kind.version}]}


def _selectable_fields(kind: Kind, *, v2: bool) -> Schema:
    fields = kind.custom.version.selectable_fields if kind.custom else []
    if v2 or not fields:
        return {}
    return {"x-kubernetes-selectable-fields": [{"fieldPath": each.json_path.removeprefix(".")} for each in fields]}


def _supported_schema(schema: Schema, *, v2: bool) -> Schema:
    """Return a schema without keywords that OpenAPI v2 (or v3) does not have, in all its parts."""
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            schema[name] = _supported_schema(schema[name], v2=v2)
    nullable = [name for name, child in schema.get("properties", {}).items() if child.get("nullable")]
    if "properties" in schema:
        schema["properties"] = {name: _supported_schema(child, v2=v2) for name, child in schema["properties"].items()}
    if not v2:
        return schema
    for name in _CONDITIONS:
        schema.pop(name, None)
    if schema.pop("nullable", False):
        for name in ("type", "items", "properties"):
            schema.pop(name, None)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.pop("items", None)
        schema.pop("properties", None)
        if schema.get("type") == "object":
            del schema["type"]
    if schema.get("type") == "array" and "items" not in schema:
        del schema["type"]
    if nullable and "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in nullable]
    return schema


def _add_embedded_fields(schema: Schema, metadata: Schema, *, v2: bool) -> None:
    """Add `apiVersion`, `kind` and `metadata` to schemas marked as embedded objects; modifies the schema."""
    for child in [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(child, dict):
            _add_embedded_fields(child, metadata, v2=v2)
    if schema.get("x-kubernetes-preserve-unknown-fields") and v2:
        return
    if schema.get("x-kubernetes-embedded-resource"):
        schema["properties"] = {**schema.get("properties", {}), **_type_fields(metadata)}
        schema["required"] = list(dict.fromkeys([*schema.get("required", []), "kind", "apiVersion"]))
