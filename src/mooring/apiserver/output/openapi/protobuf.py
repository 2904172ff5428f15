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


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode an OpenAPI v2 document as protobuf."""
    info = _string(1, document["info"]["title"]) + _string(2, document["info"]["version"])
    return _string(1, document["swagger"]) + field(2, info) + field(9, _named_schemas(document["definitions"]))


def _named_schemas(schemas: Mapping[str, Any]) -> bytes:
    return b"".join(field(1, _string(1, name) + field(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Mapping[str, Any]) -> bytes:
    return b"".join(part for name, value in schema.items() for part in _keyword(name, value))


def _keyword(name: str, value: Any) -> Iterable[bytes]:
    """Yield the protobuf fields that encode one keyword of a schema; raise ValueError for an unknown keyword."""
    if name in _STRINGS:
        yield _string(_STRINGS[name], value)
    elif name in _INTEGERS:
        yield _number(_INTEGERS[name], value)
    elif name == "default":
        yield field(5, _any(value))
    elif name == "required":
        yield from (_string(19, each) for each in value)
    elif name == "enum":
        yield from (field(20, _any(each)) for each in value)
    elif name == "additionalProperties":
        yield field(21, _number(2, value) if isinstance(value, bool) else field(1, _schema(value)))
    elif name == "type":
        yield field(22, b"".join(_string(1, each) for each in ([value] if isinstance(value, str) else value)))
    elif name == "items":
        yield field(23, field(1, _schema(value)))
    elif name == "allOf":
        yield from (field(24, _schema(each)) for each in value)
    elif name == "properties":
        yield field(25, _named_schemas(value))
    elif name.startswith("x-"):
        yield field(31, _string(1, name) + field(2, _any(value)))
    else:
        raise ValueError(f"a schema has {name}, for which there is no number here")


def _any(value: Any) -> bytes:
    """Encode any value as YAML (of which JSON is a subset) in a protobuf message."""
    return _string(2, json.dumps(value, separators=(",", ":")))


def _string(number: int, text: str) -> bytes:
    return field(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)
