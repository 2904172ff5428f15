"""The Filter and Score plugins of a profile with their declarations, resolved once when the engine is built.

``engine.py`` builds one plan for each profile; ``evaluation.py`` creates vectors from it.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, Literal

from mooring.api.core_v1 import PodSpec
from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part, Signer, View
from mooring.scheduler.deciding.profiles import Profile
from mooring.scheduler.framework import Declaration, FilterPlugin, ScorePlugin, Status


class PluginUse:
    """A Filter or Score plugin in a profile, with the parts of a pod and the inputs that it reads."""

    refresh: Callable[..., Derived | Input] | None = None
    """The method that updates a state after inputs of the cluster changed; None if the plugin declares none."""

    def __init__(self, plugin: Any, declared: Declaration, signer: Signer, index: int, cluster: Cluster) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.index = index
        """The index of the plugin among the filters or scores of its profile."""
        self.declared = declared
        self.has_pre_point = declared.has_pre_point
        """Whether kube-scheduler's plugin of this name has PreFilter or PreScore, so that metrics count the call."""
        self.signer = signer
        self.reads_pod = Part.POD in declared.pod
        """Whether the plugin reads the pod itself and is therefore called for every pod."""
        self.log = cluster.inputs.log(declared.rows)
        self.revision = cluster.inputs.revision(declared.cluster)
        self.reads_only_node = not (self.reads_pod or declared.cluster or declared.rows & Input.PODS)
        """Whether the results depend on the nodes alone and not on placed pods."""
        self.applies_to: Callable[[PodSpec], Status | None] = getattr(plugin, "applies_to", _depends_on_pod)


class FilterUse(PluginUse):
    plugin: FilterPlugin[Any]
    is_per_node: Literal[False] = False

    def __init__(self, plugin: Any, declared: Declaration, signer: Signer, index: int, cluster: Cluster) -> None:
        super().__init__(plugin, declared, signer, index, cluster)
        self.refresh = plugin.refresh if declared.cluster else None


class NodeFilterUse:
    """A Filter plugin that evaluates one node at a time."""

    is_per_node: Literal[True] = True
    reads_pod = True

    def __init__(self, plugin: Any, index: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.index = index
        self.pre_filter: Callable[..., Any] | None = getattr(plugin, "pre_filter_pod", None)
        self.has_pre_point = self.pre_filter is not None
        self.applies_to: Callable[[PodSpec], Status | None] = _depends_on_pod


class ScoreUse(PluginUse):
    plugin: ScorePlugin[Any]
    is_per_node: Literal[False] = False

    def __init__(
        self, plugin: Any, declared: Declaration, signer: Signer, index: int, cluster: Cluster, *, weight: int
    ) -> None:
        super().__init__(plugin, declared, signer, index, cluster)
        self.weight = weight
        self.refresh = plugin.refresh_score if declared.cluster else None


class NodeScoreUse:
    """A Score plugin that evaluates one node at a time."""

    is_per_node: Literal[True] = True
    reads_pod = True
    has_pre_point = False

    def __init__(self, plugin: Any, index: int, weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.index = index
        self.weight = weight
        self.normalize: Callable[..., dict[str, int]] | None = getattr(plugin, "normalize_scores", None)
        self.applies_to: Callable[[PodSpec], Status | None] = _depends_on_pod


def _depends_on_pod(_spec: PodSpec) -> Status | None:
    return None


class Plan:
    """The Filter and Score plugins of a profile, in order."""

    def __init__(
        self, profile: Profile, cluster: Cluster, timed: Callable[[Any], Any], signers: Container[Signer]
    ) -> None:
        """Resolve the plugins of a profile; `timed` wraps each plugin to measure its calls."""
        self.filters: Sequence[FilterUse | NodeFilterUse] = [
            FilterUse(timed(plugin), plugin.filters, (profile.name, plugin.name), index, cluster)
            if isinstance(plugin, FilterPlugin)
            else NodeFilterUse(timed(plugin), index)
            for index, plugin in enumerate(profile.filters)
        ]
        self.scores: Sequence[ScoreUse | NodeScoreUse] = [
            ScoreUse(timed(plugin), plugin.scores, (profile.name, plugin.name), index, cluster, weight=entry.weight)
            if isinstance(plugin := entry.plugin, ScorePlugin)
            else NodeScoreUse(timed(plugin), index, entry.weight)
            for index, entry in enumerate(profile.scores)
        ]
        self.parts = self._group_by_part(signers)
        self.read = Part(0)
        """The pod signature parts that the plugins read."""
        for uses in self.parts:
            self.read |= uses.view.parts

    def _group_by_part(self, signers: Container[Signer]) -> "list[PartUses]":
        found: dict[tuple[Part, Signer | None], PartUses] = {}

        def uses_of(use: PluginUse) -> PartUses:
            key = (use.declared.pod, use.signer if use.signer in signers else None)
            return found.setdefault(key, PartUses(View(*key), number=len(found)))

        for filtering in self.filters:
            if not (filtering.is_per_node or filtering.reads_pod):
                uses_of(filtering).filters.append(filtering)
        for scoring in self.scores:
            if not (scoring.is_per_node or scoring.reads_pod):
                uses_of(scoring).scores.append(scoring)
        return list(found.values())


class PartUses:
    """The Filter and Score plugins that read the same parts of a pod."""

    def __init__(self, view: View, number: int) -> None:
        self.view = view
        self.number = number
        """The index among the groups of plugins that read the same parts."""
        self.filters: list[FilterUse] = []
        self.scores: list[ScoreUse] = []
