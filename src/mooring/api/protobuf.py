"""Decode Kubernetes' protobuf encoding, which typed Go clients send: `kubectl create`, `kubectl auth can-i`…

A message has field numbers instead of names. ``protobuf_table.py`` maps them, and a message becomes the same tree as
JSON (which ``from_tree.py`` converts). Types that are not in the table are not supported; an unknown number is an
unknown field, which may be tolerated, except in a constraint. Called through ``codec.decode_protobuf``;
``protobuf_encoding.py`` encodes.
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from mooring.api import times
from mooring.api.json_tree import DecodeError, Elements, check_elements, check_limits, parse_json
from mooring.api.protobuf_table import Field, Message, Time, is_struct, message_of, strip_annotation
from mooring.api.quantity import Quantity

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CUT_OFF = "the message is cut off"

Value = int | bytes
Reader = Callable[[Value], Any]
"""Convert a wire value (a number or bytes) to its JSON value."""


class Envelope(NamedTuple):
    """The type and body of an encoded object."""

    api_version: str
    kind: str
    message: bytes


def envelope(body: bytes) -> Envelope:
    """Unwrap the envelope of an object; raise DecodeError."""
    if not body.startswith(MAGIC):
        raise DecodeError("the provided data does not appear to be a protobuf message, expected prefix 'k8s\\x00'")
    parts = dict(_fields(body[len(MAGIC) :]))
    meta = dict(_fields(_as_bytes(parts.get(1, b""))))
    if parts.get(3, b""):
        raise DecodeError("messages with a content encoding are not read")
    return Envelope(_text(meta.get(1, b"")), _text(meta.get(2, b"")), _as_bytes(parts.get(2, b"")))


def identity_of(body: bytes) -> tuple[str, str]:
    """Return name and uid of an object in its envelope; raise DecodeError."""
    metadata = dict(_fields(_as_bytes(dict(_fields(envelope(body).message)).get(1, b""))))
    return _text(metadata.get(1, b"")), _text(metadata.get(5, b""))


def decode_message(message: bytes, cls: type[msgspec.Struct]) -> dict[str, Any]:
    """Decode a message of a type into a tree; raise DecodeError or Unsupported."""
    try:
        return _message(message, _layout(cls))
    except RecursionError:
        raise DecodeError("nested too deeply") from None


@contextmanager
def limit_elements(most: Elements) -> Iterator[None]:
    """Raise TooLargeError when the messages decoded inside exceed the limits."""
    token = _COUNTED.set(_ElementCounter(most))
    try:
        yield
    finally:
        _COUNTED.reset(token)


class _ElementCounter:
    """Counts the elements of decoded messages, and raises TooLargeError beyond the limits."""

    __slots__ = ("_most", "_objects", "_values")

    def __init__(self, most: Elements) -> None:
        self._most = most
        self._objects = self._values = 0

    def add(self, objects: int, values: int) -> None:
        self._objects += objects
        self._values += values
        check_elements(self._objects, self._values, self._most)


_COUNTED: ContextVar[_ElementCounter | None] = ContextVar("elements of the message that is being read", default=None)
_COUNT_BATCH = 1024
"""Fields of a message are counted in batches of this size."""


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    position, end, fields = 0, len(message), 0
    counted = _COUNTED.get()
    while position < end:
        fields += 1
        if counted is not None and fields % _COUNT_BATCH == 0:
            counted.add(0, _COUNT_BATCH)
        key, position = _varint(message, position)
        number, form = key >> 3, key & 7
        value: Value
        if form == _VARINT:
            value, position = _varint(message, position)
        elif form in (_BYTES, _FIXED64, _FIXED32):
            size, position = _varint(message, position) if form == _BYTES else (8 if form == _FIXED64 else 4, position)
            value = message[position : position + size]
            position += size
            if position > end:
                raise DecodeError(_CUT_OFF)
        else:
            raise DecodeError(f"wire type {form} is not known")
        yield number, value
    if counted is not None:
        counted.add(1, fields % _COUNT_BATCH)


def _varint(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while shift < 70:
        if position >= len(message):
            raise DecodeError(_CUT_OFF)
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (1 << 64) - 1, position
        shift += 7
    raise DecodeError("a number is too long")


class _Entry(msgspec.Struct, frozen=True):
    """A field of a type: its name and reader. Without a name, its fields are merged into the parent."""

    name: str
    read: Reader
    repeated: bool = False
    is_map: bool = False


class _Layout(msgspec.Struct, frozen=True):
    """The fields of a type by number."""

    name: str
    entries: dict[int, _Entry]
    is_constraint: bool


def _message(message: bytes, layout: _Layout) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for number, value in _fields(message):
        entry = layout.entries.get(number)
        if entry is None and layout.is_constraint:
            raise DecodeError(f"unknown field {number} in {layout.name}: a constraint is not read in part")
        if entry is None:
            tree[f"#{number}"] = None  # the next step handles it like other unknown fields
        elif not entry.name:
            tree |= entry.read(value)
        elif entry.repeated:
            tree.setdefault(entry.name, []).append(entry.read(value))
        elif entry.is_map:
            tree.setdefault(entry.name, {}).update(entry.read(value))
        else:
            tree[entry.name] = entry.read(value)
    return tree


@cache
def _layout(cls: type[msgspec.Struct]) -> _Layout:
    return _layout_of(message_of(cls))


def _layout_of(message: Message) -> _Layout:
    entries = {field.number: _entry(field) for field in message.fields}
    return _Layout(message.name, entries, message.is_constraint)


def _entry(field: Field) -> _Entry:
    if field.embedded is not None:
        inner = _layout_of(field.embedded)
        return _Entry("", lambda value: _message(_as_bytes(value), inner))
    if not field.attribute:
        return _Entry(field.name, lambda _: None)  # a field missing in Mooring's types: reported as unknown
    base = strip_annotation(field.annotation)
    arguments = get_args(base)
    if field.time is not Time.NO:
        read = _read_micro_time if field.time is Time.MICROSECONDS else _read_time
        is_map = get_origin(base) is dict
        return _Entry(field.name, _map_of(read) if is_map else read, is_map=is_map)
    if get_origin(base) is list and not field.is_wrapped:
        return _Entry(field.name, _reader(arguments[0]), repeated=True)
    if get_origin(base) is dict and arguments[1] is not Any:
        absent = 0 if strip_annotation(arguments[1]) in (int, bool) else b""
        return _Entry(field.name, _map_of(_reader(arguments[1]), absent), is_map=True)
    return _Entry(field.name, _reader(base))


def _reader(annotation: Any) -> Reader:
    base = strip_annotation(annotation)
    if is_struct(base):
        return lambda value: _message(_as_bytes(value), _layout(base))
    if get_origin(base) in (Union, UnionType) and base != int | str:
        return _schema_reader(get_args(base))
    if get_origin(base) is list:
        item = _reader(get_args(base)[0])
        return lambda value: [item(each) for number, each in _fields(_as_bytes(value)) if number == 1]
    found = _READERS.get(base)
    return found or _read_json


def _schema_reader(options: tuple[Any, ...]) -> Reader:
    """Read a schema or its alternative: a boolean (1: boolean, 2: schema) or a list (1: schema, 2: list)."""
    schema = next(option for option in options if is_struct(option))
    allows = bool in options

    def read(value: Value) -> Any:
        parts = _fields(_as_bytes(value))
        found: dict[int, list[Value]] = {}
        for number, part in parts:
            found.setdefault(number, []).append(part)
        one = found.get(2 if allows else 1, [])
        if one:
            return _message(_as_bytes(one[-1]), _layout(schema))
        if allows:
            return bool(_number(found.get(1, [0])[-1]))
        return [_message(_as_bytes(each), _layout(schema)) for each in found.get(2, [])]

    return read


def _map_of(item: Reader, empty: Value = b"") -> Reader:
    def read(value: Value) -> dict[str, Any]:
        parts = dict(_fields(_as_bytes(value)))
        return {_text(parts.get(1, b"")): item(parts.get(2, empty))}

    return read


def _as_bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise DecodeError("there is a number where bytes are expected")
    return value


def _text(value: Value) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise DecodeError("a text is not UTF-8") from None


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise DecodeError("there are bytes where a number is expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _read_quantity(value: Value) -> str:
    return _text(dict(_fields(_as_bytes(value))).get(1, b"0"))


def _read_int_or_string(value: Value) -> int | str:
    parts = dict(_fields(_as_bytes(value)))
    return _text(parts.get(3, b"")) if parts.get(1) else _number(parts.get(2, 0))


def _read_json(value: Value) -> Any:
    raw = dict(_fields(_as_bytes(value))).get(1, b"")
    if not raw:
        return None
    check_limits(_as_bytes(raw))
    return parse_json(_as_bytes(raw))


def _instant(value: Value) -> datetime | None:
    parts = dict(_fields(_as_bytes(value)))
    if not parts:
        return None
    try:
        return _EPOCH + timedelta(seconds=_number(parts.get(1, 0)), microseconds=_number(parts.get(2, 0)) // 1000)
    except OverflowError:
        raise DecodeError("a time is out of range") from None


def _read_time(value: Value) -> str | None:
    instant = _instant(value)
    return times.to_seconds(instant) if instant else None


def _read_micro_time(value: Value) -> str | None:
    instant = _instant(value)
    return times.to_microseconds(instant) if instant else None


def _read_double(value: Value) -> int | float:
    """Decode a double; whole numbers become ints, as in Kubernetes' JSON."""
    raw = _as_bytes(value) if isinstance(value, bytes) else value.to_bytes(8, "little")
    found: float = struct.unpack("<d", raw)[0] if len(raw) == 8 else 0.0
    return int(found) if found.is_integer() else found


_READERS: dict[Any, Reader] = {
    float: _read_double,
    str: _text,
    int: _number,
    bool: lambda value: bool(_number(value)),
    bytes: lambda value: b64encode(_as_bytes(value)).decode(),
    Quantity: _read_quantity,
    int | str: _read_int_or_string,
}
