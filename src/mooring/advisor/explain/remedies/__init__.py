"""Changes that may help if a plugin rejects a node; ``search.py`` tries whether they do.

Read next: ``remedy.py`` for the type; ``nodes.py``, ``pods.py``, ``storage.py`` and ``devices.py`` by subject.
``creation.py`` and ``waiting.py`` have remedies that do not concern nodes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mooring.advisor.explain.remedies import devices, nodes, pods, storage
from mooring.advisor.explain.remedies.remedy import BOUND, Remedy
from mooring.advisor.explain.subject import set_fields
from mooring.advisor.explain.view import View
from mooring.scheduler.facade import NodeInfo
from mooring.scheduler.framework import Status

__all__ = ["Remedy", "remedies_for"]


def _gate_remedies(view: View, _info: NodeInfo, _status: Status) -> Iterator[Remedy]:
    names = ", ".join(gate.name for gate in view.pod.spec.scheduling_gates)
    summary = f"remove the scheduling gate {names}"
    yield Remedy("open gates", BOUND, summary, edit=set_fields(scheduling_gates=[]))


_BY_PLUGIN: Mapping[str, Callable[[View, NodeInfo, Status], Iterator[Remedy]]] = {
    "SchedulingGates": _gate_remedies,
    "NodeUnschedulable": nodes.cordon_remedies,
    "NodeName": nodes.node_name_remedies,
    "TaintToleration": nodes.taint_remedies,
    "NodeAffinity": nodes.node_affinity_remedies,
    "NodeDeclaredFeatures": nodes.feature_remedies,
    "NodePorts": nodes.port_remedies,
    "NodeResourcesFit": nodes.resource_remedies,
    "VolumeRestrictions": storage.restriction_remedies,
    "VolumeBinding": storage.binding_remedies,
    "VolumeZone": storage.zone_remedies,
    "NodeVolumeLimits": storage.limit_remedies,
    "PodTopologySpread": pods.spread_remedies,
    "InterPodAffinity": pods.pod_affinity_remedies,
    "DynamicResources": devices.device_remedies,
}


def remedies_for(view: View, info: NodeInfo, status: Status) -> list[Remedy]:
    """Return changes that may resolve a plugin's rejection of a node, the smallest first; none for unknown plugins."""
    found = _BY_PLUGIN.get(status.plugin)
    if found is None:
        return []
    made = [replace(remedy, plugin=status.plugin) for remedy in found(view, info, status)]
    return sorted(made, key=lambda remedy: (remedy.size, remedy.distance))
