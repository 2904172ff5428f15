"""Read an API server's audit log, or a stream of watch events, as a trace; JSON, one object per line.

An audit log (`apiVersion: audit.k8s.io/v1`) needs the level RequestResponse for pods and nodes, to have the stored
objects, bindings and deletions. Other resources, other stages and failed requests are skipped.

A stream of watch events (`{"type": "ADDED", "object": …}`), as `kubectl get pods --watch --output-watch-events -o json`
prints it, has no times; a field `"time"` in RFC 3339 beside `type` is used, otherwise the objects' creation, scheduling
or deletion timestamps.

Several files are merged by time: rotated logs, logs of several servers, a stream for each kind.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from mooring.advisor.simulate.traces.events import (
    ClusterTracker,
    Complaints,
    Event,
    PodBinding,
    TimeChecker,
    TraceError,
    as_pending,
    decode_tree,
)
from mooring.advisor.simulate.traces.tables import open_unpacked
from mooring.api import times
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource

_LONGEST_LINE = 16 * 1024 * 1024
_NO_OBJECTS = ("BOOKMARK", "ERROR")
_BEFORE = datetime.min.replace(tzinfo=UTC)
"""The time of lines before the first timestamp."""


class _Reference(msgspec.Struct):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Response(msgspec.Struct):
    code: int = 200


class _Item(msgspec.Struct):
    metadata: _Reference


class _List(msgspec.Struct):
    items: list[_Item]


class _Line(msgspec.Struct, rename="camel"):
    """A line of an audit log or of a watch stream."""

    stage: str = ""
    verb: str = ""
    object_ref: _Reference | None = None
    response_status: _Response | None = None
    response_object: Any = None
    request_object: Any = None
    stage_timestamp: str = ""
    type: str = ""
    object: Any = None
    time: str = ""


def read_events(paths: tuple[Path, ...], complaints: Complaints) -> Iterator[Event]:
    """Yield the events of several audit logs or watch streams, merged by time."""
    reading = _LineConverter()
    for moment, place, line in merge(*(_parse_lines(path, complaints) for path in paths), key=itemgetter(0)):
        with complaints.reading(place):
            yield from list(reading.read(line, moment))


def _parse_lines(path: Path, complaints: Complaints) -> Iterator[tuple[datetime, str, _Line]]:
    decoder, clock, number = msgspec.json.Decoder(_Line), _Clock(), 0
    try:
        with open_unpacked(path) as stream:
            while text := stream.readline(_LONGEST_LINE):
                number += 1
                place = f"{path}:{number}"
                if not text.strip():
                    continue
                try:
                    line = decoder.decode(text)
                    if line.type:
                        line.object = None if line.type in _NO_OBJECTS else decode_tree(line.object)
                    yield clock.moment(line, place), place, line
                except (ValueError, msgspec.DecodeError, RecursionError) as problem:
                    cut = " (the file seems to be cut off)" if not text.endswith(b"\n") else ""
                    complaints.report_bad_line(place, f"{problem}{cut}")
    except (OSError, EOFError) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem


class _Clock:
    """Reads the times of a file's lines; a time before the previous line's is raised to that."""

    def __init__(self) -> None:
        self._order = TimeChecker()
        self._first = self._last = _BEFORE

    def moment(self, line: _Line, place: str) -> datetime:
        """Return the time of a line, or of the line before if it has none; raise ValueError."""
        text = (line.time or _latest_timestamp(line.object)) if line.type else line.stage_timestamp
        if not text:
            return self._last
        found = max(times.parse(text), self._last)
        if self._first == _BEFORE:
            self._first = found
        self._order.check((found - self._first).total_seconds(), place)
        self._last = found
        return found


class _LineConverter:
    """Converts lines of an audit log or watch stream to trace events."""

    def __init__(self) -> None:
        self._start = _BEFORE
        self._tracker = ClusterTracker(as_pending)

    def read(self, line: _Line, moment: datetime) -> Iterator[Event]:
        return self._read_watch(line, moment) if line.type else self._read_audit(line, moment)

    def _seconds_at(self, moment: datetime) -> float:
        if self._start == _BEFORE:
            self._start = moment
        return (moment - self._start).total_seconds()

    def _read_audit(self, line: _Line, moment: datetime) -> Iterator[Event]:
        about, code = line.object_ref, line.response_status
        if about is None or line.stage != "ResponseComplete" or (code is not None and not 200 <= code.code < 300):
            return
        if about.resource not in ("pods", "nodes"):
            return
        at, name = self._seconds_at(moment), f"{about.namespace}/{about.name}"
        if about.resource == "pods" and about.subresource == "binding":
            yield from self._binding_events(at, name, line.request_object)
        elif line.verb == "delete":
            yield from self._removal_events(at, about)
        elif line.verb == "deletecollection":
            for gone in _listed_objects(line.response_object):
                yield from self._removal_events(at, structs.replace(about, namespace=gone.namespace, name=gone.name))
        elif line.verb in ("create", "update", "patch") and about.subresource in ("", "status"):
            if not isinstance(line.response_object, dict):
                raise ValueError(f"{line.verb} of {about.resource} without its object: the audit level is too low")
            if line.response_object.get("kind") != "Status":
                yield from self._tracker.put(at, decode_tree(line.response_object))

    def _binding_events(self, at: float, name: str, binding: Any) -> Iterator[Event]:
        target = binding.get("target") if isinstance(binding, dict) else None
        node = target.get("name") if isinstance(target, dict) else None
        if not node:
            raise ValueError("a binding without its node: the audit level is too low")
        self._tracker.pods[name] = str(node)
        yield PodBinding(at, name, str(node))

    def _removal_events(self, at: float, about: _Reference) -> Iterator[Event]:
        if about.resource == "pods":
            yield from self._tracker.remove_pod(at, f"{about.namespace}/{about.name}")
        else:
            yield from self._tracker.remove_node(at, about.name)

    def _read_watch(self, line: _Line, moment: datetime) -> Iterator[Event]:
        obj = line.object
        if isinstance(obj, Pod | Node):
            at, meta = self._seconds_at(moment), obj.metadata
            if line.type != "DELETED":
                yield from self._tracker.put(at, obj)
            else:
                kind = "pods" if isinstance(obj, Pod) else "nodes"
                yield from self._removal_events(at, _Reference(kind, meta.namespace, meta.name))


def _listed_objects(found: Any) -> list[_Reference]:
    try:
        return [item.metadata for item in msgspec.convert(found, _List).items]
    except msgspec.ValidationError as problem:
        raise ValueError("a deletion of many without its objects: the audit level is too low") from problem


def _latest_timestamp(obj: Any) -> str:
    if not isinstance(obj, Resource):
        return ""
    meta = obj.metadata
    text = [meta.creation_timestamp or "", meta.deletion_timestamp or ""]
    if isinstance(obj, Pod):
        text += [each.last_transition_time or "" for each in obj.status.conditions if each.type == "PodScheduled"]
    return max(text)
