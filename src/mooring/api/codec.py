"""Objects from JSON and YAML, and back.

`decode` is the road of every request: a typed decoder straight from the bytes, and only when that refuses something (an
unknown field, a null, a wrong type) or when a field may be there twice the slow road over ``json_tree.py`` and
``from_tree.py``, which says exactly what is wrong or tolerates it as Kubernetes does. `decode_own` reads what Mooring
itself has written. `encode` writes JSON, `to_yaml` YAML for people.

Called by the store, the API server, the client and the command line.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api import dynamic
from mooring.api import from_tree as trees
from mooring.api.dynamic import Dynamic
from mooring.api.from_tree import FieldValidation, WrongFieldsError, quantity_from
from mooring.api.json_tree import MAX_BYTES, DecodeError, Members, TooLargeError, check_limits, json_tree
from mooring.api.protobuf import envelope, tree_of
from mooring.api.protobuf_table import Unsupported
from mooring.api.quantity import Quantity, parse
from mooring.api.quoting import quoted
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
    "decode_document",
    "decode_kind",
    "decode_own",
    "decode_protobuf",
    "decode_tree",
    "decode_yaml",
    "encode",
    "from_tree",
    "json_tree",
    "read_json",
    "read_yaml",
    "to_tree",
    "to_yaml",
]

T = TypeVar("T")
D = TypeVar("D", bound=Dynamic)
TypeOf = Callable[[str, str], type[T] | None]
"""Finds the type for an apiVersion and a kind; the scheme has one."""


class Decoded(msgspec.Struct, Generic[T], frozen=True):
    """An object and what the client should be warned about."""

    object: T
    warnings: tuple[str, ...] = ()


def decode(body: bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """The object of type `cls` that JSON says. Raises DecodeError, and TooLargeError beyond 3 MiB."""
    check_limits(body)
    if issubclass(cls, Dynamic):
        return Decoded(*_decode_dynamic(body, cls, validation))
    try:
        value: T = _decoder(cls).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Decoded(*from_tree(json_tree(body), cls, validation))
    if validation is FieldValidation.IGNORE or _ENCODER.encode(value) == body:
        return Decoded(value)  # what this program writes itself, our components do, has every field once
    if _may_repeat_a_field(body, _UNTYPED.decode(body)):
        return Decoded(*from_tree(json_tree(body), cls, validation))
    return Decoded(value)


def decode_own(body: bytes, cls: type[T]) -> T:
    """The object that JSON from a trusted source says: our store or server. Unknown fields are dropped, no limits."""
    if issubclass(cls, Dynamic):
        return dynamic.of_own(_UNTYPED.decode(body), cls)
    try:
        value: T = _decoder(cls).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value, _ = from_tree(json_tree(body), cls, FieldValidation.IGNORE)
    return value


def decode_kind(body: bytes, type_of: TypeOf[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """As `decode`, the type being found by the apiVersion and kind in the body."""
    check_limits(body)
    try:
        meta = _TYPE_META.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        tree = json_tree(body)
        return Decoded(*from_tree(tree, _type_of_tree(tree, type_of), validation))
    return decode(body, _found_type(meta.api_version, meta.kind, type_of), validation)


def decode_yaml(source: str | bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """The object of type `cls` that YAML of one document says. Raises DecodeError."""
    documents = read_yaml(source)
    if len(documents) != 1:
        raise DecodeError(f"expected one YAML document, got {len(documents)}")
    return decode_tree(documents[0].tree, cls, validation)


def decode_tree(
    tree: Any, cls: type[T], validation: FieldValidation = FieldValidation.STRICT, *, is_plain: bool = False
) -> Decoded[T]:
    """The object of type `cls` that a tree of plain values says. Raises DecodeError.

    With `is_plain`, the caller knows that no object in it has a field twice, and that it nests as input may.
    """
    if not issubclass(cls, Dynamic) and (is_plain or _is_plain(tree)):
        try:
            return Decoded(msgspec.convert(tree, cls, dec_hook=_decoded))
        except (msgspec.ValidationError, UnicodeError, RecursionError):
            pass  # the slow road says what is wrong, or tolerates it
    return Decoded(*from_tree(tree, cls, validation))


def decode_document(
    document: Document, type_of: TypeOf[T], validation: FieldValidation = FieldValidation.STRICT
) -> Decoded[T]:
    """The object that a document of `read_yaml` says, by its apiVersion and kind."""
    return Decoded(*from_tree(document.tree, _type_of_tree(document.tree, type_of), validation))


def decode_protobuf(body: bytes, cls: type[T], validation: FieldValidation = FieldValidation.STRICT) -> Decoded[T]:
    """As `decode`, from Kubernetes' protobuf encoding. Raises DecodeError, and Unsupported for types it cannot read."""
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"limit is {MAX_BYTES}")
    found = envelope(body)
    tree = tree_of(found.message, cls)  # type: ignore[arg-type] # kinds are structs
    return Decoded(*from_tree({**tree, "apiVersion": found.api_version, "kind": found.kind}, cls, validation))


def read_json(body: bytes) -> tuple[Any, bool]:
    """As `json_tree`, in a fraction of the time where no field is there twice, which is told. Raises DecodeError."""
    check_limits(body)
    try:
        tree = _UNTYPED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return json_tree(body), False
    return (json_tree(body), False) if _may_repeat_a_field(body, tree) else (tree, True)


def from_tree(
    tree: Any, cls: type[T], validation: FieldValidation = FieldValidation.STRICT
) -> tuple[T, tuple[str, ...]]:
    """The object of type `cls` that a tree says, and warnings. Raises DecodeError with all that is wrong."""
    if issubclass(cls, Dynamic):
        return dynamic.read(tree, cls, validation)
    return trees.from_tree(tree, cls, validation)


MANAGED_FIELDS = b',"managedFields":['
"""How the managed fields begin in what `encode` writes: the last and longest field of metadata, which comes before all
else. Nothing in front of them can look like that, because quotes in strings are escaped."""


def encode(value: Any) -> bytes:
    """JSON, compact and in the order of the fields."""
    if isinstance(value, Dynamic):
        value = dynamic.whole(value)
    return _ENCODER.encode(value)


def to_tree(value: Any) -> Any:
    """The plain dicts, lists and scalars that `encode` would write."""
    if isinstance(value, Dynamic):
        value = dynamic.whole(value)
    return msgspec.to_builtins(value, enc_hook=_encoded)


def to_yaml(values: Iterable[Any]) -> str:
    """YAML for people: a document for each value, keys as kubectl orders them."""
    return write_yaml(to_tree(value) for value in values)


# -- how


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def _decoded(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return parse(value.strip()) if value.__class__ is str else quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


def _encoded(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(f"no way to encode {type(value)}")


def _decode_dynamic(body: bytes, cls: type[D], validation: FieldValidation) -> tuple[D, tuple[str, ...]]:
    """A custom object; fields that are there twice are looked for where they may be, and where somebody cares."""
    try:
        tree = _UNTYPED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return dynamic.read(json_tree(body), cls, validation)
    if validation is not FieldValidation.IGNORE and _may_repeat_a_field(body, tree):
        return dynamic.read(json_tree(body), cls, validation)
    return dynamic.read(tree, cls, validation, repeats=False)


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(cls)
    if decoder is None:
        decoder = _DECODERS[cls] = msgspec.json.Decoder(cls, dec_hook=_decoded)
    return decoder


_TYPE_META = msgspec.json.Decoder(_TypeMeta)
_UNTYPED = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(enc_hook=_encoded)
_CONTAINERS: frozenset[type] = frozenset({dict, list, Members})
_PLAIN_LEVELS = 200
_BACKSLASH = ord("\\")
_SPACES = {ord(space): space.encode() + b":" for space in " \t\n\r"}
_SPACED_END = re.compile(rb'"[ \t\n\r]+:')


def _may_repeat_a_field(body: bytes, tree: Any) -> bool:
    """Whether an object in valid JSON may have a field twice; false only when it certainly has not.

    The decoder keeps the last of two equal fields, so that JSON made again of the `tree` has fewer fields. Both
    texts are counted by the quote and colon that end a field's name. In the body that is exact where nothing stands
    between the two, no text ends in a backslash and no colon is escaped; anything else counts as suspicious. In what
    was kept, a name that ends in a backslash (which the body may write as `\\u005c`) is not counted, so that the body
    has more.
    """
    escapes = _BACKSLASH in body
    if escapes and (body.find(b'\\\\"') >= 0 or body.find(b"\\u003a") >= 0 or body.find(b"\\u003A") >= 0):
        return True
    for space, end in _SPACES.items():  # a number is found much faster than a text, and that much faster than a pattern
        if space in body and body.find(end) >= 0 and _SPACED_END.search(body):
            return True
    kept = msgspec.json.encode(tree)
    if escapes:
        return _field_ends(body) != _field_ends(kept)
    return body.count(b'":') != kept.count(b'":')


def _is_plain(tree: Any) -> bool:
    """Whether no object in a tree has a field twice, and nothing nests so deep that later readers could not follow."""
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
        raise DecodeError(f"no kind {quoted(kind)} is registered for version {quoted(api_version)}")
    return cls
