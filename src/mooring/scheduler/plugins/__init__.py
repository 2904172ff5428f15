"""The built-in plugins, one file each, and their registry by name. Read next: ``taint_toleration.py``."""

from mooring.scheduler.framework import Factory
from mooring.scheduler.plugins.default_binder import DefaultBinder
from mooring.scheduler.plugins.default_preemption import DefaultPreemption
from mooring.scheduler.plugins.dynamic_resources import DynamicResources
from mooring.scheduler.plugins.image_locality import ImageLocality
from mooring.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from mooring.scheduler.plugins.node_affinity import NodeAffinity
from mooring.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.scheduler.plugins.node_name import NodeName
from mooring.scheduler.plugins.node_ports import NodePorts
from mooring.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.scheduler.plugins.node_resources_fit import NodeResourcesFit
from mooring.scheduler.plugins.node_unschedulable import NodeUnschedulable
from mooring.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from mooring.scheduler.plugins.pod_topology_spread import PodTopologySpread
from mooring.scheduler.plugins.priority_sort import PrioritySort
from mooring.scheduler.plugins.scheduling_gates import SchedulingGates
from mooring.scheduler.plugins.taint_toleration import TaintToleration
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.plugins.volume_restrictions import VolumeRestrictions
from mooring.scheduler.plugins.volume_zone import VolumeZone

IN_TREE: dict[str, Factory] = {
    plugin.name: plugin
    for plugin in (
        DefaultBinder,
        DefaultPreemption,
        DynamicResources,
        ImageLocality,
        InterPodAffinity,
        NodeAffinity,
        NodeDeclaredFeatures,
        NodeName,
        NodePorts,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        NodeUnschedulable,
        NodeVolumeLimits,
        PodTopologySpread,
        PrioritySort,
        SchedulingGates,
        TaintToleration,
        VolumeBinding,
        VolumeRestrictions,
        VolumeZone,
    )
}
