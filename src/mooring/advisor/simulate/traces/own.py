"""Mooring's own trace format: a table (CSV or Parquet) with one row for each event, in the order of time.

    time                 seconds since the beginning
    event                add, change, remove, fail (of a node), bind (the node of a pod in a recorded cluster);
                         begin, in the first row of a recording, has the start time as its name
    kind                 Pod or Node; other kinds need `object`
    namespace            of a pod; `default` when empty
    name
    node                 of a bind, or the node that a pod has from the start
    duration             seconds that a pod runs once it has its node; empty: until it is removed
    priority             of a pod
    resources            the requests of a pod or the capacity of a node: `cpu=4 memory=16Gi nvidia.com/gpu=1`
    labels, annotations  `team=a tier=web`
    object               the whole object as JSON instead of the last four, as `mooring record` writes it

Only `time`, `event`, `kind` and `name` are required; further columns are ignored.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import IO

import msgspec
from msgspec import structs

from mooring.advisor.simulate.traces.events import (
    Amounts,
    Complaints,
    Event,
    NodeArrival,
    NodeDeparture,
    ObjectArrival,
    ObjectDeparture,
    PodArrival,
    PodBinding,
    PodDeparture,
    TimeChecker,
    build_node,
    build_pod,
    check_duration,
    decode_tree,
)
from mooring.advisor.simulate.traces.tables import read_rows
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api import codec, times
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource

COLUMNS = (
    "time",
    "event",
    "kind",
    "namespace",
    "name",
    "node",
    "duration",
    "priority",
    "resources",
    "labels",
    "annotations",
    "object",
)
NEEDED = frozenset({"time", "event", "kind", "name"})
_EVENTS = ("add", "change", "remove", "fail", "bind")
_LEAST_PRIORITY = -(2**31)
_POD_AMOUNT = {"pods": "110"}


def read_events(path: Path, complaints: Complaints) -> Iterator[Event]:
    order = TimeChecker()
    for place, row in read_rows(path, complaints):
        if row["event"] == "begin":
            continue
        with complaints.reading(place):
            event = _parse_event(row)
            order.check(event.at, place)
            yield event


def read_start_time(stream: IO[str]) -> datetime | None:
    """Return the start time of a recording from its first line; None for other tables."""
    first = next(csv.DictReader(stream), {})
    if first.get("event") != "begin":
        return None
    try:
        return times.parse(first.get("name") or "")
    except times.TimeError:
        return None


def _parse_event(row: Mapping[str, str]) -> Event:
    at, what, kind, name = _parse_number(row["time"], "time"), row["event"], row["kind"], row["name"]
    if what not in _EVENTS:
        raise ValueError(f'the event is "{what[:40]}", which is none of {", ".join(_EVENTS)}')
    if not name:
        raise ValueError(f"a {kind or 'line'} without a name")
    namespace = row.get("namespace") or "default"
    if kind == "Pod":
        return _parse_pod_event(row, at, what, namespace, name)
    if not kind:
        raise ValueError("the kind is empty; it is Pod or Node")
    if what == "bind" or (what == "fail" and kind != "Node"):
        or_fail = ", or fail" if kind == "Node" else ""
        raise ValueError(f"a {kind[:40]} can be added, changed and removed{or_fail}; {what} is for others")
    if kind == "Node":
        if what in ("add", "change"):
            return NodeArrival(at, _parse_node(row, name))
        return NodeDeparture(at, name, fails=what == "fail")
    if what == "remove":
        return ObjectDeparture(at, kind, namespace, name)
    if not row.get("object"):
        raise ValueError(f'a {kind[:40]} needs the column "object"; only Pods and Nodes do without it')
    return ObjectArrival(at, decode_object(row["object"]))


def _parse_pod_event(row: Mapping[str, str], at: float, what: str, namespace: str, name: str) -> Event:
    if what == "remove":
        return PodDeparture(at, f"{namespace}/{name}")
    if what == "bind":
        return PodBinding(at, f"{namespace}/{name}", row.get("node", ""))
    if what != "add":
        raise ValueError(f"a pod can be added, bound and removed; {what} is for nodes")
    lasts = check_duration(_parse_number(row["duration"], "duration")) if row.get("duration") else None
    return PodArrival(at, _parse_pod(row, namespace, name), lasts)


def _parse_pod(row: Mapping[str, str], namespace: str, name: str) -> Pod:
    if row.get("object"):
        pod = decode_object(row["object"])
        if not isinstance(pod, Pod):
            raise ValueError(f"the object is a {pod.kind}, not a Pod")
        pod = structs.replace(pod, metadata=structs.replace(pod.metadata, namespace=namespace, name=name))
    else:
        priority = _parse_priority(row["priority"]) if row.get("priority") else 0
        resources = parse_pairs(row.get("resources", ""), "resources")
        labels, annotations = (dict(parse_pairs(row.get(column, ""), column)) for column in ("labels", "annotations"))
        pod = build_pod(name, namespace, resources, labels=labels, annotations=annotations, priority=priority)
    if row.get("node"):
        pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=row["node"]))
    return pod


def _parse_node(row: Mapping[str, str], name: str) -> Node:
    if row.get("object"):
        node = decode_object(row["object"])
        if not isinstance(node, Node):
            raise ValueError(f"the object is a {node.kind}, not a Node")
        return structs.replace(node, metadata=structs.replace(node.metadata, name=name))
    resources = _POD_AMOUNT | dict(parse_pairs(row.get("resources", ""), "resources"))
    labels = {"kubernetes.io/hostname": name} | dict(parse_pairs(row.get("labels", ""), "labels"))
    return build_node(name, resources, labels)


@lru_cache(4096)
def parse_pairs(text: str, column: str) -> Amounts:
    """Parse `a=1 b=2` into pairs of name and value. Raise ValueError with the name of the column."""
    found = []
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f'{column}: "{word[:40]}" is not of the form name=value')
        found.append((key, value))
    return tuple(found)


def decode_object(text: str) -> Resource:
    """Decode an object of any known kind from JSON. Raise ValueError."""
    try:
        return decode_tree(msgspec.json.decode(text))
    except msgspec.DecodeError as problem:
        raise ValueError(f"the object is not JSON: {problem}") from problem


def _parse_priority(text: str) -> int:
    found = _parse_number(text, "priority")
    if not _LEAST_PRIORITY <= found < -_LEAST_PRIORITY:
        which = f"from {_LEAST_PRIORITY} to {-_LEAST_PRIORITY - 1}"
        raise ValueError(f"the priority is {found:g}, which is not {which}")
    return int(found)


def _parse_number(text: str, column: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f'{column} is "{text[:40]}", not a number') from None
    if math.isnan(found):
        raise ValueError(f"{column} is not a number")
    return found


class TraceWriter:
    """Writes trace events as rows of a CSV file."""

    def __init__(self, stream: IO[str], *, header: bool = True) -> None:
        self._writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if header:
            self._writer.writeheader()

    def begin(self, moment: str) -> None:
        """Write the first row of a recording, which holds its start time."""
        self._writer.writerow({"time": "0", "event": "begin", "kind": "Trace", "name": moment})

    def write(self, happened: Iterable[Event]) -> None:
        self._writer.writerows(map(row_of, happened))


def row_of(event: Event) -> dict[str, str]:
    """Return a row of the table for an event: its values by column."""
    found = {"time": f"{event.at:.6f}".rstrip("0").rstrip(".")}
    match event:
        case PodArrival(pod=pod, lasts=lasts):
            found |= _fields_of_addition(pod)
            found |= {"duration": f"{lasts:g}"} if lasts is not None else {}
        case PodDeparture(name=name) | PodBinding(name=name):
            namespace, _, own = name.partition("/")
            what = "remove" if isinstance(event, PodDeparture) else "bind"
            found |= {"event": what, "kind": "Pod", "namespace": namespace, "name": own}
            found |= {"node": event.node} if isinstance(event, PodBinding) else {}
        case NodeArrival(node=obj) | ObjectArrival(object=obj):
            found |= _fields_of_addition(obj)
        case NodeDeparture(name=name, fails=fails):
            found |= {"event": "fail" if fails else "remove", "kind": "Node", "name": name}
        case ObjectDeparture(kind=kind, namespace=namespace, name=name):
            found |= {"event": "remove", "kind": kind, "namespace": namespace, "name": name}
    return found


def _fields_of_addition(obj: Resource) -> dict[str, str]:
    kind = next(known for known in full_scheme().known if known.type is type(obj))
    whole = structs.replace(obj, api_version=kind.api_version, kind=kind.kind)
    meta = obj.metadata
    named = {"event": "add", "kind": kind.kind, "namespace": meta.namespace, "name": meta.name}
    return named | {"object": codec.encode(whole).decode()}
