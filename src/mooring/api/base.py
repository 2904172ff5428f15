"""The base of every API type: map Python attributes to Kubernetes' JSON.

Kinds and their fields are `msgspec` structs. Attributes are Kubernetes' field names in snake_case, renamed to camelCase
in JSON (irregular names such as ``hostIP`` are given with ``field(name=...)``). Default values are not written, as with
Go's ``omitempty``; fields that Kubernetes always writes use :func:`always`, or :func:`required` when a client must give
them. A docstring below a class or an attribute is its OpenAPI description; `Annotated[list[X], list_map("name")]` says
how patches and server-side apply merge a list.

Structs are mutable, because admission sets defaults in the object that it has just decoded. Afterwards an object is
shared between the store, caches and informers and must not be modified: use a :func:`copy_of` it.
Read next: ``meta_v1.py``, then ``core_v1/pod.py``.
"""

from collections.abc import Callable
from functools import partial
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

import msgspec

T = TypeVar("T")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
IntOrString = Int32 | str


class Merge(msgspec.Struct, frozen=True):
    """The merge rule of a list or map field: server-side apply's list type, strategic-merge key and strategies."""

    kind: Literal["map", "set", "atomic", "granular"]
    keys: tuple[str, ...] = ()
    patch_key: str = ""
    patch_strategies: tuple[Literal["merge", "replace", "retainKeys"], ...] = ()


class Object(
    msgspec.Struct,
    omit_defaults=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    gc=False,  # objects are trees: reference counting frees them
):
    """A struct with Kubernetes' JSON conventions."""

    __merge__: ClassVar[Merge | None] = None
    """How server-side apply merges values of this type; :func:`atomic` where it replaces them."""


class _Always(partial[T]):
    # msgspec leaves out an empty default made by `list` or `dict` itself; it never compares what a partial makes.
    """Create the default of a field that is always written."""


class _Required(_Always[T]):
    """Create the default of a field that OpenAPI lists as required."""


def always(factory: Callable[[], T], name: str | None = None) -> T:
    """Declare a field that is written even with its default, like Go fields without ``omitempty``."""
    value: T = msgspec.field(default_factory=_Always(factory), name=name)
    return value


def required(factory: Callable[[], T], name: str | None = None) -> T:
    """Declare a field that is always written and required in OpenAPI; decoding accepts objects without it."""
    value: T = msgspec.field(default_factory=_Required(factory), name=name)
    return value


def is_required(field: msgspec.structs.FieldInfo) -> bool:
    """Whether OpenAPI lists a field, as :func:`msgspec.structs.fields` describes it, as required."""
    return isinstance(field.default_factory, _Required)


class StateCondition(Object):
    """One aspect of an object's state. Base of the conditions that kinds define themselves."""

    type: str = required(str)
    """What the condition is about."""
    status: str = required(str)
    """True, False or Unknown."""
    last_transition_time: str | None = always(lambda: None)
    """When the status last changed."""
    reason: str = ""
    """The reason for the condition's last transition, in CamelCase."""
    message: str = ""
    """A sentence for people."""


def list_map(
    *keys: str, patch_key: str | None = None, strategies: tuple[Literal["merge", "retainKeys"], ...] = ("merge",)
) -> Merge:
    """Declare a list whose items are identified by `keys`. Strategic merge uses the first or `patch_key` ("": none)."""
    patch_key = keys[0] if patch_key is None else patch_key
    return Merge("map", keys, patch_key, strategies if patch_key else ())


def list_set(*, patch_merge: bool = True) -> Merge:
    """Declare a list of scalars without duplicates."""
    return Merge("set", patch_strategies=("merge",) if patch_merge else ())


def atomic() -> Merge:
    """Declare a list, map or struct that server-side apply replaces (an unannotated list is atomic already)."""
    return Merge("atomic")


def granular() -> Merge:
    """Declare a struct or map that server-side apply merges by field although its type is atomic."""
    return Merge("granular")


def patched_by(key: str, *strategies: Literal["merge", "retainKeys"]) -> Merge:
    """Declare a list that strategic merge joins by `key` and that server-side apply replaces."""
    return Merge("atomic", patch_key=key, patch_strategies=strategies or ("merge",))


def merge_of(field: msgspec.structs.FieldInfo) -> Merge | None:
    """Return how a field merges, by its annotation or type. None: replace lists, merge other values by field."""
    annotation = field.type
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        for mark in metadata:
            if isinstance(mark, Merge):
                return mark
    options = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
    for option in options:
        if isinstance(option, type) and issubclass(option, Object):
            return option.__merge__
    return None


def copy_of(value: T) -> T:
    """Return a deep copy. Immutable scalars and quantities are shared."""
    return _copy(value)  # type: ignore[no-any-return] # a copy has the type of its original


def _copy(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _copy(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return value
