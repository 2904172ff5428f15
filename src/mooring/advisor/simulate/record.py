"""Record the events of a simulation; ``outcome.py`` builds the result."""

from dataclasses import dataclass, field

from mooring.advisor.simulate.clock import VirtualClock
from mooring.advisor.simulate.pods import SimulatedPod


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that was evicted or preempted."""

    at: float
    pod: SimulatedPod
    node: str
    cause: str
    """The cause, or the pod that preempted it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that the server rejected."""

    name: str
    message: str


@dataclass(slots=True)
class Record:
    clock: VirtualClock
    evictions: list[Departure] = field(default_factory=list)
    preemptions: list[Departure] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    attempts: int = 0

    def placed(self, pod: SimulatedPod) -> None:
        """Record a placed pod; overridden for measurements."""

    def removed(self, pod: SimulatedPod) -> None:
        """Record that a pod is about to be deleted."""

    def evicted(self, pod: SimulatedPod, cause: str) -> None:
        self.evictions.append(Departure(self.clock.monotonic(), pod, pod.node, cause))

    def preempted(self, pod: SimulatedPod, by: str) -> None:
        self.preemptions.append(Departure(self.clock.monotonic(), pod, pod.node, by))

    def refused(self, name: str, message: str) -> None:
        self.refusals.append(Refusal(name, message))
