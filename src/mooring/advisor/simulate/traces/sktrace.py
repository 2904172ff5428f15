"""SimKube's traces (`.sktrace`): a map in MessagePack with what was applied and deleted at which moment.

    {"version": 2, "config": …, "events": [{"ts": seconds, "applied_objs": […], "deleted_objs": […]}, …],
     "index": …, "pod_lifecycles": {(kind of the owner, its name): {hash: [{"Finished": [start, end]}, …]}}}

Workloads create their pods as controllers do, and these run until they are deleted; pods without an owner run as long
as recorded. (Durations of owned pods are keyed by a hash that only SimKube computes.) The trace has no nodes; take them
from a cluster (`--from`, `--nodes`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.advisor.simulate.traces.events import (
    Complaints,
    Event,
    NodeArrival,
    ObjectArrival,
    ObjectDeparture,
    PodArrival,
    PodDeparture,
    TimeChecker,
    TraceError,
    check_duration,
    decode_tree,
)
from mooring.api.core_v1 import Node, Pod

_VERSION = 2
_MAX_BYTES = 2 * 1024**3


class _Moment(msgspec.Struct):
    ts: int
    applied_objs: list[dict[str, Any]] = []
    deleted_objs: list[dict[str, Any]] = []


class _File(msgspec.Struct):
    version: int = 1
    events: list[_Moment] = []
    pod_lifecycles: dict[tuple[str, str], Any] = {}


def is_sktrace(path: Path, start: bytes) -> bool:
    """Return whether a file is a SimKube trace: by its name, or because it starts with a small MessagePack map."""
    return path.suffix == ".sktrace" or (bool(start) and 0x81 <= start[0] <= 0x8F and b"version" in start[:16])


def read_events(path: Path, complaints: Complaints) -> Iterator[Event]:
    """Yield the events of a file, which is read as a whole, as SimKube held it in memory."""
    if path.stat().st_size > _MAX_BYTES:
        raise TraceError(f"{path}: it has more than {_MAX_BYTES // 1024**3} GiB")
    try:
        found = msgspec.msgpack.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise TraceError(f"{path}: not a trace of SimKube: {problem}") from problem
    if found.version != _VERSION:
        raise TraceError(f"{path}: a trace of version {found.version}; Mooring reads version {_VERSION}")
    start, times = found.events[0].ts if found.events else 0, TimeChecker()
    for number, moment in enumerate(found.events):
        place, at = f"{path}:events[{number}]", float(moment.ts - start)
        try:
            times.check(at, place)
        except ValueError as problem:
            complaints.report_bad_line(place, str(problem))
            continue
        for action, trees in (("applied", moment.applied_objs), ("deleted", moment.deleted_objs)):
            for index, tree in enumerate(trees):
                with complaints.reading(f"{place}.{action}_objs[{index}]"):
                    yield _parse_event(tree, at, found.pod_lifecycles, is_deleted=action == "deleted")


def _parse_event(tree: dict[str, Any], at: float, lives: dict[tuple[str, str], Any], *, is_deleted: bool) -> Event:
    obj = decode_tree(tree)
    meta = obj.metadata
    if is_deleted:
        gone = f"{meta.namespace}/{meta.name}"
        return (
            PodDeparture(at, gone) if isinstance(obj, Pod) else ObjectDeparture(at, obj.kind, meta.namespace, meta.name)
        )
    if isinstance(obj, Pod):
        return PodArrival(at, obj, _duration_of(lives.get(("v1.Pod", f"{meta.namespace}/{meta.name}"))))
    return NodeArrival(at, obj) if isinstance(obj, Node) else ObjectArrival(at, obj)


def _duration_of(lives: Any) -> float | None:
    try:
        life = next(iter(lives.values()))[0]["Finished"]
        seconds = max(float(life[1] - life[0]), 0.0)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError):
        return None
    return check_duration(seconds)
