"""Objects of kinds that a cluster has learned: their metadata is typed, the rest is plain values with a schema.

`Dynamic` is the type of all custom resources; each version of each kind has a subclass of its own, made by
`dynamic_type`, so that a type says which kind it is here as everywhere. ``codec.py`` reads and writes them. What is
read from clients is pruned by the schema on the way in. Read next: ``structural.py``.
"""

from typing import Any, ClassVar, TypeVar

import msgspec

from mooring.api.from_tree import FieldValidation, Report, from_tree, report_repeated
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.structural import NOTHING, Structural, fill_in, prune

D = TypeVar("D", bound="Dynamic")
Tree = dict[str, Any]
_HEAD = ("kind", "apiVersion", "metadata")


class Dynamic(Resource):
    """An object of a kind that the cluster has learned."""

    content: dict[str, Any] = {}
    """Everything but the type and the metadata."""

    schema: ClassVar[Structural] = NOTHING
    """What the content looks like."""
    keeps_content: ClassVar[bool] = True
    """False for those who look at metadata alone, and need not hold the rest in memory."""


def dynamic_type(name: str, schema: Structural, *, keeps_content: bool = True) -> type[Dynamic]:
    """The type of one version of a kind."""
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
    """The object that a client's tree says, pruned, and warnings. The tree's parts become the object's.

    `repeats` is false where no field can be there twice.
    """
    if not isinstance(tree, dict):
        raise DecodeError("expected an object")
    obj, strange = _head(tree, cls, validation)
    obj.content = {name: value for name, value in tree.items() if name not in _HEAD}
    if repeats and validation is not FieldValidation.IGNORE:
        report = Report()
        report_repeated(obj.content, None, report)
        if report.strange:
            strange += report.strange
            obj.content = _plain(obj.content)
    strange += [f'unknown field "{path}"' for path in prune(obj.content, cls.schema, strict=True)]
    if strange and validation is FieldValidation.STRICT:
        raise DecodeError(f"strict decoding error: {', '.join(strange)}")
    return obj, tuple(strange) if validation is FieldValidation.WARN else ()


def of_own(tree: Tree, cls: type[D]) -> D:
    """The object that a tree of our own making says: nothing is pruned."""
    obj = cls(kind=tree.get("kind", ""), api_version=tree.get("apiVersion", ""))
    metadata = tree.get("metadata")
    if metadata:
        try:
            obj.metadata = msgspec.convert(metadata, ObjectMeta)
        except msgspec.ValidationError:
            obj.metadata = from_tree(metadata, ObjectMeta, FieldValidation.IGNORE)[0]
    if cls.keeps_content:
        obj.content = {name: value for name, value in tree.items() if name not in _HEAD}
    return obj


def normalised(obj: D) -> D:
    """The object as its schema wants it today, in place: without unknown fields, and with defaults."""
    prune(obj.content, type(obj).schema)
    fill_in(obj.content, type(obj).schema)
    return obj


def whole(obj: Dynamic) -> Tree:
    """The object as one tree, which shares the content; its metadata is still a struct."""
    return {"kind": obj.kind, "apiVersion": obj.api_version, "metadata": obj.metadata, **obj.content}


def _plain(value: Any) -> Any:
    """The same values in dicts that remember nothing."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _head(tree: Tree, cls: type[D], validation: FieldValidation) -> tuple[D, list[str]]:
    head = {name: tree[name] for name in _HEAD if tree.get(name) is not None}
    try:
        return msgspec.convert(head, cls), []
    except msgspec.ValidationError:
        tolerant = FieldValidation.IGNORE if validation is FieldValidation.IGNORE else FieldValidation.WARN
        found, strange = from_tree(head, Resource, tolerant)
    return cls(kind=found.kind, api_version=found.api_version, metadata=found.metadata), [*strange]


def steps_of(path: str) -> list[str]:
    """The fields of a simple JSON path: `.spec.replicas`."""
    return path.removeprefix(".").split(".")


def value_at(content: Tree, path: str) -> Any:
    """What stands at a simple JSON path; None if nothing does. Raises TypeError where a field has no fields."""
    value: Any = content
    for step in steps_of(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(wrong_type(path, value, "map[string]interface{}"))
        value = value.get(step)
    return value


def wrong_type(path: str, value: Any, wanted: str) -> str:
    """That something else stands at a path than should, in the words of Go."""
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
    """The content with something else at a simple JSON path; what is on the way is copied."""
    first, *rest = steps_of(path)
    below = content.get(first)
    inner = with_value(below if isinstance(below, dict) else {}, ".".join(rest), value) if rest else value
    return {**content, first: inner}
