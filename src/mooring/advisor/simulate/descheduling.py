"""Simulate a DeschedulerPolicy in virtual time: which pods it would evict, why, and where their replacements go.

Supported plugins: RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity, RemoveDuplicates, LowNodeUtilization,
RemovePodsViolatingInterPodAntiAffinity, RemovePodsViolatingTopologySpreadConstraint; `_ARGUMENTS` lists their supported
arguments, and those of the DefaultEvictor. A note names unsupported ones. A pod violates a rule if the scheduler's own
filter rejects its node when the pod itself is removed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.evictions import is_drainable
from mooring.advisor.simulate.pods import SimulatedPod, with_node
from mooring.advisor.simulate.utilisation import usage_of
from mooring.api import yaml_documents
from mooring.api.core_v1 import Pod
from mooring.api.json_tree import DecodeError

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

INTERVAL_SECONDS = 300.0
_VIOLATED_FILTERS = {
    "RemovePodsViolatingNodeTaints": "TaintToleration",
    "RemovePodsViolatingNodeAffinity": "NodeAffinity",
    "RemovePodsViolatingInterPodAntiAffinity": "InterPodAffinity",
    "RemovePodsViolatingTopologySpreadConstraint": "PodTopologySpread",
}
_SYSTEM_CRITICAL = 2_000_000_000
_ARGUMENTS = {name: {"namespaces"} for name in _VIOLATED_FILTERS} | {
    "LowNodeUtilization": {"thresholds", "targetThresholds", "evictableNamespaces"},
    "RemoveDuplicates": {"namespaces", "excludeOwnerKinds"},
    "DefaultEvictor": {"nodeFit", "evictLocalStoragePods", "evictSystemCriticalPods", "priorityThreshold"},
}
"""The supported arguments, by plugin."""
_TYPES: dict[str, Any] = {
    "thresholds": dict[str, float],
    "targetThresholds": dict[str, float],
    "namespaces": dict[str, list[str]],
    "evictableNamespaces": dict[str, list[str]],
    "excludeOwnerKinds": list[str],
    "priorityThreshold": dict[str, int | str],
}


class Profile(msgspec.Struct, frozen=True):
    """A profile of a DeschedulerPolicy: its plugins in the order in which they run, and their arguments."""

    name: str
    plugins: tuple[str, ...]
    arguments: Mapping[str, Mapping[str, Any]]


class _PluginConfig(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}


class _EnabledPlugins(msgspec.Struct):
    enabled: list[str] = []


class _Profile(msgspec.Struct):
    name: str = ""
    pluginConfig: list[_PluginConfig] = []  # noqa: N815 - the policy's word
    plugins: dict[str, _EnabledPlugins] = {}


def read_policy(text: bytes, source: str) -> tuple[tuple[Profile, ...], tuple[str, ...]]:
    """Read the profiles of a DeschedulerPolicy, and the names of unsupported plugins. Raise ScenarioError."""
    try:
        (document,) = yaml_documents.read(text)
    except (DecodeError, ValueError) as problem:
        raise ScenarioError(f"{source}: expected one DeschedulerPolicy: {problem}") from problem
    tree = document.tree
    if not isinstance(tree, dict) or tree.get("kind") != "DeschedulerPolicy":
        raise ScenarioError(f"{source}: expected a document of kind DeschedulerPolicy")
    try:
        given = msgspec.convert(tree.get("profiles") or [], list[_Profile])
    except msgspec.ValidationError as problem:
        raise ScenarioError(f"{source}: profiles: {problem}") from problem
    profiles, unknown = [], dict[str, None]()
    for each in given:
        arguments = {part.name: part.args for part in each.pluginConfig}
        points = (each.plugins.get(point, _EnabledPlugins()) for point in ("deschedule", "balance"))
        wanted = [name for point in points for name in point.enabled]
        unknown |= dict.fromkeys(name for name in wanted if name not in _ARGUMENTS)
        played = tuple(name for name in wanted if name in _ARGUMENTS)
        for name in (*played, "DefaultEvictor"):
            given_here = sorted(arguments.get(name, {}).keys() - _ARGUMENTS[name])
            unknown |= dict.fromkeys(f"{name}.{argument}" for argument in given_here)
        profiles.append(Profile(each.name, played, arguments))
        for name, field in ((name, field) for name, found in arguments.items() for field in found if field in _TYPES):
            try:
                msgspec.convert(arguments[name][field] or _TYPES[field](), _TYPES[field])
            except msgspec.ValidationError as problem:
                raise ScenarioError(f"{source}: {name}: {field}: {problem}") from problem
    return tuple(profiles), tuple(unknown)


class Descheduler:
    """Runs the profiles of a policy on a simulated cluster."""

    def __init__(self, world: "World", profiles: tuple[Profile, ...], schedule: Callable[[], None]) -> None:
        self._world, self._profiles, self._schedule = world, profiles, schedule

    def run(self) -> int:
        """Run all plugins once, scheduling the replacements after each eviction; return the number of evictions."""
        evicted = 0
        for profile in self._profiles:
            for plugin in profile.plugins:
                for pod, reason in self._pods_to_evict(plugin, profile):
                    is_selected = _is_selected(pod, profile.arguments.get(plugin) or {})
                    if self._world.pods.get(pod.key) is pod and is_selected and self._may_evict(pod, profile):
                        self._world.evict(pod, f"{plugin}: {reason}")
                        evicted += 1
                        self._schedule()  # the next violation is found with the replacement in place
        return evicted

    def _pods_to_evict(self, plugin: str, profile: Profile) -> Iterator[tuple[SimulatedPod, str]]:
        if plugin in _VIOLATED_FILTERS:
            return self._find_violations(_VIOLATED_FILTERS[plugin])
        if plugin == "RemoveDuplicates":
            return self._find_duplicates()
        return self._find_overused(profile.arguments.get(plugin) or {})

    def _find_violations(self, wanted: str) -> Iterator[tuple[SimulatedPod, str]]:
        engine = self._world.engine
        for pod in [pod for pod in self._world.pods.values() if pod.node and _may_violate(wanted, pod.pod)]:
            if self._world.pods.get(pod.key) is not pod:
                continue
            node = pod.node
            bound = with_node(pod.pod, node)
            engine.remove(bound)
            status = engine.explain(with_node(pod.pod, ""))[node].status
            engine.put(bound)
            if status.plugin == wanted:
                yield pod, status.message

    def _find_duplicates(self) -> Iterator[tuple[SimulatedPod, str]]:
        nodes = [info for info in self._world.engine.cluster.node_infos() if not info.node.spec.unschedulable]
        for owner in self._world.workloads.list_all():
            if owner.kind == "DaemonSet" or not nodes:
                continue
            by_node: dict[str, list[SimulatedPod]] = defaultdict(list)
            for pod in owner.pods.values():
                if pod.node:
                    by_node[pod.node].append(pod)
            share = ceil(sum(map(len, by_node.values())) / len(nodes))
            for pods in by_node.values():
                yield from ((pod, f"{len(pods)} pods of {owner.display_name} on one node") for pod in pods[share:])

    def _find_overused(self, arguments: Mapping[str, Any]) -> Iterator[tuple[SimulatedPod, str]]:
        low = {name: value / 100 for name, value in (arguments.get("thresholds") or {}).items()}
        high = {name: value / 100 for name, value in (arguments.get("targetThresholds") or {}).items()}
        names = [info.name for info in self._world.engine.cluster.node_infos() if not info.node.spec.unschedulable]

        def use(name: str) -> dict[str, float]:
            return usage_of(self._world.engine.cluster).use_of_node(name)

        usage = {name: use(name) for name in names}
        idle = [node for node, found in usage.items() if all(found.get(name, 0) < low[name] for name in low)]
        if not idle:
            return
        for node in sorted(names, key=lambda name: -max(usage[name].values(), default=0.0)):
            for pod in sorted(self._world.pods_on(node), key=lambda pod: pod.pod.spec.priority or 0):
                above = [name for name, limit in high.items() if use(node).get(name, 0) > limit]
                if not above:
                    break
                if any(sum(limit - use(each).get(name, 0) for each in idle) <= 0 for name, limit in high.items()):
                    return
                yield pod, f"{node} is above the target of {', '.join(above)}"

    def _may_evict(self, pod: SimulatedPod, profile: Profile) -> bool:
        arguments = profile.arguments.get("DefaultEvictor") or {}
        threshold = (arguments.get("priorityThreshold") or {}).get("value", _SYSTEM_CRITICAL)
        priority = pod.pod.spec.priority or 0
        if pod.owner is None or not is_drainable(pod) or self._world.budgets.eviction_problem(pod):
            return False
        if priority >= threshold and not arguments.get("evictSystemCriticalPods"):
            return False
        is_local = any(each.empty_dir is not None or each.host_path is not None for each in pod.pod.spec.volumes)
        if is_local and not arguments.get("evictLocalStoragePods"):
            return False
        if not arguments.get("nodeFit"):
            return True
        explained = self._world.engine.explain(with_node(pod.pod, ""))
        return any(each.status.is_success for name, each in explained.items() if name != pod.node)


def _is_selected(pod: SimulatedPod, arguments: Mapping[str, Any]) -> bool:
    """Return whether a plugin's arguments select the namespace and the owner of a pod."""
    namespaces = arguments.get("namespaces") or arguments.get("evictableNamespaces") or {}
    included, namespace = namespaces.get("include"), pod.pod.metadata.namespace
    if namespace in (namespaces.get("exclude") or ()) or (included and namespace not in included):
        return False
    return pod.owner is None or pod.owner.kind not in (arguments.get("excludeOwnerKinds") or ())


def _may_violate(plugin: str, pod: Pod) -> bool:
    if plugin == "PodTopologySpread":
        return bool(pod.spec.topology_spread_constraints)
    if plugin == "NodeAffinity":
        return bool(pod.spec.node_selector or (pod.spec.affinity and pod.spec.affinity.node_affinity))
    return True
