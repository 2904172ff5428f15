"""Validate custom resources beyond their schema, as Kubernetes does: types of embedded objects, duplicates."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from mooring.admission import meta
from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.structural import Structural

_HOLDERS = (dict, list)
_ABSENT = object()


def has_matching_node(schema: Structural, predicate: Callable[[Structural], bool]) -> bool:
    """Return whether a predicate holds for any node of a structural schema."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if predicate(node):
            return True
        pending += node.children()
    return False


def validate_embedded_objects(value: Any, schema: Structural, path: Path | None = None) -> Errors:
    """Return errors in apiVersion, kind and metadata of objects in a value that the schema declares as embedded."""
    errors: Errors = []
    if isinstance(value, dict):
        if schema.props.embedded_resource and path is not None:
            errors += _validate_embedded_object(value, path)
        for name, child, item in _iterate_fields_with_schemas(value, schema):
            errors += validate_embedded_objects(item, child, build_child_path(path, name, schema))
    elif isinstance(value, list) and schema.items is not None and path is not None:
        for index, item in enumerate(value):
            errors += validate_embedded_objects(item, schema.items, path.index(index))
    return errors


def _validate_embedded_object(value: dict[str, Any], path: Path) -> Errors:
    errors = [field_errors.required(path.child(name)) for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        text = value.get(name, _ABSENT)
        if text is _ABSENT:
            continue
        if not isinstance(text, str):
            errors.append(field_errors.invalid(path.child(name), text, "must be a string"))
        elif not text:
            errors.append(field_errors.invalid(path.child(name), text, "must not be empty"))
        elif name == "kind" and (wrong := names.dns1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            errors.append(field_errors.invalid(path.child(name), text, detail))
        elif name == "apiVersion" and text.count("/") > 1:
            errors.append(field_errors.invalid(path.child(name), text, f"unexpected GroupVersion string: {text}"))
    if "metadata" in value:
        errors += _validate_embedded_metadata(value["metadata"], path.child("metadata"))
    return errors


def _validate_embedded_metadata(value: Any, path: Path) -> Errors:
    try:
        metadata, _ = from_tree(value, ObjectMeta, FieldValidation.IGNORE)
    except DecodeError as error:
        return [field_errors.invalid(path, value, str(error))]
    metadata.name = metadata.name or "fakename"  # an embedded object need not have one
    namespaced = bool(metadata.namespace)
    return meta.validate_object_meta(metadata, namespaced=namespaced, name_check=names.path_segment_name, path=path)


def validate_list_types(value: Any, schema: Structural, path: Path | None = None) -> Errors:
    """Return errors for duplicate items in a value's lists of the list types `set` and `map`, at any depth."""
    errors: Errors = []
    if isinstance(value, dict):
        for name, child, item in _iterate_fields_with_schemas(value, schema):
            if item.__class__ in _HOLDERS:
                errors += validate_list_types(item, child, build_child_path(path, name, schema))
    elif isinstance(value, list) and path is not None:
        errors += _validate_duplicates(value, schema, path)
        if schema.items is not None:
            for index, item in enumerate(value):
                if item.__class__ in _HOLDERS:
                    errors += validate_list_types(item, schema.items, path.index(index))
    return errors


def _validate_duplicates(items: list[Any], schema: Structural, path: Path) -> Errors:
    if schema.props.list_type == "set":
        shown = items
    elif schema.props.list_type == "map":
        for index, item in enumerate(items):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                return [field_errors.invalid(path.index(index), item, detail)]
        keys = schema.props.list_map_keys
        shown = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    else:
        return []
    seen: dict[str, int] = {}
    errors = []
    for index, item in enumerate(shown):
        mark = json.dumps(item, sort_keys=True)
        seen[mark] = seen.get(mark, 0) + 1
        if seen[mark] == 2:
            errors.append(field_errors.duplicate(path.index(index), item))
    return errors


def _iterate_fields_with_schemas(value: dict[str, Any], schema: Structural) -> Iterator[tuple[str, Structural, Any]]:
    for name, item in value.items():
        child = schema.properties.get(name) or schema.additional
        if child is not None:
            yield name, child, item


def build_child_path(path: Path | None, name: str, schema: Structural) -> Path:
    """Return the path to a property, or to another key, of the value at `path` (None: the object itself)."""
    if path is None:
        return Path(name)
    return path.child(name) if name in schema.properties else path.key(name)
