"""Encode the OpenAPI v2 document as protobuf, the only form of it that kubectl requests.

kubectl falls back to it for kinds that no v3 document has, and `kubectl explain --output=plaintext-openapiv2` reads it.
Both read definitions only, so the message has no paths; JSON has them. Field numbers are those of gnostic's
`OpenAPIv2.proto`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.protobuf_encoding import field, varint

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_INTEGERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode an OpenAPI v2 document as protobuf."""
    info = _encode_string(1, document["info"]["title"]) + _encode_string(2, document["info"]["version"])
    return (
        _encode_string(1, document["swagger"])
        + field(2, info)
        + field(9, _encode_named_schemas(document["definitions"]))
    )


def _encode_named_schemas(schemas: Mapping[str, Any]) -> bytes:
    return b"".join(
        field(1, _encode_string(1, name) + field(2, _encode_schema(schema))) for name, schema in schemas.items()
    )


def _encode_schema(schema: Mapping[str, Any]) -> bytes:
    return b"".join(part for name, value in schema.items() for part in _encode_keyword(name, value))


def _encode_keyword(name: str, value: Any) -> Iterable[bytes]:
    """Yield the protobuf fields that encode one keyword of a schema; raise ValueError for an unknown keyword."""
    if name in _STRINGS:
        yield _encode_string(_STRINGS[name], value)
    elif name in _INTEGERS:
        yield _encode_number(_INTEGERS[name], value)
    elif name == "default":
        yield field(5, _encode_any(value))
    elif name == "required":
        yield from (_encode_string(19, each) for each in value)
    elif name == "enum":
        yield from (field(20, _encode_any(each)) for each in value)
    elif name == "additionalProperties":
        yield field(21, _encode_number(2, value) if isinstance(value, bool) else field(1, _encode_schema(value)))
    elif name == "type":
        yield field(22, b"".join(_encode_string(1, each) for each in ([value] if isinstance(value, str) else value)))
    elif name == "items":
        yield field(23, field(1, _encode_schema(value)))
    elif name == "allOf":
        yield from (field(24, _encode_schema(each)) for each in value)
    elif name == "properties":
        yield field(25, _encode_named_schemas(value))
    elif name.startswith("x-"):
        yield field(31, _encode_string(1, name) + field(2, _encode_any(value)))
    else:
        raise ValueError(f"a schema has {name}, for which there is no number here")


def _encode_any(value: Any) -> bytes:
    """Encode any value as YAML (of which JSON is a subset) in a protobuf message."""
    return _encode_string(2, json.dumps(value, separators=(",", ":")))


def _encode_string(number: int, text: str) -> bytes:
    return field(number, text.encode())


def _encode_number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)
