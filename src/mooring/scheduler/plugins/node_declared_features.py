"""NodeDeclaredFeatures: rejects nodes whose `declaredFeatures` lack a kubelet feature that the pod needs."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, PodSpec
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo

REASON = "node(s) didn't match Pod's required features"
NO_FEATURES: frozenset[str] = frozenset()
_RESTART_ALL = "RestartAllContainers"
_Needs = tuple[Cluster, frozenset[str]]


class NodeDeclaredFeatures(fwk.FilterPlugin[_Needs]):
    name = "NodeDeclaredFeatures"
    filters = fwk.Declaration(fwk.Part.POD)

    def __init__(self, _arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        self._is_on = handle.features.node_declared_features

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if self._is_on and needed_features(spec) else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_Needs] | fwk.Status:
        needs = needed_features(pod.pod.spec) if self._is_on else None
        return fwk.PreFilterResult((cluster, needs)) if needs else fwk.SKIP

    def filter(self, state: _Needs, rows: fwk.Rows) -> fwk.Verdicts:
        cluster, needs = state
        codes = np.zeros(cluster.capacity, np.int32)
        for info in cluster.node_infos():
            if not needs.issubset(info.node.status.declared_features):
                codes[info.row] = -1
        return fwk.Verdicts(codes[rows], lambda _: (REASON,))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        if not self._is_on:
            return ()
        changed = fwk.Action.ADD | fwk.Action.UPDATE_NODE_DECLARED_FEATURE
        return (
            fwk.wake_on(fwk.Kind.NODE, changed, _after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE, _after_own_change),
        )


def needed_features(spec: PodSpec) -> frozenset[str]:
    """Return the features that a kubelet must declare for a pod; most pods need none."""
    needs = []
    if spec.host_network and spec.host_users is False:
        needs.append("UserNamespacesHostNetworkSupport")
    for each in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        if each.restart_policy_rules and any(rule.action == _RESTART_ALL for rule in each.restart_policy_rules):
            needs.append("RestartAllContainersOnContainerExits")
        if each.volume_mounts and any(mount.bind_mount_options for mount in each.volume_mounts):
            needs.append("VolumeBindMountOptions")
    return frozenset(needs) if needs else NO_FEATURES


def _after_node_change(_pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
    same = old is not None and new is not None and old.status.declared_features == new.status.declared_features
    return fwk.QueueingHint.of(not same)


def _after_own_change(_pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
    same = old is not None and new is not None and needed_features(old.spec) == needed_features(new.spec)
    return fwk.QueueingHint.of(not same)
