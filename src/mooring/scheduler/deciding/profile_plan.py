"""The Filter and Score plugins of a profile with their declarations, resolved once when the engine is built.

``engine.py`` builds one plan for each profile; ``evaluation.py`` creates vectors from it.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, Literal

from mooring.api.core_v1 import PodSpec
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part, Signer, View
from mooring.scheduler.deciding.profiles import Profile
from mooring.scheduler.framework import Declaration, FilterPlugin, ScorePlugin, Status


class PluginUse:
    """A Filter or Score plugin in a profile, with the parts of a pod and the inputs that it reads."""

    def __init__(self, plugin: Any, declared: Declaration, profile: str, cluster: Cluster) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.declared = declared
        self.signer = (profile, plugin.name)
        self.reads_pod = Part.POD in declared.pod
        """Whether the plugin reads the pod itself and is therefore called for every pod."""
        self.log = cluster.inputs.log(declared.rows)
        self.revision = cluster.inputs.revision(declared.cluster)
        self.has_refresh = bool(declared.cluster)
        self.reads_only_node = not (self.reads_pod or self.has_refresh or declared.rows & Input.PODS)
        """Whether the results depend on the nodes alone and not on placed pods."""


class FilterUse(PluginUse):
    plugin: FilterPlugin[Any]
    is_per_node: Literal[False] = False

    @property
    def has_pre_point(self) -> bool:
        """Return whether kube-scheduler's plugin of this name has PreFilter, so that metrics count the call."""
        return self.declared.has_pre_point

    def applies_to(self, spec: PodSpec) -> Status | None:
        """Return SKIP or SUCCESS if `pre_filter` would for every pod with the pod spec, otherwise None."""
        return self.plugin.applies_to(spec)


class NodeFilterUse:
    """A Filter plugin that evaluates one node at a time."""

    is_per_node: Literal[True] = True
    reads_pod = True

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.pre_filter: Callable[..., Any] | None = getattr(plugin, "pre_filter_pod", None)
        self.has_pre_point = self.pre_filter is not None

    def applies_to(self, _spec: PodSpec) -> Status | None:
        return None


class ScoreUse(PluginUse):
    plugin: ScorePlugin[Any]
    is_per_node: Literal[False] = False

    def __init__(self, plugin: Any, declared: Declaration, profile: str, cluster: Cluster, *, weight: int) -> None:
        super().__init__(plugin, declared, profile, cluster)
        self.weight = weight
        self.applies_to: Callable[[PodSpec], Status | None] = getattr(plugin, "applies_to", _depends_on_pod)
        self.has_pre_point = declared.has_pre_point


class NodeScoreUse:
    """A Score plugin that evaluates one node at a time."""

    is_per_node: Literal[True] = True
    reads_pod = True
    has_pre_point = False

    def __init__(self, plugin: Any, weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
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
        self.filters_of_pod = [(place, use) for place, use in enumerate(self.filters) if use.reads_pod]
        """The filters that are called for every pod, with their indexes."""
        self.scores_of_pod = [(place, use) for place, use in enumerate(self.scores) if use.reads_pod]
        self.parts = self._group_by_part(signers)
        self.read = Part(0)
        """The pod signature parts that the plugins read."""
        for uses in self.parts:
            self.read |= uses.view.parts

    def _group_by_part(self, signers: Container[Signer]) -> "list[PartUses]":
        found: dict[tuple[Part, Signer | None], PartUses] = {}

        def uses_of(use: PluginUse) -> PartUses:
            key = (use.declared.pod, use.signer if use.signer in signers else None)
            return found.setdefault(key, PartUses(View(*key, number=len(found))))

        for place, filtering in enumerate(self.filters):
            if not (filtering.is_per_node or filtering.reads_pod):
                uses_of(filtering).filters.append((place, filtering))
        for place, scoring in enumerate(self.scores):
            if not (scoring.is_per_node or scoring.reads_pod):
                uses_of(scoring).scores.append((place, scoring))
        return list(found.values())


class PartUses:
    """The Filter and Score plugins that read the same parts of a pod, with their indexes in the profile."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.filters: list[tuple[int, FilterUse]] = []
        self.scores: list[tuple[int, ScoreUse]] = []
