"""CEL's types, used by the checker and in declarations of libraries and variables.

A `Type` is an immutable value; compare with `==`. Scalars are constants (`STRING`), the others are built by functions::

    list_of(STRING)                     list(string)
    map_of(STRING, DYN)                 map(string, dyn)
    optional_of(param("T"))             optional_type(T)      T is bound when an overload is resolved
    opaque("kubernetes.Quantity")       a type whose values are instances of a Python class
    object_type("kubernetes.Taint")     a type with fields, declared by an `ObjectType`
    type_of(INT)                        type(int), the type of the expression `int` itself

Fields are declared from plain Python::

    ObjectType("kubernetes.Taint", {"key": Field(STRING), "timeAdded": Field(TIMESTAMP, attribute="time_added")})

Read next: values.py says how values of these types look in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple


class Kind(Enum):
    """The kind of a type, regardless of its parameters."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    NULL = "null"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPAQUE = "opaque"
    OBJECT = "object"
    WRAPPER = "wrapper"
    PARAM = "param"
    DYN = "dyn"
    ERROR = "error"


class Type:
    """A type; `str()` gives the form of error messages. Equal types have equal kinds, names and parameters."""

    __slots__ = ("_hash", "kind", "name", "params")

    def __init__(self, kind: Kind, name: str, params: tuple[Type, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self._hash = hash((name, params))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            other.__class__ is Type
            and other._hash == self._hash
            and other.kind is self.kind
            and other.name == self.name
            and other.params == self.params
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    @property
    def is_dyn(self) -> bool:
        """Whether values are only known at run time."""
        return self.kind in _DYNAMIC

    @property
    def is_optional(self) -> bool:
        return self.kind is Kind.OPAQUE and self.name == OPTIONAL_NAME


_DYNAMIC = frozenset({Kind.DYN, Kind.ERROR, Kind.PARAM})
OPTIONAL_NAME = "optional_type"

BOOL = Type(Kind.BOOL, "bool")
INT = Type(Kind.INT, "int")
UINT = Type(Kind.UINT, "uint")
DOUBLE = Type(Kind.DOUBLE, "double")
STRING = Type(Kind.STRING, "string")
BYTES = Type(Kind.BYTES, "bytes")
NULL = Type(Kind.NULL, "null")
TIMESTAMP = Type(Kind.TIMESTAMP, "timestamp")
DURATION = Type(Kind.DURATION, "duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "!error!")
"""The type of an expression that was already reported; it agrees with everything, so one error is one issue."""
TYPE = Type(Kind.TYPE, "type")


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def type_of(described: Type) -> Type:
    return Type(Kind.TYPE, "type", (described,))


def opaque(name: str, *params: Type) -> Type:
    return Type(Kind.OPAQUE, name, params)


def optional_of(value: Type) -> Type:
    return Type(Kind.OPAQUE, OPTIONAL_NAME, (value,))


def param(name: str) -> Type:
    return Type(Kind.PARAM, name)


def object_type(name: str) -> Type:
    return Type(Kind.OBJECT, name)


class Field(NamedTuple):
    """A field of an object type.

    `attribute` is the Python attribute to read when the object is no mapping (default: the field's own name). A
    missing attribute or key, and an attribute that is None, mean that the field is absent.
    """

    type: Type
    attribute: str | None = None


class ObjectType(NamedTuple):
    """The declaration of a type with fields; pass it to an environment, and use `.type` for variables and fields."""

    name: str
    fields: Mapping[str, Field] = MappingProxyType({})

    @property
    def type(self) -> Type:
        return object_type(self.name)


class _AnyFields(Mapping[str, Field]):
    """Fields of any name and any type."""

    _FIELD = Field(DYN)

    def __getitem__(self, name: str) -> Field:
        return self._FIELD

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class OpenTypes(dict[str, ObjectType]):
    """Declared types plus open ones: `Object` and `Object.spec.any` for a root `Object`, with any field."""

    def __init__(self, roots: Iterable[str], declared: Mapping[str, ObjectType]) -> None:
        super().__init__(declared)
        self._roots = frozenset(roots)

    def __missing__(self, name: str) -> ObjectType:
        if name.partition(".")[0] not in self._roots:
            raise KeyError(name)
        return ObjectType(name, _AnyFields())

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name.partition(".")[0] in self._roots)


def walk(types: Iterable[Type]) -> Iterable[Type]:
    """Yield each of the types and all types nested in them."""
    for each in types:
        yield each
        yield from walk(each.params)
