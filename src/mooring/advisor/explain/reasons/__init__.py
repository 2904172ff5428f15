"""Describe why a plugin rejects nodes, with the compared values.

`describe` takes nodes that a plugin rejected with the same status, and groups them by text, so that five thousand nodes
become a few lines. For an unknown plugin (a user's own), the text is its own message. Read next: ``nodes.py``,
``pods.py``, ``storage.py``.
"""

from collections.abc import Callable, Mapping, Sequence

from mooring.advisor.explain.reasons import nodes, pods, storage
from mooring.advisor.explain.reasons.groups import Groups, as_one
from mooring.advisor.explain.view import View
from mooring.scheduler.facade import NodeInfo
from mooring.scheduler.framework import Status

Describer = Callable[[View, Sequence[NodeInfo], Status], Groups]

_DESCRIBERS: Mapping[str, Describer] = {
    "NodeUnschedulable": nodes.unschedulable,
    "NodeName": nodes.node_name,
    "TaintToleration": nodes.taints,
    "NodeAffinity": nodes.affinity,
    "NodePorts": nodes.ports,
    "NodeResourcesFit": nodes.resources,
    "PodTopologySpread": pods.spread,
    "InterPodAffinity": pods.affinity,
    "VolumeRestrictions": storage.restrictions,
    "VolumeBinding": storage.binding,
    "VolumeZone": storage.zone,
    "NodeVolumeLimits": storage.limits,
    "DynamicResources": storage.devices_on,
}


def describe(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups:
    """Group nodes that a plugin rejected by the text that describes why."""
    describer = _DESCRIBERS.get(status.plugin)
    found = describer(view, infos, status) if describer is not None else []
    return found or as_one(infos, status.message)
