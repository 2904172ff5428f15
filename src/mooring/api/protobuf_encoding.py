"""Encode objects in Kubernetes' protobuf encoding, for Go clients, which decode it faster than JSON.

`message` encodes the JSON tree of an object, `encode` wraps it in the envelope with its kind. For every type a writer
is built once from ``protobuf_table.py``. ``protobuf.py`` decodes. Used by the API server.
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from mooring.api import times
from mooring.api.protobuf import MAGIC
from mooring.api.protobuf_table import Field, Message, Time, is_struct, message_of, strip_annotation
from mooring.api.quantity import Quantity
from mooring.base.short_string_cache import cache_short

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Part = bytes
Writer = Callable[[Any], Part]
"""Encode a value without its field number."""


def encode(api_version: str, kind: str, body: bytes) -> bytes:
    """Wrap a message in its envelope."""
    return b"".join([_beginning(api_version, kind), field(2, body), _PLAIN])


def message(tree: Mapping[str, Any], cls: type[msgspec.Struct]) -> bytes:
    """Encode a JSON tree as a message of a type; raise Unsupported for unknown types."""
    return _struct_writer(cls)(tree)


def field(number: int, value: bytes) -> bytes:
    """Encode a bytes field."""
    return b"%b%b%b" % (_tag(number, _BYTES), varint(len(value)), value)


def varint(number: int) -> bytes:
    """Encode a number as a varint: seven bits per byte, lowest first."""
    if 0 <= number < len(_SHORT):
        return _SHORT[number]
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_PLAIN = b"\x1a\x00\x22\x00"
"""No content encoding and no content type."""


@lru_cache(maxsize=1024)
def _beginning(api_version: str, kind: str) -> bytes:
    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode()))


_SHORT = [bytes([number]) for number in range(128)]
_SHORT += [bytes([number & 0x7F | 0x80, number >> 7]) for number in range(128, 1 << 11)]


@cache
def _tag(number: int, form: int) -> bytes:
    return varint(number << 3 | form)


Step = Callable[[Any, list[bytes]], None]
"""Append a field with a value."""


@cache
def _struct_writer(cls: type[msgspec.Struct]) -> Writer:
    return _message_writer(message_of(cls))


def _message_writer(layout: Message) -> Writer:
    steps = {each.name: _step(each) for each in layout.fields if each.attribute}
    embedded = [(_tag(each.number, _BYTES), _message_writer(each.embedded)) for each in layout.fields if each.embedded]

    def write(tree: Any) -> bytes:
        out: list[bytes] = []
        for name, value in tree.items():
            if value is not None and name in steps:
                steps[name](value, out)
        for tag, inner in embedded:  # embedded messages have their fields in the same tree
            body = inner(tree)
            if body:
                out += (tag, varint(len(body)), body)
        return b"".join(out)

    return write


def _step(found: Field) -> Step:
    base = strip_annotation(found.annotation)
    arguments = get_args(base)
    if get_origin(base) is list and not found.is_wrapped:
        return _repeated_step(_tag(found.number, _form(arguments[0])), _writer(arguments[0]))
    if get_origin(base) is dict and arguments[1] is not Any:
        return _map_step(_tag(found.number, _BYTES), arguments[1] if found.time is Time.NO else found.time)
    tag, write = _tag(found.number, _form(base)), _writer(base if found.time is Time.NO else found.time)

    def single(value: Any, out: list[bytes]) -> None:
        out.append(tag)
        out.append(write(value))

    return single


def _repeated_step(tag: bytes, write: Writer) -> Step:
    def step(value: Any, out: list[bytes]) -> None:
        for item in value:
            out.append(tag)
            out.append(write(item))

    return step


def _map_step(tag: bytes, annotation: Any) -> Step:
    write, item_tag = _writer(annotation), _tag(2, _form(annotation))

    def step(value: Any, out: list[bytes]) -> None:
        for key, item in value.items():
            body = _KEY + _text(key) + (b"" if item is None else item_tag + write(item))
            out += (tag, varint(len(body)), body)

    return step


_KEY = _tag(1, _BYTES)


def _form(annotation: Any) -> int:
    base = strip_annotation(annotation)
    if base in (int, bool):
        return _VARINT
    return _FIXED64 if base is float else _BYTES


def _writer(annotation: Any) -> Writer:
    if isinstance(annotation, Time):
        return _instant
    base = strip_annotation(annotation)
    if is_struct(base):
        return _nested_writer(base)
    if get_origin(base) in (Union, UnionType) and base != int | str:
        return _schema_writer(get_args(base))
    if get_origin(base) is list:
        return _list_message(get_args(base)[0])
    return _WRITERS.get(base, _write_json)


def _nested_writer(cls: type[msgspec.Struct]) -> Writer:
    def write(value: Any) -> bytes:
        body = _struct_writer(cls)(value)  # looked up lazily: types may contain themselves
        return varint(len(body)) + body

    return write


def _list_message(annotation: Any) -> Writer:
    tag, item = _tag(1, _form(annotation)), _writer(annotation)
    return lambda value: _length_prefixed(tag + item(each) for each in value)


def _schema_writer(options: tuple[Any, ...]) -> Writer:
    """Encode a schema or its alternative: a boolean (1: boolean, 2: schema) or a list (1: schema, 2: list)."""
    schema = _nested_writer(next(option for option in options if is_struct(option)))
    place = _tag(2 if bool in options else 1, _BYTES)

    def write(value: Any) -> bytes:
        if isinstance(value, bool):
            return _length_prefixed([_tag(1, _VARINT) + varint(value)])
        if isinstance(value, list):
            return _length_prefixed(_tag(2, _BYTES) + schema(each) for each in value)
        allowed = [_tag(1, _VARINT) + varint(1)] if bool in options else []
        return _length_prefixed([*allowed, place + schema(value)])

    return write


def _length_prefixed(parts: Iterable[bytes]) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body


def _text(value: str) -> bytes:
    data = value.encode()
    size = len(data)
    return (_SHORT[size] if size < len(_SHORT) else varint(size)) + data


def _write_quantity(value: str) -> bytes:
    return _length_prefixed([_KEY, _text(str(value))])


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return _length_prefixed([b"\x08\x00\x10", varint(value)])
    return _length_prefixed([b"\x08\x01\x1a", _text(value)])


def _write_json(value: Any) -> bytes:
    data = msgspec.json.encode(value)
    return _length_prefixed([_KEY, varint(len(data)), data])


@cache_short(4096)
def _instant(text: str) -> bytes:
    try:
        passed = times.parse(text) - _EPOCH
    except times.TimeError:
        return _length_prefixed([])
    seconds, rest = divmod(passed, timedelta(seconds=1))
    nanos = b"\x10" + varint(rest.microseconds * 1000) if rest else b""
    return _length_prefixed([b"\x08", varint(seconds), nanos])


def _write_bytes(value: str) -> bytes:
    data = b64decode(value)
    return varint(len(data)) + data


_WRITERS: dict[Any, Writer] = {
    str: _text,
    int: varint,
    bool: varint,
    float: lambda value: struct.pack("<d", value),
    bytes: _write_bytes,
    Quantity: _write_quantity,
    int | str: _write_int_or_string,
}
