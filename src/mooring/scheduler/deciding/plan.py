"""How the plugins of a profile are asked: by shape, by pod or by node. Found out once, not for every pod.

Made by ``engine.py`` for each profile; read next: ``evaluation.py``, which asks them.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.core_v1 import PodSpec
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo, Sight
from mooring.scheduler.deciding.filtering import PassingFilter, ShapeFilterer, counts_pre_filter
from mooring.scheduler.deciding.profiles import Profile, Weighted
from mooring.scheduler.deciding.scoring import NodeScore, PodScore, ScoreSlot, ShapeScorer, ZeroScore
from mooring.scheduler.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    GroupedScore,
    LikeRows,
    Mask,
    NodeFilterPlugin,
    NodeScorePlugin,
    Normalizer,
    Part,
    Plugin,
    QuietFilter,
    RefreshedFilter,
    RefreshedScore,
    ResourceFilter,
    Scope,
    ScorePlugin,
    SpecFilter,
    Status,
)


class PodFilterer(msgspec.Struct, frozen=True):
    """A Filter plugin that is asked for every pod."""

    plugin: FilterPlugin[Any]
    passes: PassingFilter
    """Its slot for pods that may go anywhere."""
    by_spec: SpecFilter | None

    def kept(self, spec: PodSpec) -> "PodFilterer | PassingFilter | None":
        """What stands for it as long as pods have this specification; None when it has nothing to say of them."""
        said = None if self.by_spec is None else self.by_spec.says_of(spec)
        return self if said is None else None if said is SKIP else self.passes


class PodScorer(msgspec.Struct, frozen=True):
    """A Score plugin that is asked for every pod, written over vectors or per node."""

    vector: ScorePlugin[Any] | None
    per_node: NodeScorePlugin | None
    weight: int
    zero: ZeroScore
    """Its slot for pods to which all nodes are equal."""
    by_spec: SpecFilter | None

    def kept(self, pod: PodInfo, cluster: Cluster) -> "PodScorer | ZeroScore | None":
        """What stands for it as long as pods have the specification of this one; None when it does not score them."""
        if self.vector is None or self.by_spec is None or self.by_spec.says_of(pod.pod.spec) is None:
            return self
        state = self.vector.pre_score(pod, cluster)
        if not isinstance(state, Status):
            return self
        return self.zero if state.is_success else None

    def score(self, pod: PodInfo, cycle: CycleState, cluster: Cluster, feasible: Mask) -> ScoreSlot | None:
        """Its points for a pod; None when it does not score it."""
        if self.per_node is not None:
            return NodeScore(self.per_node, self.weight, pod.pod, cluster=cluster, cycle=cycle, feasible=feasible)
        if self.vector is None:
            return None
        state = self.vector.pre_score(pod, cluster)
        if isinstance(state, Status):
            return self.zero if state.is_success else None
        return PodScore(self.vector, self.weight, state, feasible)


class Plan:
    """The Filter and Score plugins of a profile, sorted by how they are asked."""

    def __init__(self, profile: Profile, timed: Callable[[Any], Any]) -> None:
        """`timed` makes of each plugin what is asked in its place."""
        self._profile = profile.name
        self.filters = [self._filterer(timed(plugin)) for plugin in profile.filters]
        self.scores = [self._scorer(replace(entry, plugin=timed(entry.plugin))) for entry in profile.scores]
        self.read = Part(0)
        """What plugins read of a shape."""
        for entry in (*self.filters, *self.scores):
            if isinstance(entry, ShapeFilterer | ShapeScorer):
                self.read |= entry.sight[1]

    def _filterer(self, plugin: FilterPlugin[Any] | NodeFilterPlugin) -> ShapeFilterer | PodFilterer | NodeFilterPlugin:
        if not isinstance(plugin, FilterPlugin):
            return plugin
        if plugin.scope is Scope.POD:
            passes = PassingFilter(plugin.name, counts_pre_filter=counts_pre_filter(plugin))
            return PodFilterer(plugin, passes, plugin if isinstance(plugin, SpecFilter) else None)
        refreshed = plugin if isinstance(plugin, RefreshedFilter) else None
        quiet = plugin if isinstance(plugin, QuietFilter) else None
        like = plugin if isinstance(plugin, LikeRows) else None
        resources = plugin if isinstance(plugin, ResourceFilter) else None
        return ShapeFilterer(plugin, self._sight(plugin), refreshed, quiet, like, resources, counts_pre_filter(plugin))

    def _sight(self, plugin: Plugin) -> Sight:
        return (self._profile, plugin.name), getattr(plugin, "signs", Part.ALL)

    def _scorer(self, entry: Weighted[ScorePlugin[Any] | NodeScorePlugin]) -> ShapeScorer | PodScorer:
        plugin, weight = entry.plugin, entry.weight
        if isinstance(plugin, ScorePlugin) and plugin.score_scope is Scope.SHAPE:
            refreshed = plugin if isinstance(plugin, RefreshedScore) else None
            normalizer = plugin if isinstance(plugin, Normalizer) else None
            grouped = plugin if isinstance(plugin, GroupedScore) and normalizer is None else None
            return ShapeScorer(plugin, self._sight(plugin), weight, refreshed, normalizer, grouped)
        vector = plugin if isinstance(plugin, ScorePlugin) else None
        per_node = plugin if vector is None and isinstance(plugin, NodeScorePlugin) else None
        by_spec = plugin if isinstance(plugin, SpecFilter) else None
        return PodScorer(vector, per_node, weight, ZeroScore(plugin, weight), by_spec)
