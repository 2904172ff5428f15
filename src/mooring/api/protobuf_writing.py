"""Objects in Kubernetes' protobuf encoding, for Go clients, which decode it faster than JSON.

`encode` puts a message into the envelope that names its kind, `message` makes it of the tree that JSON stands for. For
every type a function is put together once, from the numbers of ``protobuf_table.py``; it looks at what the tree has,
and nothing else. ``protobuf.py`` is the other way. Called by the API server.
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
from mooring.api.protobuf_table import Field, Message, Time, bare, is_struct, message_of
from mooring.api.quantity import Quantity
from mooring.base.remembering import remembered

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Part = bytes
Writer = Callable[[Any], Part]
"""Makes the bytes of a value that stands for itself, without the number of its field."""


def encode(api_version: str, kind: str, body: bytes) -> bytes:
    """A message in its envelope."""
    return b"".join([_beginning(api_version, kind), field(2, body), _PLAIN])


def message(tree: Mapping[str, Any], cls: type[msgspec.Struct]) -> bytes:
    """The message of a type that a tree says, as JSON has it; raises Unsupported for types that the table lacks."""
    return _struct_writer(cls)(tree)


def field(number: int, value: bytes) -> bytes:
    """A field that holds bytes."""
    return b"%b%b%b" % (_tag(number, _BYTES), varint(len(value)), value)


def varint(number: int) -> bytes:
    """A number as it is written: seven bits a byte, the lowest first."""
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
"""The body has neither an encoding nor a type of its own."""


@lru_cache(maxsize=1024)
def _beginning(api_version: str, kind: str) -> bytes:
    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode()))


_SHORT = [bytes([number]) for number in range(128)]
_SHORT += [bytes([number & 0x7F | 0x80, number >> 7]) for number in range(128, 1 << 11)]


@cache
def _tag(number: int, form: int) -> bytes:
    return varint(number << 3 | form)


# -- types

Step = Callable[[Any, list[bytes]], None]
"""Appends a field with a value."""


@cache
def _struct_writer(cls: type[msgspec.Struct]) -> Writer:
    return _message_writer(message_of(cls))


def _message_writer(layout: Message) -> Writer:
    """Writes the tree of a message: what stands in it, and nothing else is looked at."""
    steps = {each.name: _step(each) for each in layout.fields if each.attribute}
    embedded = [(_tag(each.number, _BYTES), _message_writer(each.embedded)) for each in layout.fields if each.embedded]

    def write(tree: Any) -> bytes:
        out: list[bytes] = []
        for name, value in tree.items():
            if value is not None and name in steps:
                steps[name](value, out)
        for tag, inner in embedded:  # what Go embeds has its fields in the same tree
            body = inner(tree)
            if body:
                out += (tag, varint(len(body)), body)
        return b"".join(out)

    return write


def _step(found: Field) -> Step:
    base = bare(found.annotation)
    arguments = get_args(base)
    if get_origin(base) is list and not found.is_wrapped:
        return _repeated(_tag(found.number, _form(arguments[0])), _writer(arguments[0]))
    if get_origin(base) is dict and arguments[1] is not Any:
        return _mapped(_tag(found.number, _BYTES), arguments[1] if found.time is Time.NO else found.time)
    tag, write = _tag(found.number, _form(base)), _writer(base if found.time is Time.NO else found.time)

    def single(value: Any, out: list[bytes]) -> None:
        out.append(tag)
        out.append(write(value))

    return single


def _repeated(tag: bytes, write: Writer) -> Step:
    def step(value: Any, out: list[bytes]) -> None:
        for item in value:
            out.append(tag)
            out.append(write(item))

    return step


def _mapped(tag: bytes, annotation: Any) -> Step:
    write, item_tag = _writer(annotation), _tag(2, _form(annotation))

    def step(value: Any, out: list[bytes]) -> None:
        for key, item in value.items():
            body = _KEY + _text(key) + (b"" if item is None else item_tag + write(item))
            out += (tag, varint(len(body)), body)

    return step


_KEY = _tag(1, _BYTES)


def _form(annotation: Any) -> int:
    base = bare(annotation)
    if base in (int, bool):
        return _VARINT
    return _FIXED64 if base is float else _BYTES


def _writer(annotation: Any) -> Writer:
    if isinstance(annotation, Time):
        return _write_time
    base = bare(annotation)
    if is_struct(base):
        return _nested(base)
    if get_origin(base) in (Union, UnionType) and base != int | str:
        return _schema_writer(get_args(base))
    if get_origin(base) is list:
        return _list_message(get_args(base)[0])
    return _WRITERS.get(base, _write_json)


def _nested(cls: type[msgspec.Struct]) -> Writer:
    def write(value: Any) -> bytes:
        body = _struct_writer(cls)(value)  # found when it is needed: types may contain themselves
        return varint(len(body)) + body

    return write


def _list_message(annotation: Any) -> Writer:
    """A list inside a map, which is a message with one repeated field."""
    tag, item = _tag(1, _form(annotation)), _writer(annotation)
    return lambda value: _sized(tag + item(each) for each in value)


def _schema_writer(options: tuple[Any, ...]) -> Writer:
    """A schema, or in its place a switch (1 is the switch, 2 the schema) or several schemas (1 is one, 2 are all)."""
    schema = _nested(next(option for option in options if is_struct(option)))
    place = _tag(2 if bool in options else 1, _BYTES)

    def write(value: Any) -> bytes:
        if isinstance(value, bool):
            return _sized([_tag(1, _VARINT) + varint(value)])
        if isinstance(value, list):
            return _sized(_tag(2, _BYTES) + schema(each) for each in value)
        allowed = [_tag(1, _VARINT) + varint(1)] if bool in options else []
        return _sized([*allowed, place + schema(value)])

    return write


def _sized(parts: Iterable[bytes]) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body


def _text(value: str) -> bytes:
    data = value.encode()
    size = len(data)
    return (_SHORT[size] if size < len(_SHORT) else varint(size)) + data


def _write_quantity(value: str) -> bytes:
    return _sized([_KEY, _text(str(value))])


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return _sized([b"\x08\x00\x10", varint(value)])
    return _sized([b"\x08\x01\x1a", _text(value)])


def _write_json(value: Any) -> bytes:
    """JSON of no fixed shape, which travels as bytes."""
    data = msgspec.json.encode(value)
    return _sized([_KEY, varint(len(data)), data])


@remembered(4096)
def _instant(text: str) -> bytes:
    try:
        passed = times.parse(text) - _EPOCH
    except times.TimeError:
        return _sized([])
    seconds, rest = divmod(passed, timedelta(seconds=1))
    nanos = b"\x10" + varint(rest.microseconds * 1000) if rest else b""
    return _sized([b"\x08", varint(seconds), nanos])


def _write_time(value: str) -> bytes:
    return _instant(value)


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
