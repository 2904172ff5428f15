"""Changes to a simulated cluster, and scenarios of changes, as plain values.

Parsed from the command line (``cli/commands/simulate.py``) and from files (``scenario_file.py``); ``applying.py``
applies them. Nodes are selected by name or pattern: `worker-3`, `worker-*`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mooring.api.core_v1 import Node
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.meta_v1 import Resource

if TYPE_CHECKING:
    from mooring.advisor.simulate.descheduling import Profile

Patterns: TypeAlias = tuple[str, ...]
"""Names of nodes, or patterns with `*` and `?` as in file names."""


class ScenarioError(ValueError):
    """A scenario cannot be executed. The message says why, and where."""


@dataclass(frozen=True, slots=True)
class Add:
    """Create or update objects as `kubectl apply` would; the pods of workloads are created, too."""

    objects: tuple[Resource, ...]
    replicas: int | None = None
    """Overrides the workloads' replicas; plain pods are created that many times."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an object and its dependents."""

    kind: str
    """As in manifests: `Deployment`."""
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Change the number of replicas of a workload."""

    kind: str
    namespace: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon nodes and evict their pods as `kubectl drain --ignore-daemonsets` does, with retries."""

    nodes: Patterns


@dataclass(frozen=True, slots=True)
class Taint:
    """Add a taint to nodes."""

    nodes: Patterns
    taint: NodeTaint


@dataclass(frozen=True, slots=True)
class Untaint:
    """Remove the taints with a key from nodes."""

    nodes: Patterns
    key: str
    effect: str = ""
    """Empty for all effects."""


@dataclass(frozen=True, slots=True)
class Label:
    """Set or remove a label of nodes."""

    nodes: Patterns
    key: str
    value: str | None
    """The label's new value; None removes the label."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Mark nodes as unschedulable, or as schedulable again."""

    nodes: Patterns
    unschedulable: bool = True


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Remove nodes without draining, as a failure would."""

    nodes: Patterns


@dataclass(frozen=True, slots=True)
class AddNodes:
    """Add nodes made from templates, or copied from an existing node."""

    number: int
    templates: tuple[Node, ...] = ()
    """The templates of the new nodes, used in turn; without any, a node of 32 cores."""
    like: str = ""
    """The name of an existing node to copy instead."""


Change: TypeAlias = Add | Remove | Scale | Drain | Taint | Untaint | Label | Cordon | RemoveNodes | AddNodes


@dataclass(frozen=True, slots=True)
class Step:
    """Changes that happen at the same time."""

    changes: tuple[Change, ...]
    at: float | None = None
    """Seconds since the start; None for as soon as the effects of earlier steps have settled."""
    name: str = ""


AFTERMATH = 3600.0
"""The default time simulated after the last step, in seconds."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The steps of a what-if simulation, in order, with its options."""

    steps: tuple[Step, ...] = ()
    seed: int = 0
    """The seed for choosing among nodes with equal scores."""
    until: float | None = None
    """When to stop; None to stop when nothing changes any more, at most an hour after the last step."""
    keep_pending: bool = False
    """Whether pods that are pending in the snapshot are not scheduled."""
    descheduler: "tuple[Profile, ...]" = ()
    """Profiles of a descheduler that runs after the last step, every five minutes until it evicts nothing."""
    until_full: bool = False
    """Whether to add pods of the last added workload at the end, until one does not fit."""
    name: str = ""
