"""NodePorts: rejects nodes on which a host port of the pod is taken."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Pod
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import ANY_ADDRESS, HostPort, PodInfo, host_ports

REASON = "node(s) didn't have free ports for the requested pod ports"


_ClusterAndPorts = tuple[Cluster, tuple[HostPort, ...]]


class NodePorts(fwk.FilterPlugin[_ClusterAndPorts]):
    name = "NodePorts"
    filters = fwk.Declaration(fwk.Part.PORTS, fwk.Input.PODS)

    def __init__(self, _arguments: fwk.PluginArguments, _handle: fwk.Handle) -> None:
        pass

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_ClusterAndPorts] | fwk.Status:
        return fwk.PreFilterResult((cluster, pod.signature.ports)) if pod.signature.ports else fwk.SKIP

    def filter(self, state: _ClusterAndPorts, rows: fwk.Rows) -> fwk.Verdicts:
        cluster, ports = state
        taken = cluster.ports.conflicts(ports, rows, cluster.capacity)
        return fwk.Verdicts(taken.astype(np.int32), lambda _: (REASON,))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, fwk.Action.DELETE, _after_pod_deletion),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD),
        )


def _after_pod_deletion(pod: Pod, old: Pod | None, _new: Pod | None) -> fwk.QueueingHint:
    if old is None or not old.spec.node_name:
        return fwk.QueueingHint.SKIP
    freed = host_ports(old.spec)
    return fwk.QueueingHint.of(any(_ports_conflict(wanted, port) for wanted in host_ports(pod.spec) for port in freed))


def _ports_conflict(one: HostPort, other: HostPort) -> bool:
    addresses = {one.address, other.address}
    same_port = (one.protocol, one.port) == (other.protocol, other.port)
    return same_port and (len(addresses) == 1 or ANY_ADDRESS in addresses)
