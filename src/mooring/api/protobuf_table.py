"""Field numbers of types in Kubernetes' protobuf encoding.

``protobuf_fields.txt`` has the numbers, the structs have the types; `message_of` combines both. The table has the names
of the `.proto` files, which spell a few differently from JSON (`aPIGroup`, `ref` for `$ref`), so only letters are
compared, ignoring case. A field that holds a message of the same name and that JSON does not have is embedded in Go:
its fields belong to the parent. Used by ``protobuf.py`` and ``protobuf_encoding.py``.
"""

from enum import Enum
from functools import cache
from importlib import resources
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.api.meta_v1 import Resource, ResourceList

_CONSTRAINTS = frozenset(
    [
        "Affinity",
        "NodeAffinity",
        "NodeSelector",
        "NodeSelectorRequirement",
        "NodeSelectorTerm",
        "PodAffinity",
        "PodAffinityTerm",
        "PodAntiAffinity",
        "PreferredSchedulingTerm",
        "Taint",
        "Toleration",
        "TopologySpreadConstraint",
        "VolumeNodeAffinity",
        "WeightedPodAffinityTerm",
        "LabelSelector",
        "LabelSelectorRequirement",
        "CELDeviceSelector",
        "CapacityRequirements",
        "DeviceConstraint",
        "DeviceDerivedAttribute",
        "DeviceRequest",
        "DeviceSelector",
        "DeviceSubRequest",
        "DeviceTaint",
        "DeviceToleration",
        "ExactDeviceRequest",
    ]
)
"""Types that reject unknown fields: dropping part of a constraint would let a pod run on more nodes."""
_TIMES = {"meta.v1.Time": 1, "meta.v1.MicroTime": 2}
_EMBEDDED_AS_HANDLER = frozenset({"ProbeHandler", "LifecycleHandler"})


class Unsupported(Exception):  # noqa: N818 - it says what is the case
    """The table has no numbers for a type; the client must send JSON."""


class Time(Enum):
    """The precision of a time field."""

    NO = 0
    SECONDS = 1
    MICROSECONDS = 2


class Field(msgspec.Struct, frozen=True):
    """A field of a protobuf message: its number, and the struct attribute that it becomes."""

    number: int
    name: str
    """The JSON name; the table's name if the struct does not have the field."""
    attribute: str = ""
    """The struct attribute; empty if the struct does not have it."""
    annotation: Any = None
    time: Time = Time.NO
    is_wrapped: bool = False
    """A list encoded as a message with the items in its first field."""
    embedded: "Message | None" = None
    """A message whose fields belong to the parent."""


class Message(msgspec.Struct, frozen=True):
    """The protobuf message of a type: its fields with their numbers."""

    name: str
    fields: tuple[Field, ...]
    is_constraint: bool


@cache
def message_of(cls: type[msgspec.Struct]) -> Message:
    """Return the field numbers of a struct; raise Unsupported."""
    package, _, version = cls.__module__.removeprefix("mooring.api.").partition(".")[0].rpartition("_")
    name = f"{package}.{version}.{cls.__name__}"
    if name not in _table() and not issubclass(cls, Resource | ResourceList):
        name = _only_one(cls.__name__) or name
    found = {_letters(field.encode_name): field for field in msgspec.structs.fields(cls)}
    return _message(name, found)


@cache
def _only_one(short: str) -> str:
    """Find the message by short name, where its group differs between table and structs."""
    found = [name for name in _table() if name.rpartition(".")[2] == short]
    return found[0] if len(found) == 1 else ""


def is_supported(cls: type[msgspec.Struct]) -> bool:
    """Whether objects of a type can be encoded as protobuf."""
    try:
        message_of(cls)
    except Unsupported:
        return False
    return True


def is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def strip_annotation(annotation: Any) -> Any:
    """Strip annotations that only validation needs: bounds and optionality."""
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation = arguments[0]
        elif origin in (Union, UnionType):
            options = [option for option in arguments if option is not type(None)]
            if set(options) == {int, float}:
                return float
            if any(is_struct(option) for option in options) and len(options) > 1:
                return annotation
            if len(options) > 1:
                return int | str
            annotation = options[0]
        else:
            return annotation


@cache
def _table() -> dict[str, list[str]]:
    lines = resources.files("mooring.api").joinpath("protobuf_fields.txt").read_text(encoding="utf-8").splitlines()
    words = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: fields for name, *fields in words}


def _message(name: str, found: dict[str, msgspec.structs.FieldInfo]) -> Message:
    fields = _table().get(name)
    if fields is None:
        raise Unsupported(name)
    package, _, short = name.rpartition(".")
    is_constraint = short in _CONSTRAINTS
    made = (_field(word, package, found) for word in fields)
    known = tuple(field for field in made if field.attribute or field.embedded or not is_constraint)
    return Message(name, known, is_constraint)


def _field(word: str, package: str, found: dict[str, msgspec.structs.FieldInfo]) -> Field:
    number, _, rest = word.partition(":")
    name, _, held = rest.partition("=")
    own = found.get(_letters(name))
    held = held if "." in held or not held else f"{package}.{held}"
    if own is not None:
        is_wrapped = get_origin(strip_annotation(own.type)) is list and _table().get(held) == ["1:items"]
        return Field(int(number), own.encode_name, own.name, own.type, Time(_TIMES.get(held, 0)), is_wrapped)
    if _is_embedded(name, held, found):
        return Field(int(number), name, embedded=_message(held, found))
    return Field(int(number), name)


def _is_embedded(name: str, held: str, found: dict[str, msgspec.structs.FieldInfo]) -> bool:
    """Whether Go embeds a message, so that JSON has its fields in the parent."""
    short = held.rpartition(".")[2]
    if name.lower() != short.lower() and not (name == "handler" and short in _EMBEDDED_AS_HANDLER):
        return False
    inner = (word.partition(":")[2].partition("=")[0] for word in _table().get(held, ()))
    return any(_letters(field) in found for field in inner)


def _letters(name: str) -> str:
    """Normalize a name for comparison between JSON and `.proto` files: `$ref` is `ref` there."""
    return name.replace("$", "").replace("-", "").lower()
