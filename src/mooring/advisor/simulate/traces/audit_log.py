"""What a real cluster wrote down: an API server's audit log, or a stream of watch events; JSON, one object a line.

An audit log (`apiVersion: audit.k8s.io/v1`) needs the level RequestResponse for pods and nodes: then it has the objects
as the server stored them, bindings with their nodes, and deletions. Lines about other resources, of other stages and of
requests that failed are passed over.

A stream of watch events (`{"type": "ADDED", "object": …}`), as `kubectl get pods --watch --output-watch-events -o json`
prints it, has no times of its own; a field `"time"` in RFC 3339 beside `type` gives one, otherwise the times that
objects tell are taken: when they were created, scheduled or deleted.
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import structs

from mooring.advisor.simulate.traces.complaints import Complaints
from mooring.advisor.simulate.traces.events import (
    Event,
    NodeComes,
    NodeGoes,
    PodArrives,
    PodBound,
    PodLeaves,
    TraceError,
)
from mooring.advisor.simulate.traces.kinds import from_tree_of
from mooring.advisor.simulate.traces.tables import GZIP_MAGIC
from mooring.api import times
from mooring.api.core_v1 import Node, Pod, PodStatus
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended

_LONGEST_LINE = 16 * 1024 * 1024


class _Reference(msgspec.Struct):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Response(msgspec.Struct):
    code: int = 200


class _Line(msgspec.Struct, rename="camel"):
    """A line of either form."""

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


def events(path: Path, complaints: Complaints) -> Iterator[Event]:
    reading = _Reading()
    decoder = msgspec.json.Decoder(_Line)
    try:
        with _opened(path) as stream:
            number = 0
            while line := stream.readline(_LONGEST_LINE):
                number += 1
                if not line.strip():
                    continue
                try:
                    found = list(reading.read(decoder.decode(line)))
                except (ValueError, msgspec.DecodeError, RecursionError) as problem:
                    cut = " (the file seems to be cut off)" if not line.endswith(b"\n") else ""
                    complaints.bad(f"{path}:{number}", f"{problem}{cut}")
                    continue
                yield from found
    except (OSError, EOFError) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as stream:
        is_packed = stream.peek(2)[:2] == GZIP_MAGIC
        with gzip.GzipFile(fileobj=stream) if is_packed else stream as whole:
            yield whole  # type: ignore[misc] # a GzipFile reads bytes as well


class _Reading:
    """Makes events of lines, and knows which pods are there and bound."""

    def __init__(self) -> None:
        self._start: datetime | None = None
        self._last = 0.0
        self._pods: dict[str, str] = {}
        """The pods that have come and not gone, with the node of those that have one."""
        self._nodes: dict[str, Node] = {}

    def read(self, line: _Line) -> Iterator[Event]:
        if line.type:
            return self._watched(line)
        return self._audited(line)

    def _at(self, text: str) -> float:
        """Seconds since the first line. A server's times may lag a little behind one another: they never go back."""
        if not text:
            return self._last
        moment = times.parse(text)
        if self._start is None:
            self._start = moment
        self._last = max(self._last, (moment - self._start).total_seconds())
        return self._last

    # -- audit logs

    def _audited(self, line: _Line) -> Iterator[Event]:
        about, code = line.object_ref, line.response_status
        if about is None or line.stage != "ResponseComplete" or (code is not None and not 200 <= code.code < 300):
            return
        if about.resource not in ("pods", "nodes"):
            return
        at, name = self._at(line.stage_timestamp), f"{about.namespace}/{about.name}"
        if about.resource == "pods" and about.subresource == "binding":
            yield from self._binds(at, name, line.request_object)
        elif line.verb == "delete":
            yield from self._goes(at, about)
        elif line.verb in ("create", "update", "patch") and about.subresource in ("", "status"):
            if not isinstance(line.response_object, dict):
                raise ValueError(f"{line.verb} of {about.resource} without its object: the audit level is too low")
            if line.response_object.get("kind") != "Status":
                yield from self._comes(at, from_tree_of(line.response_object))

    def _binds(self, at: float, name: str, binding: Any) -> Iterator[Event]:
        target = binding.get("target") if isinstance(binding, dict) else None
        node = target.get("name") if isinstance(target, dict) else None
        if not node:
            raise ValueError("a binding without its node: the audit level is too low")
        self._pods[name] = str(node)
        yield PodBound(at, name, str(node))

    def _goes(self, at: float, about: _Reference) -> Iterator[Event]:
        if about.resource == "pods":
            name = f"{about.namespace}/{about.name}"
            if self._pods.pop(name, None) is not None:
                yield PodLeaves(at, name)
        elif self._nodes.pop(about.name, None) is not None:
            yield NodeGoes(at, about.name)

    # -- watches

    def _watched(self, line: _Line) -> Iterator[Event]:
        if line.type in ("BOOKMARK", "ERROR"):
            return
        obj = from_tree_of(line.object)
        if not isinstance(obj, Pod | Node):
            return
        at = self._at(line.time or _told(obj))
        if line.type != "DELETED":
            yield from self._comes(at, obj)
        elif isinstance(obj, Pod):
            name = f"{obj.metadata.namespace}/{obj.metadata.name}"
            if self._pods.pop(name, None) is not None:
                yield PodLeaves(at, name)
        else:
            self._nodes.pop(obj.metadata.name, None)
            yield NodeGoes(at, obj.metadata.name)

    def _comes(self, at: float, obj: Resource) -> Iterator[Event]:
        if isinstance(obj, Node):
            before = self._nodes.get(obj.metadata.name)
            self._nodes[obj.metadata.name] = obj
            if before is None or seen_of(before) != seen_of(obj):
                yield NodeComes(at, obj)
        elif isinstance(obj, Pod):
            yield from self._pod(at, obj)

    def _pod(self, at: float, pod: Pod) -> Iterator[Event]:
        name, node = f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name
        if has_ended(pod):
            if self._pods.pop(name, None) is not None:
                yield PodLeaves(at, name)
            return
        if name not in self._pods:
            self._pods[name] = ""
            yield PodArrives(at, unbound(pod))
        if node and not self._pods[name]:
            self._pods[name] = node
            yield PodBound(at, name, node)


def unbound(pod: Pod) -> Pod:
    """A pod as it was before it had a node: the replay finds one for it. Pods of DaemonSets name theirs by affinity."""
    spec = structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    return structs.replace(pod, spec=spec, status=PodStatus(phase="Pending"))


def seen_of(node: Node) -> tuple[object, ...]:
    """What scheduling sees of a node: heartbeats are no events."""
    spec, status = node.spec, node.status
    return node.metadata.labels, spec.taints, spec.unschedulable, status.allocatable


def _told(obj: Pod | Node) -> str:
    """The latest time that an object tells of itself."""
    meta = obj.metadata
    told = [meta.creation_timestamp or "", meta.deletion_timestamp or ""]
    if isinstance(obj, Pod):
        told += [each.last_transition_time or "" for each in obj.status.conditions if each.type == "PodScheduled"]
    return max(told)
