"""Conversion between the versions of a kind loses nothing, and gives each version its own shape."""

import types
import typing
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import core_v1, events_v1, resource_v1, resource_v1beta1
from mooring.api.base import Object
from mooring.api.meta_v1 import Condition, ObjectMeta, Resource
from mooring.api.quantity import Quantity
from mooring.api.scheme import Scheme, SchemeError

SCHEME = Scheme()
NAME = st.text("abc", min_size=1, max_size=3)
FIXED: dict[Any, st.SearchStrategy[Any]] = {
    # These have the same shape in every version: one sort of value is enough.
    ObjectMeta: st.builds(ObjectMeta, name=NAME, labels=st.dictionaries(NAME, NAME, max_size=1)),
    Condition: st.builds(Condition, type=NAME),
    core_v1.NodeSelector: st.builds(core_v1.NodeSelector),
    Quantity: st.integers(0, 9).map(Quantity),
    str: NAME,  # never empty: no version can tell an empty text from an absent one
    int: st.integers(1, 9),
    bool: st.just(True),  # as above
    Any: st.integers(0, 9),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """All values of a type annotation, small ones."""
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if hint in FIXED:
        return FIXED[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(NAME, values_of(arguments[1]), max_size=1)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*(st.none() if choice is type(None) else values_of(choice) for choice in arguments))
    return objects_of(hint)


def objects_of(cls: type[Object], **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {name: values_of(hints[name]) for name in cls.__struct_fields__ if name not in {"api_version", "kind"}}
    return st.builds(cls, **(fields | given_fields))


FIXED[resource_v1beta1.Device] = st.deferred(
    lambda: st.builds(resource_v1beta1.Device, name=NAME, basic=objects_of(resource_v1beta1.BasicDevice))
)


@dataclass(frozen=True)
class RoundTrip:
    id: str
    kind: str
    through: str
    objects: st.SearchStrategy[Any]


def both_ways(kind: str, old: types.ModuleType, new: types.ModuleType) -> list[RoundTrip]:
    apis = {resource_v1beta1: "resource.k8s.io/v1beta1", resource_v1: "resource.k8s.io/v1"}
    return [
        RoundTrip(
            f"{kind} of {apis[source]} through {apis[target]}",
            kind,
            apis[target],
            objects_of(getattr(source, kind), api_version=st.just(apis[source]), kind=st.just(kind)),
        )
        for source, target in ((old, new), (new, old))
    ]


EVENTS = [
    RoundTrip(
        f"Event of {source} through {target}",
        "Event",
        target,
        objects_of(cls, api_version=st.just(source), kind=st.just("Event")),
    )
    for cls, source, target in (
        (core_v1.Event, "v1", "events.k8s.io/v1"),
        (events_v1.Event, "events.k8s.io/v1", "v1"),
    )
]
ROUND_TRIPS = [
    *both_ways("ResourceClaim", resource_v1beta1, resource_v1),
    *both_ways("ResourceClaimTemplate", resource_v1beta1, resource_v1),
    *both_ways("ResourceSlice", resource_v1beta1, resource_v1),
    *EVENTS,
]


@pytest.mark.req("4330.5")
@pytest.mark.parametrize("case", ROUND_TRIPS, ids=lambda case: case.id)
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_nothing_is_lost_on_the_way_through_another_version(case: RoundTrip, data: st.DataObject) -> None:
    original: Resource = data.draw(case.objects)
    there = SCHEME.convert(original, case.through)
    target = SCHEME.kind(case.through, case.kind)
    assert target is not None
    assert type(there) is target.type
    assert (there.api_version, there.kind) == (case.through, case.kind)
    assert SCHEME.convert(there, original.api_version) == original


def decoded(document: dict[str, Any]) -> Resource:
    kind = SCHEME.kind(document["apiVersion"], document["kind"])
    assert kind is not None
    return msgspec.convert(document, kind.type, dec_hook=lambda _, text: Quantity.parse(text))


def encoded(obj: Resource) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj, enc_hook=str))


@dataclass(frozen=True)
class Shape:
    id: str
    kind: str
    v1beta1: dict[str, Any]
    v1: dict[str, Any]


TOLERATIONS = [{"key": "gpu.example.com/degraded", "operator": "Lt", "value": "5", "effect": "NoSchedule"}]
SHAPES = [
    Shape(
        "a flat request stands under exactly",
        "ResourceClaim",
        {"devices": {"requests": [
            {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 2, "tolerations": TOLERATIONS}]}},
        {"devices": {"requests": [
            {"name": "gpu", "exactly": {
                "deviceClassName": "gpu.example.com", "count": 2, "tolerations": TOLERATIONS}}]}},
    ),
    Shape(
        "several ways are the same in both",
        "ResourceClaim",
        {"devices": {"requests": [
            {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.example.com"}]}]}},
        {"devices": {"requests": [
            {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.example.com"}]}]}},
    ),
    Shape(
        "a template has the same shapes inside",
        "ResourceClaimTemplate",
        {"metadata": {}, "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}}},
        {"metadata": {}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
    ),
    Shape(
        "a device has its properties under basic",
        "ResourceSlice",
        {"driver": "gpu.example.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [
            {"name": "gpu-0", "basic": {
                "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "40Gi"}}}}]},
        {"driver": "gpu.example.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [
            {"name": "gpu-0", "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "40Gi"}}}]},
    ),
]  # fmt: skip


@pytest.mark.req("4330.5")
@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.id)
def test_each_version_has_its_own_shape_on_disk(case: Shape) -> None:
    old = decoded({"apiVersion": "resource.k8s.io/v1beta1", "kind": case.kind, "spec": case.v1beta1})
    new = decoded({"apiVersion": "resource.k8s.io/v1", "kind": case.kind, "spec": case.v1})
    assert encoded(SCHEME.convert(old, "resource.k8s.io/v1"))["spec"] == case.v1
    assert encoded(SCHEME.convert(new, "resource.k8s.io/v1beta1"))["spec"] == case.v1beta1


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_versions_of_one_shape_only_change_their_name(version: str) -> None:
    rule = resource_v1.DeviceTaintRule(
        api_version="resource.k8s.io/v1", kind="DeviceTaintRule", metadata=ObjectMeta(name="r")
    )
    there = SCHEME.convert(rule, f"resource.k8s.io/{version}")
    assert there.api_version == f"resource.k8s.io/{version}"
    assert SCHEME.convert(there, "resource.k8s.io/v1") == rule


def test_conversion_to_the_same_version_gives_the_object_itself() -> None:
    rule = resource_v1.DeviceTaintRule(api_version="resource.k8s.io/v1", kind="DeviceTaintRule")
    assert SCHEME.convert(rule, "resource.k8s.io/v1") is rule


def test_conversion_leaves_the_original_alone() -> None:
    rule = resource_v1.DeviceTaintRule(api_version="resource.k8s.io/v1", kind="DeviceTaintRule")
    SCHEME.convert(rule, "resource.k8s.io/v1beta2")
    assert rule.api_version == "resource.k8s.io/v1"


def test_what_v1beta1_means_as_absent_is_absent_in_v1() -> None:
    empty = resource_v1beta1.ResourceSlice(
        api_version="resource.k8s.io/v1beta1",
        kind="ResourceSlice",
        spec=resource_v1beta1.ResourceSliceSpec(node_name="", all_nodes=False),
    )
    spec = encoded(SCHEME.convert(empty, "resource.k8s.io/v1"))["spec"]
    assert "nodeName" not in spec
    assert "allNodes" not in spec


def test_a_kind_is_not_converted_to_another() -> None:
    rule = resource_v1.DeviceTaintRule(api_version="resource.k8s.io/v1", kind="DeviceTaintRule")
    with pytest.raises(
        SchemeError, match=r"cannot be converted to resource\.k8s\.io/v1beta1, only to resource\.k8s\.io/v1,"
    ):
        SCHEME.convert(rule, "resource.k8s.io/v1beta1")
