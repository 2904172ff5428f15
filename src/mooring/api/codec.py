"""Decode objects from JSON and YAML, and encode them.

`decode` handles every request: a typed decoder reads the bytes directly. Only if it fails (an unknown field, a null, a
wrong type) or a field may be duplicated, the slow path through ``json_tree.py`` and ``from_tree.py`` reports exactly
what is wrong or tolerates it as Kubernetes does. `decode_own` reads what Mooring itself wrote. `encode` writes JSON,
`to_yaml` YAML for people.

Used by the store, the API server, the client and the command line.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api import dynamic
from mooring.api import from_tree as trees
from mooring.api.dynamic import Dynamic
from mooring.api.from_tree import FieldValidation, WrongFieldsError, quantity_from
from mooring.api.json_tree import (
    MAX_BYTES,
    MAX_ELEMENTS,
    MAX_ELEMENTS_OF_CUSTOM_OBJECT,
    MAX_ELEMENTS_OF_DEFINITION,
    DecodeError,
    Elements,
    Members,
    TooLargeError,
    check_limits,
    parse_json,
)
from mooring.api.meta_v1 import NO_FIELD_SET, ManagedFieldsEntry, Resource, encode_field_sets
from mooring.api.protobuf import decode_message, envelope, limit_elements
from mooring.api.protobuf_table import Unsupported
from mooring.api.quantity import Quantity, parse
from mooring.api.quoting import go_quote
from mooring.api.yaml_documents import Document, YamlError
from mooring.api.yaml_documents import read as read_yaml
from mooring.api.yaml_documents import write as write_yaml

__all__ = [
    "DecodeError",
    "Decoded",
    "Document",
    "FieldValidation",
    "TooLargeError",
    "Unsupported",
    "WrongFieldsError",
    "YamlError",
    "decode",
    "decode_exact",
    "decode_kind",
    "decode_own",
    "decode_protobuf",
    "decode_tree",
    "decode_yaml",
    "encode",
    "from_tree",
    "max_elements",
    "parse_json",
    "read_json",
    "read_yaml",
    "to_tree",
    "to_yaml",
]

T = TypeVar("T")
D = TypeVar("D", bound=Dynamic)
TypeOf = Callable[[str, str], type[T] | None]
"""Find the type for an apiVersion and a kind; `Scheme.type_of` is one."""


class Decoded(msgspec.Struct, Generic[T], frozen=True):
    """A decoded object, with the warnings for the client that sent it."""

    object: T
    warnings: tuple[str, ...] = ()


def decode(body: bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """Decode JSON into an object of type `cls`. Raise DecodeError, and TooLargeError beyond the body limits."""
    check_limits(body, max_elements(cls))
    if issubclass(cls, Dynamic):
        return Decoded(*_decode_dynamic(body, cls, validation))
    value = decode_exact(body, cls)
    if value is None or not _normalize_field_sets(value):
        return Decoded(*from_tree(parse_json(body), cls, validation))
    if validation is FieldValidation.IGNORE or _ENCODER.encode(value) == body:
        return Decoded(value)  # encoded by this program: no duplicate fields
    if _may_have_duplicate_fields(body, _UNTYPED.decode(body)):
        return Decoded(*from_tree(parse_json(body), cls, validation))
    return Decoded(value)


def decode_own(body: bytes, cls: type[T]) -> T:
    """Decode JSON from a trusted source: our store or server. Drop unknown fields, apply no limits."""
    if issubclass(cls, Dynamic):
        return dynamic.of_own(_UNTYPED.decode(body), cls)
    value = decode_exact(body, cls)
    return from_tree(parse_json(body), cls, FieldValidation.IGNORE)[0] if value is None else value


def decode_exact(body: bytes | msgspec.Raw, cls: type[T]) -> T | None:
    """Decode JSON into an object that is not a custom resource. Return None if `decode` would warn about or tolerate
    something: an unknown field, a null or a wrong type. Of duplicate fields the last is used."""
    try:
        return get_decoder(cls).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode_kind(body: bytes, type_of: TypeOf[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """Decode like `decode`, finding the type by the apiVersion and kind in the body."""
    check_limits(body)
    try:
        meta = _TYPE_META.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        tree = parse_json(body)
        return Decoded(*from_tree(tree, _type_of_tree(tree, type_of), validation))
    return decode(body, _found_type(meta.api_version, meta.kind, type_of), validation)


def decode_yaml(source: str | bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """Decode a single YAML document into an object of type `cls`. Raise DecodeError."""
    documents = read_yaml(source, most=max_elements(cls))
    if len(documents) != 1:
        raise DecodeError(f"expected one YAML document, got {len(documents)}")
    return decode_tree(documents[0].tree, cls, validation)


def decode_tree(
    tree: Any, cls: type[T], validation: FieldValidation = FieldValidation.STRICT, *, is_plain: bool = False
) -> Decoded[T]:
    """Convert a tree of plain values into an object of type `cls`. Raise DecodeError.

    With `is_plain`, the caller guarantees that there are no duplicate fields and that the nesting is limited.
    """
    if not issubclass(cls, Dynamic) and (is_plain or _is_plain(tree)):
        try:
            return Decoded(msgspec.convert(_with_field_sets(tree), cls, dec_hook=_decode_hook))
        except (msgspec.ValidationError, UnicodeError, RecursionError):
            pass  # the slow path reports what is wrong, or tolerates it
    return Decoded(*from_tree(tree, cls, validation))


def decode_protobuf(body: bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """Decode like `decode`, from Kubernetes' protobuf encoding. Raise DecodeError, or Unsupported for unknown types."""
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"limit is {MAX_BYTES}")
    with limit_elements(max_elements(cls)):
        found = envelope(body)
        tree = decode_message(found.message, cls)  # type: ignore[arg-type] # kinds are structs
    return Decoded(*from_tree({**tree, "apiVersion": found.api_version, "kind": found.kind}, cls, validation))


def read_json(body: bytes, most: Elements = MAX_ELEMENTS) -> tuple[Any, bool]:
    """Return the tree of JSON, and whether it certainly has no duplicate fields. Raise DecodeError."""
    check_limits(body, most)
    try:
        tree = _UNTYPED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return parse_json(body), False
    return (parse_json(body), False) if _may_have_duplicate_fields(body, tree) else (tree, True)


def max_elements(cls: type) -> Elements:
    """Return the maximum number of elements in a request that writes an object of this type."""
    if issubclass(cls, Dynamic):
        return MAX_ELEMENTS_OF_CUSTOM_OBJECT
    return MAX_ELEMENTS_OF_DEFINITION if cls.__name__ == "CustomResourceDefinition" else MAX_ELEMENTS


def from_tree(
    tree: Any, cls: type[T], validation: FieldValidation = FieldValidation.STRICT
) -> tuple[T, tuple[str, ...]]:
    """Convert a tree into an object of type `cls`, with warnings. Raise DecodeError that lists all problems."""
    if issubclass(cls, Dynamic):
        return dynamic.read(tree, cls, validation)
    return trees.from_tree(tree, cls, validation)


def encode(value: Any) -> bytes:
    """Encode as compact JSON in field order."""
    if isinstance(value, Dynamic):
        value = dynamic.to_whole_tree(value)
    return _ENCODER.encode(value)


def to_tree(value: Any, *, encoded_field_sets: bool = False) -> Any:
    """Return the plain dicts, lists and scalars that `encode` would write.

    With `encoded_field_sets`, the field sets of managed fields stay JSON, which is faster.
    """
    if isinstance(value, Dynamic):
        value = dynamic.to_whole_tree(value)
    kept = (msgspec.Raw,) if encoded_field_sets else ()
    return msgspec.to_builtins(value, builtin_types=kept, enc_hook=_encode_hook)


def to_yaml(values: Iterable[Any]) -> str:
    """Encode as YAML for people: one document per value, keys in kubectl's order."""
    return write_yaml(to_tree(value) for value in values)


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _decode_hook(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return parse(value.strip()) if value.__class__ is str else quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, msgspec.Raw):
        return _UNTYPED.decode(value)
    raise NotImplementedError(f"no way to encode {type(value)}")


def _normalize_field_sets(value: Any) -> bool:
    """Write the field sets that a client sent as compact JSON; return False if one is no object, or malformed."""
    entries: list[ManagedFieldsEntry] = value.metadata.managed_fields if isinstance(value, Resource) else []
    for entry in entries:
        try:
            fields = _UNTYPED.decode(entry.fields_v1)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if not isinstance(fields, dict | None):
            return False
        entry.fields_v1 = NO_FIELD_SET if fields is None else msgspec.Raw(msgspec.json.encode(fields))
    return True


def _with_field_sets(tree: Any) -> Any:
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    return {**tree, "metadata": encode_field_sets(metadata)} if metadata else tree


def _decode_dynamic(body: bytes, cls: type[D], validation: FieldValidation) -> tuple[D, tuple[str, ...]]:
    """Decode a custom resource; search for duplicate fields only where possible and requested."""
    try:
        tree = _UNTYPED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return dynamic.read(parse_json(body), cls, validation)
    if validation is not FieldValidation.IGNORE and _may_have_duplicate_fields(body, tree):
        return dynamic.read(parse_json(body), cls, validation)
    return dynamic.read(tree, cls, validation, repeats=False)


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def get_decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    """Return the fast decoder of a type, which takes quantities but reports no unknown fields."""
    decoder = _DECODERS.get(cls)
    if decoder is None:
        decoder = _DECODERS[cls] = msgspec.json.Decoder(cls, dec_hook=_decode_hook)
    return decoder


_TYPE_META = msgspec.json.Decoder(_TypeMeta)
_UNTYPED = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(enc_hook=_encode_hook)
_CONTAINERS: frozenset[type] = frozenset({dict, list, Members})
_PLAIN_LEVELS = 200
_BACKSLASH = ord("\\")
_SPACES = {ord(space): space.encode() + b":" for space in " \t\n\r"}
_SPACED_END = re.compile(rb'"[ \t\n\r]+:')


def _may_have_duplicate_fields(body: bytes, tree: Any) -> bool:
    """Whether valid JSON may have duplicate fields; false only if it certainly has none.

    The decoder keeps the last of two equal fields, so the re-encoded `tree` has fewer fields. Count the `":` that
    ends a field name in both. In the body that is exact if there is no space between the two characters, no string
    ends in a backslash and no colon is escaped; otherwise return True. In the re-encoded JSON, a name that ends in a
    backslash (which the body may write as `\\u005c`) is not counted, so the body has more.
    """
    escapes = _BACKSLASH in body
    if escapes and (body.find(b'\\\\"') >= 0 or body.find(b"\\u003a") >= 0 or body.find(b"\\u003A") >= 0):
        return True
    for space, end in _SPACES.items():  # searching a byte is much faster than a substring, and that than a pattern
        if space in body and body.find(end) >= 0 and _SPACED_END.search(body):
            return True
    kept = msgspec.json.encode(tree)
    if escapes:
        return _field_ends(body) != _field_ends(kept)
    return body.count(b'":') != kept.count(b'":')


def _is_plain(tree: Any) -> bool:
    """Whether a tree has no duplicate fields and its nesting is limited."""
    level: list[Any] = [tree] if tree.__class__ in _CONTAINERS else []
    for _ in range(_PLAIN_LEVELS):
        below: list[Any] = []
        for value in level:
            if value.__class__ is Members:
                return False
            items = value.values() if value.__class__ is dict else value
            below += [item for item in items if item.__class__ in _CONTAINERS]
        if not below:
            return True
        level = below
    return False


def _field_ends(text: bytes) -> int:
    return text.count(b'":') - text.count(b'\\":')


def _type_of_tree(tree: Any, type_of: TypeOf[T]) -> type[T]:
    if not isinstance(tree, dict):
        raise DecodeError("expected an object")
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if value is not None and not isinstance(value, str):
            raise DecodeError(f"{name}: expected a string")
    return _found_type(api_version or "", kind or "", type_of)


def _found_type(api_version: str, kind: str, type_of: TypeOf[T]) -> type[T]:
    if not kind:
        raise DecodeError("Object 'Kind' is missing")
    if not api_version:
        raise DecodeError("Object 'apiVersion' is missing")
    cls = type_of(api_version, kind)
    if cls is None:
        raise DecodeError(f"no kind {go_quote(kind)} is registered for version {go_quote(api_version)}")
    return cls
