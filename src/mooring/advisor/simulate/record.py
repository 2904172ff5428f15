"""What happened in a simulation, noted as it happens; ``outcome.py`` makes the result of it."""

from dataclasses import dataclass, field

from mooring.advisor.simulate.clock import VirtualClock
from mooring.advisor.simulate.pods import SimulatedPod


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that had to go."""

    at: float
    pod: SimulatedPod
    node: str
    cause: str
    """Why, or which pod took its place."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that the server did not take."""

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
        """A pod has got its node: of interest to those who measure."""

    def left(self, pod: SimulatedPod) -> None:
        """A pod is about to be gone, for whatever reason."""

    def evicted(self, pod: SimulatedPod, cause: str) -> None:
        self.evictions.append(Departure(self.clock.monotonic(), pod, pod.node, cause))

    def preempted(self, pod: SimulatedPod, by: str) -> None:
        self.preemptions.append(Departure(self.clock.monotonic(), pod, pod.node, by))

    def refused(self, name: str, message: str) -> None:
        self.refusals.append(Refusal(name, message))
