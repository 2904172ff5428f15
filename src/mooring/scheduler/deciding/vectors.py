"""The Filter and Score plugins of a profile with what they declare, and vectors: one plugin's results by node row.

A `Vector` compares its positions with the inputs that its plugin declares, and collects the rows to evaluate again.
Verdicts are in ``filter_vectors.py``, scores in ``score_vectors.py``; ``evaluation.py`` makes and combines them.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from mooring.api.core_v1 import PodSpec
from mooring.constraints.columns.revisions import NEVER, ChangedRows, Derived, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input, Revision
from mooring.scheduler.columns.signatures import DeclaredParts, Part, Signer
from mooring.scheduler.framework import Declaration, FilterPlugin, ScorePlugin, Status
from mooring.scheduler.framework.profiles import Profile

_serials = count(1)
_NEVER_CHANGES = Revision()


class PlannedPlugin:
    """A Filter or Score plugin in a profile, with the parts of a pod and the inputs that it reads."""

    def __init__(
        self, plugin: Any, timed: Callable[[Any], Any], cluster: Cluster, *, index: int, weight: int = 0
    ) -> None:
        self.plugin = timed(plugin)
        self.name: str = plugin.name
        self.index = index
        """The index of the plugin among the filters or scores of its profile."""
        self.weight = weight
        """The weight of its scores; 0 for filters."""
        self.is_per_node = not isinstance(plugin, ScorePlugin if weight else FilterPlugin)
        """Whether the plugin evaluates one node at a time."""
        if self.is_per_node:
            declared = Declaration(Part.POD, has_pre_point=not weight and hasattr(plugin, "pre_filter_pod"))
        else:
            declared = plugin.scores if weight else plugin.filters
        self.declared = declared
        self.has_pre_point = declared.has_pre_point
        """Whether kube-scheduler's plugin of this name has PreFilter or PreScore, so that metrics count the call."""
        self.reads_pod = Part.POD in declared.pod
        """Whether the plugin reads the pod itself and is therefore called for every pod."""
        self.log = cluster.inputs.log(declared.rows)
        self.revision = cluster.inputs.revision(declared.cluster)
        self.refresh: Callable[..., Derived | Input] | None = None
        """The method that updates a state after inputs of the cluster changed; None if the plugin declares none."""
        if declared.cluster:
            self.refresh = self.plugin.refresh_score if weight else self.plugin.refresh
        self.reads_only_node = not (self.reads_pod or declared.cluster or declared.rows & Input.PODS)
        """Whether the results depend on the nodes alone and not on placed pods."""
        self.applies_to: Callable[[PodSpec], Status | None] = getattr(plugin, "applies_to", _depends_on_pod)


def _depends_on_pod(_spec: PodSpec) -> Status | None:
    return None


@dataclass(slots=True)
class PartReaders:
    """The Filter and Score plugins that read the same parts of a pod."""

    parts: DeclaredParts
    filters: list[PlannedPlugin] = field(default_factory=list)
    scores: list[PlannedPlugin] = field(default_factory=list)


class Plan:
    """The Filter and Score plugins of a profile, in order."""

    def __init__(
        self, profile: Profile, cluster: Cluster, timed: Callable[[Any], Any], signers: Container[Signer]
    ) -> None:
        """Resolve the plugins of a profile; `timed` wraps each plugin to measure its calls."""
        self.filters: Sequence[PlannedPlugin] = [
            PlannedPlugin(plugin, timed, cluster, index=index) for index, plugin in enumerate(profile.filters)
        ]
        self.scores: Sequence[PlannedPlugin] = [
            PlannedPlugin(entry.plugin, timed, cluster, index=index, weight=entry.weight)
            for index, entry in enumerate(profile.scores)
        ]
        readers: dict[tuple[Part, Signer | None], PartReaders] = {}
        for planned in (*self.filters, *self.scores):
            if not planned.reads_pod:
                signer = (profile.name, planned.name)
                key = planned.declared.pod, signer if signer in signers else None
                group = readers.setdefault(key, PartReaders(DeclaredParts(*key)))
                (group.scores if planned.weight else group.filters).append(planned)
        self.readers = list(readers.values())
        self.read = Part(0)
        """The pod signature parts that the plugins read."""
        for part, _ in readers:
            self.read |= part


class Meter:
    """Counts the memory that the cached vectors take."""

    def __init__(self) -> None:
        self.bytes = 0


class Vector(Derived):
    """A plugin's verdicts or scores, one for each node row, and the log that says which node rows changed.

    Node rows are evaluated again when an input that the plugin declares has changed.
    """

    meter: Meter | None = None
    charged = 0
    """How many bytes of the meter's total are this vector's."""
    dirty: ChangedRows = None
    """The node rows to evaluate; at first, and after an exception, all."""
    _position = _revision = _verified_at = _idle_at = NEVER
    _idle: Revision = _NEVER_CHANGES

    def __init__(self, use: PlannedPlugin, state: Any, cluster: Cluster) -> None:
        self.use = use
        self.state = state
        """What the plugin has prepared for the part; None if the plugin is not called for any row."""
        self.serial = next(_serials)
        self._cluster = cluster

    @property
    def name(self) -> str:
        """Return the name of the plugin."""
        return self.use.name

    def charge(self, nbytes: int) -> None:
        """Count the memory of the vector as `nbytes` from now on."""
        if self.meter is not None and nbytes != self.charged:
            self.meter.bytes += nbytes - self.charged
            self.charged = nbytes

    def _collect_changes(self, *arguments: Any) -> bool:
        """Collect the node rows that changed since the last call; return False if the plugin skips from now on."""
        use = self.use
        position = use.log.changed_at
        if position != self._position:
            if self.dirty is not None:
                self.dirty = union(self.dirty, use.log.since(self._position))
            self._position = position
        if use.refresh is not None and use.revision.value != self._revision:
            self._revision = NEVER  # until the plugin has returned
            revision = use.revision.value
            derived = use.refresh(self.state, *arguments)
            if isinstance(derived, Input):
                self._idle = self._cluster.inputs.revision(derived)
                self._idle_at = self._idle.value
                return False
            if derived.changed_at > self._verified_at:
                if self.dirty is not None:
                    self.dirty = union(self.dirty, derived.since(self._verified_at))
                self._verified_at = derived.changed_at
            self._revision, self._idle_at = revision, NEVER
        return True
