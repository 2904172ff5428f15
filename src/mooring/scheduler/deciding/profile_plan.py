"""The Filter and Score plugins of a profile with what they declare, resolved once when the engine is built.

Built by ``engine.py`` for each profile; ``evaluation.py`` makes vectors of them for pods.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mooring.api.core_v1 import PodSpec
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part, View
from mooring.scheduler.deciding.profiles import Profile
from mooring.scheduler.framework import Declaration, FilterPlugin, ScorePlugin, Status


class PluginUse:
    """A Filter or Score plugin in a profile, with the parts of a pod and the inputs that it reads."""

    def __init__(self, plugin: Any, declared: Declaration, profile: str, cluster: Cluster) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.declared = declared
        self.view = View((profile, plugin.name), declared.pod)
        self.reads_pod = Part.POD in declared.pod
        """Whether it is called for every pod."""
        self.log = cluster.inputs.log(declared.rows)
        self.revision = cluster.inputs.revision(declared.cluster)
        self.has_refresh = bool(declared.cluster)
        self.reads_only_node = not (self.reads_pod or self.has_refresh or declared.rows & Input.PODS)
        """Whether placed pods make no difference to it."""


class FilterUse(PluginUse):
    plugin: FilterPlugin[Any]
    is_per_node = False


class NodeFilterUse:
    """A Filter plugin that evaluates one node at a time."""

    is_per_node = reads_pod = True

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.pre_filter: Callable[..., Any] | None = getattr(plugin, "pre_filter_pod", None)


class ScoreUse(PluginUse):
    plugin: ScorePlugin[Any]
    is_per_node = False

    def __init__(self, plugin: Any, declared: Declaration, profile: str, cluster: Cluster, *, weight: int) -> None:
        super().__init__(plugin, declared, profile, cluster)
        self.weight = weight
        self.applies_to: Callable[[PodSpec], Status | None] | None = getattr(plugin, "applies_to", None)
        self.has_pre_point = declared.has_pre_point


class NodeScoreUse:
    """A Score plugin that evaluates one node at a time."""

    is_per_node = reads_pod = True
    has_pre_point = False

    def __init__(self, plugin: Any, weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.weight = weight
        self.normalize: Callable[..., dict[str, int]] | None = getattr(plugin, "normalize_scores", None)


class Plan:
    """The Filter and Score plugins of a profile, in order."""

    def __init__(self, profile: Profile, cluster: Cluster, timed: Callable[[Any], Any]) -> None:
        """`timed` returns what is called in the place of a plugin."""
        self.filters: Sequence[FilterUse | NodeFilterUse] = [
            FilterUse(timed(plugin), plugin.filters, profile.name, cluster)
            if isinstance(plugin, FilterPlugin)
            else NodeFilterUse(timed(plugin))
            for plugin in profile.filters
        ]
        self.scores: Sequence[ScoreUse | NodeScoreUse] = [
            ScoreUse(timed(plugin), plugin.scores, profile.name, cluster, weight=entry.weight)
            if isinstance(plugin := entry.plugin, ScorePlugin)
            else NodeScoreUse(timed(plugin), entry.weight)
            for entry in profile.scores
        ]
        self.read = Part(0)
        """What plugins read of a signature."""
        for use in (*self.filters, *self.scores):
            if isinstance(use, PluginUse) and not use.reads_pod:
                self.read |= use.declared.pod
