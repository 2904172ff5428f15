"""What happens in a trace, one value an event, in the order of time. Readers make them, ``replaying.py`` acts on them.

Times are seconds since the beginning of the trace. Pods are known by `namespace/name`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource

LONGEST = 1e10
"""No trace lasts longer, in seconds: three hundred years."""
LONGEST_GAP = 10 * 366 * 86_400.0
"""Nothing happens for at most so long; more is a mistake in a time."""


class TraceError(ValueError):
    """A trace that cannot be replayed. The message names the file and the line."""


def lasting(seconds: float) -> float:
    """How long a pod runs, if one can run so long. Raises ValueError."""
    if not 0 <= seconds <= LONGEST:  # false for what is no number, too
        raise ValueError(f"the duration is {seconds:g}, {'a negative one' if seconds < 0 else 'longer than any trace'}")
    return seconds


@dataclass(frozen=True, slots=True)
class PodArrives:
    at: float
    pod: Pod
    lasts: float | None = None
    """How long it runs once it has its node; None until it is told to leave."""

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


@dataclass(frozen=True, slots=True)
class PodLeaves:
    at: float
    name: str


@dataclass(frozen=True, slots=True)
class PodBound:
    """Where the recorded cluster put a pod: nothing happens, but replays can be compared with it."""

    at: float
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeComes:
    """A node is new, is back, or has changed."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGoes:
    at: float
    name: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class ObjectComes:
    """Anything else is created or changed; workloads bring their pods."""

    at: float
    object: Resource


@dataclass(frozen=True, slots=True)
class ObjectGoes:
    at: float
    kind: str
    namespace: str
    name: str


Event: TypeAlias = PodArrives | PodLeaves | PodBound | NodeComes | NodeGoes | ObjectComes | ObjectGoes
