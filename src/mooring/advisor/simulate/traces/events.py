"""The events of a trace in time order. Readers create them, ``replaying.py`` applies them.

Times are seconds since the start of the trace. Pods are identified by `namespace/name`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import structs

from mooring.advisor.snapshot.objects import decode_newest
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import Quantity, parse
from mooring.api.states import has_ended
from mooring.constraints.requests import requests_of
from mooring.scheduler.facade import DEFAULT_SCHEDULER

MAX_SECONDS = 1e10
"""The maximum length of a trace, in seconds: three hundred years."""
MAX_GAP_SECONDS = 10 * 366 * 86_400.0
"""The maximum time without events; more is an error."""


class TraceError(ValueError):
    """A trace that cannot be replayed. The message names the file and the line."""


def check_duration(seconds: float) -> float:
    """Validate the duration of a pod. Raise ValueError."""
    if not 0 <= seconds <= MAX_SECONDS:  # also false for NaN
        raise ValueError(f"the duration is {seconds:g}, {'a negative one' if seconds < 0 else 'longer than any trace'}")
    return seconds


@dataclass(frozen=True, slots=True)
class PodArrival:
    at: float
    pod: Pod
    lasts: float | None = None
    """The seconds for which it runs on its node; None if a PodLeaves event ends it."""

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


@dataclass(frozen=True, slots=True)
class PodDeparture:
    at: float
    name: str


@dataclass(frozen=True, slots=True)
class PodBinding:
    """Event: a pod was bound to a node in the recorded cluster; the replay only compares its own choice with it."""

    at: float
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeArrival:
    """Event: a node was added or changed."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeDeparture:
    at: float
    name: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class ObjectArrival:
    """Event: an object other than a pod or node was created or changed; workloads create their pods."""

    at: float
    object: Resource


@dataclass(frozen=True, slots=True)
class ObjectDeparture:
    at: float
    kind: str
    namespace: str
    name: str


Event: TypeAlias = (
    PodArrival | PodDeparture | PodBinding | NodeArrival | NodeDeparture | ObjectArrival | ObjectDeparture
)


class ClusterTracker:
    """Turn changed objects into trace events, and track which pods and nodes exist. Call it in the order of time.

    A pod that has ended leaves. A node that changes only in what scheduling does not read causes no event.
    """

    def __init__(self, arriving: Callable[[Pod], Pod]) -> None:
        """`arriving` converts each new pod for its event; if the result has no node, binding is a second event."""
        self._arriving = arriving
        self.pods: dict[str, str] = {}
        """The nodes of the existing pods, by pod name; empty for pending pods."""
        self.nodes: dict[str, object] = {}
        """The fields of the existing nodes that scheduling reads, by name; None if they are unknown."""

    def put(self, at: float, obj: Resource) -> Iterator[Event]:
        """Yield the trace events for a created or changed pod or node; none for other kinds."""
        if isinstance(obj, Node):
            seen = scheduling_fields_of(obj)
            if self.nodes.get(obj.metadata.name, ()) != seen:
                self.nodes[obj.metadata.name] = seen
                yield NodeArrival(at, obj)
        elif isinstance(obj, Pod):
            name, node = f"{obj.metadata.namespace}/{obj.metadata.name}", obj.spec.node_name
            if has_ended(obj):
                yield from self.remove_pod(at, name)
                return
            if name not in self.pods:
                new = self._arriving(obj)
                self.pods[name] = new.spec.node_name
                yield PodArrival(at, new)
            if node and not self.pods[name]:
                self.pods[name] = node
                yield PodBinding(at, name, node)

    def remove_pod(self, at: float, name: str) -> Iterator[Event]:
        if self.pods.pop(name, None) is not None:
            yield PodDeparture(at, name)

    def remove_node(self, at: float, name: str) -> Iterator[Event]:
        if name in self.nodes:
            del self.nodes[name]
            yield NodeDeparture(at, name)


def scheduling_fields_of(node: Node) -> tuple[object, ...]:
    """Return the fields of a node that scheduling reads; heartbeats leave them equal."""
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable, node.status.allocatable


def as_pending(pod: Pod) -> Pod:
    """Return a pending copy of a pod, without its node, for the replay to schedule."""
    spec = structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    return structs.replace(pod, spec=spec, status=PodStatus(phase="Pending"))


_SHOWN = 5


class Complaints:
    """Collects messages about lines of a trace that are skipped or unusual."""

    def __init__(self, *, skips: bool = False) -> None:
        self._skips = skips
        self.skipped = 0
        self._examples: list[str] = []
        self._notes: Counter[str] = Counter()

    def report_bad_line(self, place: str, message: str) -> None:
        """Count a line that cannot be used as skipped; raise TraceError instead unless bad lines are skipped."""
        text = f"{place}: {message}"
        if not self._skips:
            raise TraceError(f"{text} (--skip-bad leaves such lines out and counts them)")
        self.skipped += 1
        if len(self._examples) < _SHOWN:
            self._examples.append(text)

    @contextmanager
    def reading(self, place: str) -> Iterator[None]:
        """Catch ValueErrors of the block, which reads one line, and pass them to `report_bad_line`."""
        try:
            yield
        except (ValueError, RecursionError) as problem:
            self.report_bad_line(place, str(problem))

    def add_note(self, place: str, message: str) -> None:
        """Count a message about an unusual but usable line; keep the place of its first line as an example."""
        if message not in self._notes and len(self._notes) < 1000:
            self._examples.append(f"{place}: {message}")
        self._notes[message] += 1

    def summary(self) -> list[str]:
        """Return texts with the first skipped or unusual lines, and the number of skipped lines."""
        found = list(self._examples)
        if self.skipped:
            found.append(f"{self.skipped:,} lines were skipped")
        return found


class TimeChecker:
    """Checks that the times of a file's lines are valid: not negative, in order, without gaps of years."""

    def __init__(self, *, ordered: bool = True) -> None:
        self._ordered = ordered
        self._last = 0.0
        self._last_place = ""

    def check(self, at: float, place: str) -> None:
        """Raise ValueError unless the time of the next line is valid; `place` names the line in later messages."""
        if not 0 <= at <= MAX_SECONDS:  # also false for NaN
            raise ValueError(f"the time {at:g} is {'negative' if at < 0 else 'not one that a trace can have'}")
        gap = at - self._last
        if self._ordered and gap < 0:
            before = f"{self._last:g}, that of {self._last_place}"
            raise ValueError(f"the time {at:g} is before {before}: sort the events by time")
        if self._ordered and self._last_place and gap > MAX_GAP_SECONDS:
            raise ValueError(f"nothing happens for {gap:,.0f} s, which is more than ten years: look at the time {at:g}")
        self._last, self._last_place = at, place


Amounts = tuple[tuple[str, str], ...]
_STATUS = PodStatus(phase="Pending")


def build_pod(
    name: str,
    namespace: str,
    resources: Amounts,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
) -> Pod:
    """Build a pod with one container. Raise ValueError for an invalid quantity."""
    metadata = ObjectMeta(
        name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
    )
    return Pod(
        api_version="v1", kind="Pod", metadata=metadata, spec=_build_pod_spec(resources, priority), status=_STATUS
    )


@lru_cache(4096)
def _build_pod_spec(resources: Amounts, priority: int) -> PodSpec:
    asked = parse_quantities(resources)
    scalar = {name: amount for name, amount in asked.items() if "/" in name}
    container = Container(name="main", resources=ResourceRequirements(requests=asked, limits=scalar))
    return PodSpec(containers=[container], scheduler_name=DEFAULT_SCHEDULER, priority=priority)


def build_node(name: str, resources: Mapping[str, str], labels: Mapping[str, str]) -> Node:
    amounts = parse_quantities(resources.items())
    return Node(
        api_version="v1",
        kind="Node",
        metadata=ObjectMeta(name=name, labels=dict(labels)),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def parse_quantities(resources: Iterable[tuple[str, str]]) -> dict[str, Quantity]:
    found = {}
    for name, amount in resources:
        try:
            found[name] = parse(amount)
        except ValueError as problem:
            raise ValueError(f'{name} is "{amount[:40]}": {problem}') from None
    check_amounts(found)
    return found


def check_amounts(amounts: Mapping[str, Quantity]) -> None:
    """Raise ValueError if a quantity is negative."""
    negative = next((name for name, amount in amounts.items() if amount.sign() < 0), None)
    if negative is not None:
        raise ValueError(f"{negative} is {amounts[negative]}, a negative amount")


def with_pod_name(pod: Pod, name: str) -> Pod:
    """Return a copy of a pod with another name and without its uid."""
    return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=""))


def decode_tree(tree: Any) -> Resource:
    """Decode an object of any known kind from a dict; raise ValueError."""
    obj = decode_newest(tree, FieldValidation.IGNORE)
    if not obj.metadata.name:
        raise ValueError(f"a {obj.kind} without a name")
    if isinstance(obj, Pod):
        check_amounts(requests_of(obj, pod_level=True))
    elif isinstance(obj, Node):
        check_amounts(obj.status.allocatable)
    return obj
