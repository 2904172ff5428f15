"""Times in objects are written as Kubernetes writes them, and errors about them name the field."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import pytest

from mooring.api import codec, protobuf_table
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node, Pod
from mooring.api.dynamic import dynamic_type
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.api.protobuf_table import Message, Time
from mooring.api.scheme import Scheme
from mooring.api.struct_times import _TIMES, _TO_THE_MICROSECOND, WrongTimeError, _steps, has_times, normalize_times
from mooring.api.structural import NOTHING


@dataclass(frozen=True)
class Case:
    """Recorded from kube-apiserver 1.37: what a time was stored as."""

    written: str
    stored: str | None
    cls: type[Resource] = Pod


@pytest.mark.parametrize(
    "case",
    [
        Case("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z"),
        Case("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        Case("2026-01-01T01:00:00.123456789Z", "2026-01-01T01:00:00Z"),
        Case("2026-01-01T01:00:00,5Z", "2026-01-01T01:00:00Z"),
        Case("2026-01-01T1:00:00Z", "2026-01-01T01:00:00Z"),
        Case("0001-01-01T00:00:00Z", None),
        Case("2026-01-01T01:00:00.123456+02:00", "2025-12-31T23:00:00.123456Z", Lease),
    ],
    ids=lambda case: f"{case.cls.__name__} {case.written}",
)
def test_a_time_is_put_as_kubernetes_writes_it(case: Case) -> None:
    pod, lease = Pod(), Lease()
    pod.status.start_time = lease.spec.renew_time = case.written
    normalize_times(lease if case.cls is Lease else pod)
    assert (lease.spec.renew_time if case.cls is Lease else pod.status.start_time) == case.stored


@pytest.mark.parametrize(
    ("cls", "tree", "path"),
    [
        *(
            (Pod, {"status": {"startTime": text}}, "status.startTime")
            for text in ("x", "", "2026-01-01", "2026-01-01t01:00:00z", "2026-02-30T00:00:00Z")
        ),
        *(
            (Lease, {"spec": {"renewTime": text}}, "spec.renewTime")
            for text in ("2026-01-01T01:00:00Z", "2026-01-01T01:00:00.5Z", "2026-01-01T01:00:00.123456789Z", "")
        ),
        (Pod, {"status": {"conditions": [{}, {"lastTransitionTime": "x"}]}}, "status.conditions[1].lastTransitionTime"),
        (
            Pod,
            {"status": {"containerStatuses": [{"lastState": {"terminated": {"finishedAt": "x"}}}]}},
            "status.containerStatuses[0].lastState.terminated.finishedAt",
        ),
        (Pod, {"metadata": {"managedFields": [{"time": "x"}]}}, "metadata.managedFields[0].time"),
        (Node, {"spec": {"taints": [{"timeAdded": "x"}]}}, "spec.taints[0].timeAdded"),
        (PodDisruptionBudget, {"status": {"disruptedPods": {"a": "x"}}}, "status.disruptedPods"),
    ],
)
def test_a_time_that_is_none_is_reported_with_its_place(cls: type[Resource], tree: dict[str, Any], path: str) -> None:
    with pytest.raises(WrongTimeError) as raised:
        normalize_times(codec.decode_own(msgspec.json.encode(tree), cls))
    assert raised.value.path == path


def test_custom_kinds_are_not_remembered() -> None:
    normalize_times(dynamic_type("First", NOTHING)())
    known = _steps.cache_info().currsize
    obj = dynamic_type("Second", NOTHING)()
    obj.metadata.creation_timestamp = "2026-01-01T01:00:00+01:00"
    normalize_times(obj)
    assert obj.metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert _steps.cache_info().currsize == known


def test_times_are_where_kubernetes_types_say() -> None:
    seen: dict[type[msgspec.Struct], bool] = {}
    found = {word: set[str]() for word in Time}
    for kind in Scheme().known:
        _holds_times(kind.type, seen, found)
    assert {cls.__name__: has_times(cls) for cls in seen} == {cls.__name__: holds for cls, holds in seen.items()}
    assert found[Time.MICROSECONDS] == _TO_THE_MICROSECOND
    assert found[Time.SECONDS] == _TIMES - _TO_THE_MICROSECOND
    assert not found[Time.NO] & _TIMES


def _holds_times(
    cls: type[msgspec.Struct], seen: dict[type[msgspec.Struct], bool], found: dict[Time, set[str]]
) -> bool:
    """By the table of what Kubernetes publishes."""
    if cls in seen:
        return seen[cls]
    seen[cls] = False
    for time, attribute, annotation in _fields(protobuf_table.message_of(cls)):
        found[time].add(attribute)
        parts = [_holds_times(part, seen, found) for part in _structs(annotation)]
        seen[cls] = seen[cls] or time is not Time.NO or any(parts)
    return seen[cls]


def _fields(message: Message) -> Iterator[tuple[Time, str, Any]]:
    for field in message.fields:
        if field.embedded is not None:
            yield from _fields(field.embedded)
        elif field.attribute:
            yield field.time, field.attribute, field.annotation


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    bare = protobuf_table.strip_annotation(annotation)
    if protobuf_table.is_struct(bare):
        yield bare
    for argument in get_args(bare):
        yield from _structs(argument)
