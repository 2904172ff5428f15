"""Paths to fields as definitions write them (`.spec.color`, `.labels['app']`), looked up in a schema.

Used for selectable fields and for `fieldPath` of rules, also by ``mooring.admission.custom.rules``.
"""

import re
from collections.abc import Iterator

from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.field_path import Path

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+|'", re.DOTALL)


class FieldPathError(ValueError):
    """Raised for a field path that is malformed or leads to no field of the schema; the message says why."""


def find_schema_at_path(
    text: str, schema: JSONSchemaProps, *, arrays: bool = True
) -> tuple[str, JSONSchemaProps | None]:
    """Follow a path such as `.spec.color`; return its formatted path and its schema. Raise FieldPathError."""
    path: Path | None = None
    found: JSONSchemaProps | None = schema
    for step in split_field_path(text, arrays=arrays):
        if found is None:
            raise FieldPathError("does not refer to a valid field")
        if found.properties:
            if step not in found.properties:
                raise FieldPathError("does not refer to a valid field")
            path = path.child(step) if path else Path(step)
            found = found.properties[step]
        elif found.additional_properties is not None:
            more = found.additional_properties
            path = path.key(step) if path else Path(f"[{step}]")
            found = more if isinstance(more, JSONSchemaProps) else None
        else:
            raise FieldPathError("does not refer to a valid field")
    return str(path) if path else "", found


def split_field_path(text: str, *, arrays: bool = True) -> list[str]:
    """Split a path such as `.spec['color']` into field names. Raise FieldPathError if it is malformed."""
    tokens = iter(_TOKEN.findall(text))
    steps = []
    for part in tokens:
        if part == ".":
            steps.append(_next_token(tokens))
        elif part == "[":
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            quoted = _next_token(tokens)
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {quoted}")
            steps.append(quoted[1:-1].replace("\\'", "'"))
            closing = _next_token(tokens)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
    return steps


def _next_token(tokens: Iterator[str]) -> str:
    part = next(tokens, None)
    if part is None:
        raise FieldPathError("unexpected end of JSON path")
    return part
