"""Profiles: the plugins for one scheduler name, with their order and weights.

`DEFAULT_PLUGINS` lists the default policy in order. A `ProfileSpec` is created in code or from a
KubeSchedulerConfiguration; `build_profile` instantiates the plugins and sorts them by extension point into a `Profile`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from mooring.scheduler import framework as fwk
from mooring.scheduler.framework.registry import PluginError

DEFAULT_SCHEDULER = "default-scheduler"
CONFIG_API_VERSION, CONFIG_KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
"""The apiVersion and kind of scheduler configuration files."""
P = TypeVar("P")


class PluginUse(msgspec.Struct, frozen=True):
    """A plugin enabled in a profile. The weight matters only for scoring (0: the default of 1)."""

    name: str
    weight: int = 0


DEFAULT_PLUGINS: tuple[PluginUse, ...] = (
    # Gated pods are not tried.
    PluginUse("SchedulingGates"),
    # The most important pod first.
    PluginUse("PrioritySort"),
    # Cheap reasons first: most nodes that are out are out for what they are.
    PluginUse("NodeUnschedulable"),
    PluginUse("NodeName"),
    # Avoiding nodes that others asked to be avoided weighs most.
    PluginUse("TaintToleration", 3),
    # What users ask for outright weighs double ...
    PluginUse("NodeAffinity", 2),
    PluginUse("NodePorts"),
    PluginUse("NodeResourcesFit", 1),
    # Whether a node can have the volumes; most pods have none, and pass at no cost.
    PluginUse("VolumeRestrictions"),
    PluginUse("NodeVolumeLimits"),
    PluginUse("VolumeBinding", 1),
    PluginUse("VolumeZone"),
    # ... and so does being spread or kept together; these look at all pods, so they come after what looks at one node.
    PluginUse("PodTopologySpread", 2),
    PluginUse("InterPodAffinity", 2),
    # Devices; a search, so it comes last. What it can do for a pod that fits nowhere harms less than preemption.
    PluginUse("DynamicResources", 2),
    PluginUse("DefaultPreemption"),
    # What makes the cluster run well when users do not mind.
    PluginUse("NodeResourcesBalancedAllocation", 1),
    PluginUse("ImageLocality", 1),
    PluginUse("DefaultBinder"),
    # What a kubelet must be able to do; few pods need anything of the kind.
    PluginUse("NodeDeclaredFeatures"),
)


class ProfileSpec(msgspec.Struct, frozen=True):
    """The specification of a profile, before its plugins are instantiated."""

    scheduler_name: str = DEFAULT_SCHEDULER
    plugins: tuple[PluginUse, ...] = DEFAULT_PLUGINS
    """Plugins enabled at every extension point that they implement (`multiPoint`)."""
    enabled: Mapping[str, tuple[PluginUse, ...]] = msgspec.field(default_factory=dict)
    """By extension point (`filter`, `score`, …), additional plugins or other weights."""
    disabled: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """By extension point, disabled plugins; `*` disables all of `plugins`."""
    arguments: Mapping[str, fwk.PluginArguments] = msgspec.field(default_factory=dict)
    """The arguments of each plugin, by plugin name."""


class WeightedPlugin(msgspec.Struct, Generic[P], frozen=True):
    plugin: P
    weight: int


class Profile(msgspec.Struct, frozen=True):
    """The plugins for one scheduler name, in order, by extension point."""

    name: str
    queue_sort: fwk.QueueSortPlugin
    pre_enqueue: tuple[fwk.PreEnqueuePlugin, ...]
    filters: tuple[fwk.FilterPlugin[Any] | fwk.NodeFilterPlugin, ...]
    scores: tuple[WeightedPlugin[fwk.ScorePlugin[Any] | fwk.NodeScorePlugin], ...]
    post_filter: tuple[fwk.PostFilterPlugin, ...]
    reserve: tuple[fwk.ReservePlugin, ...]
    permit: tuple[fwk.PermitPlugin, ...]
    pre_bind: tuple[fwk.PreBindPlugin, ...]
    bind: tuple[fwk.BindPlugin | fwk.GroupBindPlugin, ...]
    post_bind: tuple[fwk.PostBindPlugin, ...]
    choose: fwk.ChoosePlugin | None = None
    """The plugin that chooses among nodes with equal scores; None for a random choice."""
    plugins: tuple[fwk.Plugin, ...] = msgspec.field(default=())
    """All plugins of the profile, at any extension point."""


def build_profile(spec: ProfileSpec, registry: fwk.Registry, handle: fwk.Handle) -> Profile:
    """Instantiate the plugins of a profile. Raise `PluginError` for an unknown plugin or wrong arguments."""
    return _Builder(spec, registry, handle).profile()


class _Builder:
    def __init__(self, spec: ProfileSpec, registry: fwk.Registry, handle: fwk.Handle) -> None:
        self._spec = spec
        self._registry = registry
        self._handle = handle
        self._made: dict[str, fwk.Plugin] = {}

    def profile(self) -> Profile:
        queue_sort, choose = (
            self._plugins_at("queueSort", fwk.QueueSortPlugin),
            self._plugins_at("choose", fwk.ChoosePlugin),
        )
        where = f"profile {self._spec.scheduler_name}"
        if len(queue_sort) != 1:
            raise PluginError(f"{where}: one plugin must sort the queue, not {len(queue_sort)}")
        if len(choose) > 1:
            raise PluginError(f"{where}: one plugin may choose among equals, not {len(choose)}")
        return Profile(
            name=self._spec.scheduler_name,
            queue_sort=queue_sort[0],
            pre_enqueue=tuple(self._plugins_at("preEnqueue", fwk.PreEnqueuePlugin)),
            filters=tuple(self._plugins_at("filter", fwk.FilterPlugin, fwk.NodeFilterPlugin)),
            scores=tuple(self._weight_plugins("score", fwk.ScorePlugin, fwk.NodeScorePlugin)),
            post_filter=tuple(self._plugins_at("postFilter", fwk.PostFilterPlugin)),
            reserve=tuple(self._plugins_at("reserve", fwk.ReservePlugin)),
            permit=tuple(self._plugins_at("permit", fwk.PermitPlugin)),
            pre_bind=tuple(self._plugins_at("preBind", fwk.PreBindPlugin)),
            bind=tuple(self._plugins_at("bind", fwk.BindPlugin, fwk.GroupBindPlugin)),
            post_bind=tuple(self._plugins_at("postBind", fwk.PostBindPlugin)),
            choose=choose[0] if choose else None,
            plugins=tuple(self._made.values()),
        )

    def _plugins_at(self, point: str, *kinds: type[Any]) -> Sequence[Any]:
        return [weighted.plugin for weighted in self._weight_plugins(point, *kinds)]

    def _weight_plugins(self, point: str, *kinds: type[Any]) -> Sequence[WeightedPlugin[Any]]:
        disabled = self._spec.disabled.get(point, frozenset())
        named = {use.name: use for use in self._spec.enabled.get(point, ())}
        found: list[WeightedPlugin[Any]] = []
        for use in () if "*" in disabled else self._spec.plugins:
            plugin = self._get_plugin(use.name)
            if use.name not in disabled and isinstance(plugin, kinds):
                found.append(WeightedPlugin(plugin, named.pop(use.name, use).weight or use.weight or 1))
        for use in named.values():
            plugin = self._get_plugin(use.name)
            if not isinstance(plugin, kinds):
                raise PluginError(f"the scheduler plugin {use.name} does not have the extension point {point}")
            found.append(WeightedPlugin(plugin, use.weight or 1))
        return found

    def _get_plugin(self, name: str) -> fwk.Plugin:
        plugin = self._made.get(name)
        if plugin is None:
            factory = self._registry.get(name)
            if factory is None:
                raise PluginError(f"there is no scheduler plugin {name}; there are {', '.join(sorted(self._registry))}")
            plugin = self._made[name] = factory(self._spec.arguments.get(name, {}), self._handle)
        return plugin
