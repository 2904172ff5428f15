"""The events of a trace in time order. Readers create them, ``replaying.py`` applies them.

Times are seconds since the start of the trace. Pods are identified by `namespace/name`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource

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
class PodArrives:
    at: float
    pod: Pod
    lasts: float | None = None
    """Seconds that it runs on its node; None until a PodLeaves event."""

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


@dataclass(frozen=True, slots=True)
class PodLeaves:
    at: float
    name: str


@dataclass(frozen=True, slots=True)
class PodBound:
    """The recorded node of a pod: no effect, for comparison only."""

    at: float
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeComes:
    """A node was added or changed."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGoes:
    at: float
    name: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class ObjectComes:
    """Another object was created or changed; workloads create their pods."""

    at: float
    object: Resource


@dataclass(frozen=True, slots=True)
class ObjectGoes:
    at: float
    kind: str
    namespace: str
    name: str


Event: TypeAlias = PodArrives | PodLeaves | PodBound | NodeComes | NodeGoes | ObjectComes | ObjectGoes
