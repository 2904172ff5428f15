"""The OpenAPI document of version 2 as a protobuf message, the only form that kubectl requests.

kubectl falls back to it for kinds that no document of version 3 has, and `kubectl explain
--output=plaintext-openapiv2` reads it. Both read definitions only, so the message has no paths; JSON has them. Field
numbers are those of gnostic's `OpenAPIv2.proto`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_INTEGERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
_VARINT, _BYTES = 0, 2


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode an OpenAPI v2 document as protobuf."""
    info = document["info"]
    return b"".join(
        (
            _text(1, document["swagger"]),
            _piece(2, _text(1, info["title"]) + _text(2, info["version"])),
            _piece(9, _named_schemas(document["definitions"])),
        )
    )


def _named_schemas(schemas: Mapping[str, Any]) -> bytes:
    return b"".join(_piece(1, _text(1, name) + _piece(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Mapping[str, Any]) -> bytes:
    return b"".join(_parts(schema))


def _parts(schema: Mapping[str, Any]) -> Iterable[bytes]:
    for name, value in schema.items():
        if name in _STRINGS:
            yield _text(_STRINGS[name], value)
        elif name in _INTEGERS:
            yield _number(_INTEGERS[name], value)
        elif name == "default":
            yield _piece(5, _any(value))
        elif name == "required":
            yield from (_text(19, field) for field in value)
        elif name == "enum":
            yield from (_piece(20, _any(each)) for each in value)
        elif name == "additionalProperties":
            yield _piece(21, _number(2, value) if isinstance(value, bool) else _piece(1, _schema(value)))
        elif name == "type":
            yield _piece(22, b"".join(_text(1, each) for each in ([value] if isinstance(value, str) else value)))
        elif name == "items":
            yield _piece(23, _piece(1, _schema(value)))
        elif name == "allOf":
            yield from (_piece(24, _schema(each)) for each in value)
        elif name == "properties":
            yield _piece(25, _named_schemas(value))
        elif name.startswith("x-"):
            yield _piece(31, _text(1, name) + _piece(2, _any(value)))
        else:
            raise ValueError(f"a schema has {name}, for which there is no number here")


def _any(value: Any) -> bytes:
    """Encode any value as YAML (of which JSON is a subset) in a protobuf message."""
    return _text(2, json.dumps(value, separators=(",", ":")))


def _text(field: int, text: str) -> bytes:
    return _piece(field, text.encode())


def _piece(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Encode an integer as a protobuf varint: seven bits a byte, the lowest first.

    >>> _varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
