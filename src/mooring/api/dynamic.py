"""Custom resources: typed metadata, and plain values with a schema.

`Dynamic` is the base type of all custom resources; `dynamic_type` creates a subclass for each version of each kind, so
that the type identifies the kind. ``codec.py`` decodes and encodes them. Objects from clients are pruned by the schema
when decoded. Read next: ``structural.py``.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import msgspec
from msgspec import structs

from mooring.api.base import copy_of
from mooring.api.from_tree import FieldValidation, Report, from_tree, report_duplicates
from mooring.api.json_tree import DecodeError, TooLargeError
from mooring.api.meta_v1 import ObjectMeta, Resource, encode_field_sets
from mooring.api.structural import NOTHING, DefaultsLimit, Structural, prune, set_defaults

if TYPE_CHECKING:
    from mooring.api.kinds import Kind

D = TypeVar("D", bound="Dynamic")
Tree = dict[str, Any]
_HEAD = ("kind", "apiVersion", "metadata")


class Dynamic(Resource):
    """A custom resource."""

    content: dict[str, Any] = {}
    """Everything except the type and the metadata."""

    schema: ClassVar[Structural] = NOTHING
    """The schema of the content."""
    keeps_content: ClassVar[bool] = True
    """False for readers of metadata only, which need not hold the content in memory."""


def dynamic_type(name: str, schema: Structural, *, keeps_content: bool = True) -> type[Dynamic]:
    """Create the type of one version of a custom kind."""
    made: type[Dynamic] = msgspec.defstruct(  # type: ignore[assignment] # a subclass of its base
        name,
        [],
        bases=(Dynamic,),
        namespace={"schema": schema, "keeps_content": keeps_content},
        module=__name__,
        omit_defaults=True,
        kw_only=True,
        gc=False,
    )
    return made


def read(tree: Any, cls: type[D], validation: FieldValidation, *, repeats: bool = True) -> tuple[D, tuple[str, ...]]:
    """Convert a client's tree into an object, pruned, with warnings. The object takes over the tree's parts.

    `repeats` is false if there are certainly no duplicate fields.
    """
    if not isinstance(tree, dict):
        raise DecodeError("expected an object")
    obj, strange = _head(tree, cls, validation)
    obj.content = {name: value for name, value in tree.items() if name not in _HEAD}
    if repeats and validation is not FieldValidation.IGNORE:
        report = Report()
        report_duplicates(obj.content, None, report)
        if report.strange:
            strange += report.strange
            obj.content = _plain(obj.content)
    strange += [f'unknown field "{path}"' for path in prune(obj.content, cls.schema, strict=True)]
    if strange and validation is FieldValidation.STRICT:
        raise DecodeError(f"strict decoding error: {', '.join(strange)}")
    return obj, tuple(strange) if validation is FieldValidation.WARN else ()


def of_own(tree: Tree, cls: type[D]) -> D:
    """Convert a trusted tree into an object without pruning."""
    obj = cls(kind=tree.get("kind", ""), api_version=tree.get("apiVersion", ""))
    metadata = tree.get("metadata")
    if metadata:
        try:
            obj.metadata = msgspec.convert(encode_field_sets(metadata), ObjectMeta)
        except msgspec.ValidationError:
            obj.metadata = from_tree(metadata, ObjectMeta, FieldValidation.IGNORE)[0]
    if cls.keeps_content:
        obj.content = {name: value for name, value in tree.items() if name not in _HEAD}
    return obj


def normalize(obj: D) -> D:
    """Prune and default an object by the current schema, in place, unless the defaults would add too much."""
    prune(obj.content, type(obj).schema)
    with suppress(TooLargeError):
        set_defaults(obj.content, type(obj).schema, DefaultsLimit())
    return obj


def convert_version(obj: Dynamic, target: "Kind") -> Dynamic:
    """Convert an object to another version: the same fields, as far as the target's schema has them."""
    made = cast("type[Dynamic]", target.type)(
        kind=target.kind,
        api_version=target.api_version,
        metadata=structs.replace(obj.metadata),
        content=copy_of(obj.content),
    )
    return normalize(made)


def to_whole_tree(obj: Dynamic) -> Tree:
    """Return the object as one tree that shares the content; metadata is still a struct."""
    return {"kind": obj.kind, "apiVersion": obj.api_version, "metadata": obj.metadata, **obj.content}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _head(tree: Tree, cls: type[D], validation: FieldValidation) -> tuple[D, list[str]]:
    head = {name: tree[name] for name in _HEAD if tree.get(name) is not None}
    try:
        return msgspec.convert({**head, "metadata": encode_field_sets(head.get("metadata", {}))}, cls), []
    except msgspec.ValidationError:
        tolerant = FieldValidation.IGNORE if validation is FieldValidation.IGNORE else FieldValidation.WARN
        found, strange = from_tree(head, Resource, tolerant)
    return cls(kind=found.kind, api_version=found.api_version, metadata=found.metadata), [*strange]


def steps_of(path: str) -> list[str]:
    """Split a simple JSON path (`.spec.replicas`) into fields."""
    return path.removeprefix(".").split(".")


def value_at(content: Tree, path: str) -> Any:
    """Return the value at a simple JSON path; None if absent. Raise TypeError if a parent has no fields."""
    value: Any = content
    for step in steps_of(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(wrong_type(path, value, "map[string]interface{}"))
        value = value.get(step)
    return value


def wrong_type(path: str, value: Any, wanted: str) -> str:
    """Return Go's message for a value of the wrong type at a path."""
    return f"{path} accessor error: {value} is of the type {_GO_TYPES.get(type(value), 'nil')}, expected {wanted}"


_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def with_value(content: Tree, path: str, value: Any) -> Tree:
    """Return the content with another value at a simple JSON path; parents are copied."""
    first, *rest = steps_of(path)
    below = content.get(first)
    inner = with_value(below if isinstance(below, dict) else {}, ".".join(rest), value) if rest else value
    return {**content, first: inner}
