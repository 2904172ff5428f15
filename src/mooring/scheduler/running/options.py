"""The settings of a scheduler, and the reading of KubeSchedulerConfiguration files.

`read` returns a `SchedulerConfig` with profiles, plugins, backoffs and leader election; errors name the field. Settings
without a meaning in Mooring (sampling of nodes, parallelism) are accepted and have no effect; unsupported ones
(extenders) are rejected. Called by `mooring scheduler`. Versions and gates are read only here (4330.12).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api import codec
from mooring.api.base import Int32, Int64, Object
from mooring.api.scheme import Scheme
from mooring.base import durations
from mooring.base.component import Component
from mooring.client import LeaseTimes
from mooring.client.leader_election import LeaderElection
from mooring.scheduler.framework import SchedulerFeatures, options
from mooring.scheduler.framework.profiles import (
    CONFIG_API_VERSION,
    CONFIG_KIND,
    DEFAULT_PLUGINS,
    DEFAULT_SCHEDULER,
    PluginUse,
    ProfileSpec,
)
from mooring.scheduler.framework.registry import Factory
from mooring.scheduler.queue import Backoffs

COMPONENT = "mooring-scheduler"


class SchedulerConfig(msgspec.Struct, frozen=True):
    """The settings of a KubeSchedulerConfiguration."""

    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    backoffs: Backoffs = msgspec.field(default_factory=Backoffs)
    leader_election: LeaderElection = msgspec.field(default_factory=lambda: LeaderElection(COMPONENT))
    kubeconfig: str = ""
    plugins: Mapping[str, Factory] = msgspec.field(default_factory=dict)
    """Factories of users' plugins, in addition to the built-in ones."""


class ComponentOptions(msgspec.Struct, frozen=True):
    """The options that follow from a component's versions and gates."""

    features: SchedulerFeatures
    version: str
    """The emulated version, for the User-Agent."""
    scheme: Scheme
    """The kinds and versions that the component uses."""


def for_component(component: Component) -> ComponentOptions:
    """Return the scheduler's options that follow from a component's versions and gates."""
    return ComponentOptions(
        features=options.from_gates(component.gates),
        version=str(component.versions.emulation),
        scheme=Scheme(component.versions),
    )


class SchedulerConfigError(ValueError):
    """A KubeSchedulerConfiguration cannot be used. The message names the field and what to write instead."""


class _Plugin(Object):
    name: str = ""
    weight: Int32 = 0


class _PluginSet(Object):
    enabled: list[_Plugin] = []  # noqa: RUF012 - msgspec copies the empty list
    disabled: list[_Plugin] = []  # noqa: RUF012 - as above


class _Plugins(Object):
    multi_point: _PluginSet | None = None
    pre_enqueue: _PluginSet | None = None
    queue_sort: _PluginSet | None = None
    pre_filter: _PluginSet | None = None
    filter: _PluginSet | None = None
    post_filter: _PluginSet | None = None
    pre_score: _PluginSet | None = None
    score: _PluginSet | None = None
    reserve: _PluginSet | None = None
    permit: _PluginSet | None = None
    pre_bind: _PluginSet | None = None
    bind: _PluginSet | None = None
    post_bind: _PluginSet | None = None


class _PluginConfig(Object):
    name: str = ""
    args: dict[str, Any] = {}  # noqa: RUF012 - as above


class _Profile(Object):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: _Plugins | None = None
    plugin_config: list[_PluginConfig] = []  # noqa: RUF012 - as above


class _LeaderElection(Object):
    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = COMPONENT
    resource_namespace: str = "kube-system"


class _ClientConnection(Object):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class _Configuration(Object):
    api_version: str = ""
    kind: str = ""
    parallelism: Int32 | None = None
    leader_election: _LeaderElection | None = None
    client_connection: _ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[_Profile] = []  # noqa: RUF012 - as above
    extenders: list[Any] = []  # noqa: RUF012 - as above
    delay_cache_until_active: bool = False


_POINTS: Mapping[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("queue_sort",),
    "filter": ("filter", "pre_filter"),
    "postFilter": ("post_filter",),
    "score": ("score", "pre_score"),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}
"""By extension point of a profile, the fields of the configuration that enable plugins there.

Mooring's plugins pre-filter where they filter.
"""


def read(source: str | bytes) -> SchedulerConfig:
    """Return the settings of a KubeSchedulerConfiguration in YAML. Raise SchedulerConfigError."""
    try:
        found = codec.decode_yaml(source, _Configuration).object
    except codec.DecodeError as problem:
        raise SchedulerConfigError(str(problem)) from problem
    if found.kind != CONFIG_KIND or found.api_version != CONFIG_API_VERSION:
        said = f"{found.kind or 'no kind'} of {found.api_version or 'no apiVersion'}"
        raise SchedulerConfigError(f"expected a {CONFIG_KIND} of {CONFIG_API_VERSION}, found {said}")
    if found.extenders:
        raise SchedulerConfigError("extenders: not supported; write a plugin instead (docs/scheduler-plugins.md)")
    config = SchedulerConfig(
        profiles=_parse_profiles(found.profiles),
        backoffs=_parse_backoffs(found),
        kubeconfig=found.client_connection.kubeconfig if found.client_connection else "",
    )
    if found.leader_election is not None:
        config = replace(config, leader_election=_leader_election(found.leader_election))
    return config


def _parse_backoffs(found: _Configuration) -> Backoffs:
    default = Backoffs()
    initial, maximum = found.pod_initial_backoff_seconds, found.pod_max_backoff_seconds
    backoffs = Backoffs(
        default.initial if initial is None else float(initial),
        default.maximum if maximum is None else float(maximum),
    )
    if backoffs.initial <= 0:
        raise SchedulerConfigError("podInitialBackoffSeconds: must be greater than 0")
    if backoffs.maximum < backoffs.initial:
        raise SchedulerConfigError("podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds")
    return backoffs


def _leader_election(found: _LeaderElection) -> LeaderElection:
    if found.resource_lock != "leases":
        raise SchedulerConfigError('leaderElection.resourceLock: only "leases" is supported')
    try:
        times = LeaseTimes(
            seconds(found.lease_duration, "leaderElection.leaseDuration"),
            seconds(found.renew_deadline, "leaderElection.renewDeadline"),
            seconds(found.retry_period, "leaderElection.retryPeriod"),
        )
    except SchedulerConfigError:
        raise
    except ValueError as problem:
        raise SchedulerConfigError(f"leaderElection: {problem}") from problem
    return LeaderElection(found.resource_name, found.resource_namespace, found.leader_elect, times)


def seconds(text: str, field: str) -> float:
    """Parse a duration in Go's format (`15s`, `1m30s`, `500ms`); raise SchedulerConfigError, which names the field."""
    try:
        return durations.parse_seconds(text)
    except ValueError as problem:
        raise SchedulerConfigError(f"{field}: {problem}") from problem


# -- profiles


def _parse_profiles(found: Sequence[_Profile]) -> tuple[ProfileSpec, ...]:
    profiles = tuple(_profile(entry, f"profiles[{index}]") for index, entry in enumerate(found)) or (ProfileSpec(),)
    names = [profile.scheduler_name for profile in profiles]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchedulerConfigError(f'profiles: two have the schedulerName "{twice}"')
    return profiles


def _profile(found: _Profile, path: str) -> ProfileSpec:
    plugins = found.plugins or _Plugins()
    arguments: dict[str, Mapping[str, Any]] = {}
    for index, entry in enumerate(found.plugin_config):
        if not entry.name or entry.name in arguments:
            what = "repeats a plugin" if entry.name else "names no plugin"
            raise SchedulerConfigError(f"{path}.pluginConfig[{index}]: {what}")
        arguments[entry.name] = entry.args
    enabled: dict[str, tuple[PluginUse, ...]] = {}
    disabled: dict[str, frozenset[str]] = {}
    for point, fields in _POINTS.items():
        sets = [(name, entry) for name in fields if (entry := getattr(plugins, name)) is not None]
        uses = [use for name, entry in sets for use in _parse_plugin_uses(entry.enabled, f"{path}.plugins.{name}")]
        if uses:
            enabled[point] = tuple({use.name: use for use in reversed(uses)}.values())[::-1]
        names = frozenset(plugin.name for _, entry in sets for plugin in entry.disabled)
        if names:
            disabled[point] = names
    return ProfileSpec(
        scheduler_name=found.scheduler_name or DEFAULT_SCHEDULER,
        plugins=_merge_multi_point(plugins.multi_point, path),
        enabled=enabled,
        disabled=disabled,
        arguments=arguments,
    )


def _merge_multi_point(found: _PluginSet | None, path: str) -> tuple[PluginUse, ...]:
    if found is None:
        return DEFAULT_PLUGINS
    own = {use.name: use for use in _parse_plugin_uses(found.enabled, f"{path}.plugins.multiPoint")}
    off = {plugin.name for plugin in found.disabled}
    kept = [] if "*" in off else [use for use in DEFAULT_PLUGINS if use.name not in off]
    return (*(own.pop(use.name, use) for use in kept), *own.values())


def _parse_plugin_uses(plugins: Iterable[_Plugin], path: str) -> list[PluginUse]:
    uses = [PluginUse(plugin.name, plugin.weight) for plugin in plugins]
    names = [use.name for use in uses]
    wrong = next((name for name in names if not name or names.count(name) > 1), None)
    if wrong is not None:
        raise SchedulerConfigError(f'{path}.enabled: "{wrong}" is {"there twice" if wrong else "no name"}')
    if any(use.weight < 0 for use in uses):
        raise SchedulerConfigError(f"{path}.enabled: a weight is negative")
    return uses
