"""What can be done to a cluster in a simulation, as plain values, and a scenario: changes in their order.

Read from the command line (``cli/commands/simulate.py``) and from files (``scenario_file.py``); ``applying.py`` carries
them out. Nodes are meant by name or by pattern: `worker-3`, `worker-*`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from mooring.api.core_v1 import Node
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.meta_v1 import Resource

Patterns: TypeAlias = tuple[str, ...]
"""Names of nodes, with `*` and `?` as in file names."""


class ScenarioError(ValueError):
    """A scenario that cannot be carried out. The message says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Add:
    """Create objects as `kubectl apply` would; workloads bring their pods."""

    objects: tuple[Resource, ...]
    replicas: int | None = None
    """In place of what the workloads say themselves; pods of their own become so many."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an object and what belongs to it."""

    kind: str
    """As in manifests: `Deployment`."""
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon nodes and evict their pods as `kubectl drain --ignore-daemonsets` does, again and again."""

    nodes: Patterns


@dataclass(frozen=True, slots=True)
class Taint:
    nodes: Patterns
    taint: NodeTaint


@dataclass(frozen=True, slots=True)
class Untaint:
    nodes: Patterns
    key: str
    effect: str = ""
    """Empty for all effects."""


@dataclass(frozen=True, slots=True)
class Label:
    nodes: Patterns
    key: str
    value: str | None
    """None takes the label away."""


@dataclass(frozen=True, slots=True)
class Cordon:
    nodes: Patterns
    unschedulable: bool = True


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Take nodes away as if they had burnt down: nobody asks their pods."""

    nodes: Patterns


@dataclass(frozen=True, slots=True)
class AddNodes:
    number: int
    templates: tuple[Node, ...] = ()
    """One after the other, again from the first; a node of 32 cores without any."""


Change: TypeAlias = Add | Remove | Drain | Taint | Untaint | Label | Cordon | RemoveNodes | AddNodes


@dataclass(frozen=True, slots=True)
class Step:
    """Changes that happen together."""

    changes: tuple[Change, ...]
    at: float | None = None
    """In seconds since the start; None for as soon as everything that came before has found its place."""
    name: str = ""


AFTERMATH = 3600.0
"""How long after the last step things are looked at, in seconds, where nobody says another time."""


@dataclass(frozen=True, slots=True)
class Scenario:
    steps: tuple[Step, ...] = ()
    seed: int = 0
    """Decides among nodes that are equally good."""
    until: float | None = None
    """When to stop looking; None for when nothing more happens, at the latest an hour after the last step."""
    keep_pending: bool = False
    """Leave the pods alone that are pending in the snapshot."""
    until_full: bool = False
    """At the end add pods of the last workload that was added, until one does not fit."""
    name: str = ""
