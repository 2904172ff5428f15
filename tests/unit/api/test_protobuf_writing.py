"""Protobuf both ways: a client that writes an object and reads it back has lost nothing, for every kind."""

import random
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import codec, protobuf_encoding
from mooring.api.apidiscovery_v2 import APIGroupDiscoveryList
from mooring.api.codec import Unsupported
from mooring.api.kinds import KINDS, Kind
from mooring.api.meta_v1 import APIResource, APIResourceList, PartialObjectMetadata, Status
from mooring.api.protobuf_table import Field, Message, Time, is_struct, message_of, strip_annotation
from mooring.api.quantity import Quantity

pytestmark = pytest.mark.req("N.11")


class Filler:
    """Makes objects whose fields are all set, or a part of them, with values that a seed decides."""

    def __init__(self, seed: int, *, sparse: bool) -> None:
        self._random = random.Random(seed)
        self._sparse = sparse
        self._inside: list[type] = []
        """The types that are being made: one that contains itself does so no second time."""

    def struct(self, cls: type[msgspec.Struct]) -> Any:
        times = {field.attribute: field.time for field in _flat(message_of(cls))}
        values = {}
        self._inside.append(cls)
        for info in msgspec.structs.fields(cls):
            is_type = info.name in ("kind", "api_version") and "metadata" in cls.__struct_fields__
            skipped = self._sparse and self._random.random() < 0.6
            if info.name in times and not is_type and not skipped:
                values[info.name] = self.value(info.type, times[info.name])
        self._inside.pop()
        return cls(**{name: value for name, value in values.items() if value is not None})

    def value(self, annotation: Any, time: Time = Time.NO) -> Any:
        base = strip_annotation(annotation)
        arguments = get_args(base)
        if any(strip_annotation(each) in self._inside for each in (base, *arguments)):
            return None
        if get_origin(base) is dict and arguments[1] is not Any:
            return {f"k{self._number(9)}": self.value(arguments[1], time) for _ in range(2)}
        if time is not Time.NO:
            return f"20{self._number(89) + 10}-03-04T05:06:07{'.000321' if time is Time.MICROSECONDS else ''}Z"
        if get_origin(base) is list:
            return [self.value(arguments[0]) for _ in range(2)]
        if is_struct(base):
            return self.struct(base)
        return self._leaf(base)

    def _leaf(self, base: Any) -> Any:
        if base is bool:
            return self._random.random() < 0.7
        if base is int:
            return self._random.choice([1, 7, 300, 70000, -5, 2**31 - 1])
        if base == int | str:
            return self._random.choice([8080, -3, "25%"])
        if base is float:
            return 2.5
        if base is Quantity:
            return Quantity.parse(self._random.choice(["1", "250m", "3Gi"]))
        if base is bytes:
            return bytes([self._number(255), 0, 255])
        return f"wörd{self._number(99)}" if base is str else {"any": [1, {"thing": None}]}

    def _number(self, most: int) -> int:
        return self._random.randint(0, most)


def _flat(message: Message) -> list[Field]:
    inner = [_flat(field.embedded) if field.embedded else [field] for field in message.fields]
    return [field for fields in inner for field in fields if field.attribute]


def there_and_back(obj: Any, api_version: str, kind: str) -> Any:
    body = protobuf_encoding.encode(api_version, kind, protobuf_encoding.message(codec.to_tree(obj), type(obj)))
    return codec.decode_protobuf(body, type(obj)).object


def check(kind: Kind, obj: Any) -> None:
    obj.kind, obj.api_version = kind.kind, kind.api_version
    found = there_and_back(obj, kind.api_version, kind.kind)
    assert codec.to_tree(found) == codec.to_tree(obj)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_an_object_with_every_field_comes_back_whole(kind: Kind) -> None:
    check(kind, Filler(1, sparse=False).struct(kind.type))


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**9))
def test_an_object_with_some_fields_comes_back_as_it_was(kind: Kind, seed: int) -> None:
    check(kind, Filler(seed, sparse=True).struct(kind.type))


def fields_of(cls: type[msgspec.Struct], seen: set[type]) -> list[str]:
    """Return the fields of a type, and of all that it holds, which the table does not have."""
    if cls in seen:
        return []
    seen.add(cls)
    known = {field.attribute for field in _flat(message_of(cls))}
    missing = []
    for info in msgspec.structs.fields(cls):
        if info.name not in known and info.name not in ("kind", "api_version"):
            missing.append(f"{cls.__name__}.{info.encode_name}")
        pending = [info.type]
        while pending:
            base = strip_annotation(pending.pop())
            if is_struct(base):
                missing += fields_of(base, seen)
            else:
                pending += [each for each in get_args(base) if each is not type(None)]
    return missing


def test_the_table_has_every_field_of_every_kind() -> None:
    seen: set[type] = set()
    assert [name for kind in KINDS for name in fields_of(kind.type, seen)] == []
    assert [
        name for kind in KINDS if kind.list_type and not kind.is_internal for name in fields_of(kind.list_type, seen)
    ] == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.version != message_of(kind.type).name.split(".")[1]])
def test_versions_that_share_a_type_have_the_same_numbers(kind: Kind) -> None:
    """So that one layout is right for all of them."""
    from mooring.api.protobuf_table import _table

    shared = message_of(kind.type).name
    own = f"{shared.split('.')[0]}.{kind.version}.{kind.kind}"
    assert set(_table()[own]) <= set(_table()[shared]) or set(_table()[shared]) <= set(_table()[own])


@pytest.mark.parametrize(
    "cls", [Status, PartialObjectMetadata, APIGroupDiscoveryList, APIResourceList], ids=lambda cls: cls.__name__
)
def test_what_is_no_resource_comes_back_too(cls: type[Any]) -> None:
    obj = Filler(3, sparse=False).struct(cls)
    assert codec.to_tree(there_and_back(obj, "", "")) == codec.to_tree(obj)


def test_empty_and_absent_are_distinguished_where_go_has_pointers() -> None:
    deployment = next(kind for kind in KINDS if kind.kind == "Deployment")
    specs: list[dict[str, Any]] = [{"replicas": 0}, {}, {"paused": True}, {"strategy": {"rollingUpdate": {}}}]
    for spec in specs:
        obj = codec.decode_tree({"spec": spec}, deployment.type).object
        check(deployment, obj)


def test_a_list_that_go_gives_a_type_of_its_own_is_a_message() -> None:
    """The verbs of discovery: kube-controller-manager reads them, and gives up where they are strings."""
    body = protobuf_encoding.message({"name": "pods", "verbs": ["get", "list"]}, APIResource)
    assert body == b"\x0a\x04pods\x22\x0b\x0a\x03get\x0a\x04list"


def test_a_type_that_kubernetes_does_not_have_is_not_written() -> None:
    from mooring.api.advisor_v1 import Audit

    with pytest.raises(Unsupported):
        protobuf_encoding.message({}, Audit)
