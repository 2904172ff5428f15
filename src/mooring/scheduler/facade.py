"""The names that `mooring.advisor` imports from the scheduler; it may import only from here and from `framework`.

    ExplainEngine, Engine, Outcome, …      where a pod would go, and every plugin's rejection
    Attempts, SchedulingQueue, …           the steps of an attempt and the order of pods, for simulations
    Cluster, NodeInfo, PodSignature, …     the state of a cluster and of a pod
    claim_names, Inventory, …              volumes and devices, as plugins see them

Names of ``running/`` are missing, because advice must not write to a cluster. `lint-imports` checks both rules.
"""

from mooring.api.core_v1 import NodeAffinity
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod, object_key, pod_key
from mooring.scheduler.columns.signatures import ANY_ADDRESS, HostPort, PodSignature, PodTerms, host_ports, pod_terms
from mooring.scheduler.deciding.attempt import AssumedPod, Attempts, Driver
from mooring.scheduler.deciding.diagnosis import FEASIBLE, Diagnosis
from mooring.scheduler.deciding.engine import (
    NO_NODES,
    NOTHING_DONE,
    Engine,
    ExplainEngine,
    Outcome,
    UnknownSchedulerError,
    fit_message,
)
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation
from mooring.scheduler.dra.allocated import Allocated
from mooring.scheduler.dra.claims import ClaimError, Request
from mooring.scheduler.dra.claims import claim_name as device_claim_name
from mooring.scheduler.dra.claims import requests_of as device_requests_of
from mooring.scheduler.dra.devices import DeviceId, PooledDevice, SelectorError
from mooring.scheduler.dra.inventory import Inventory
from mooring.scheduler.framework.profiles import (
    CONFIG_API_VERSION,
    CONFIG_KIND,
    DEFAULT_SCHEDULER,
    Profile,
    ProfileSpec,
)
from mooring.scheduler.plugins import IN_TREE, arguments, node_affinity
from mooring.scheduler.plugins.dynamic_resources import (
    REASON_CANNOT,
    REASON_ELSEWHERE,
    REASON_GAVE_UP,
    REASON_INVALID_POOL,
)
from mooring.scheduler.plugins.node_declared_features import needed_features
from mooring.scheduler.plugins.volume_restrictions import pods_share_disk
from mooring.scheduler.queue import Backoffs, Pool, QueuedPod, SchedulingQueue
from mooring.scheduler.queue.cluster_events import OTHER_KINDS, POD_DELETED, classify_node_change, on_node
from mooring.scheduler.volumes.claims import (
    BIND_COMPLETED,
    SELECTED_NODE,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_names,
    class_of,
    is_bound,
)
from mooring.scheduler.volumes.csi import attachments, limits_of
from mooring.scheduler.volumes.provisioning import NO_PROVISIONER

__all__ = [
    "ANY_ADDRESS",
    "BIND_COMPLETED",
    "CONFIG_API_VERSION",
    "CONFIG_KIND",
    "DEFAULT_SCHEDULER",
    "FEASIBLE",
    "IN_TREE",
    "NOTHING_DONE",
    "NO_NODES",
    "NO_PROVISIONER",
    "OTHER_KINDS",
    "POD_DELETED",
    "REASON_CANNOT",
    "REASON_ELSEWHERE",
    "REASON_GAVE_UP",
    "REASON_INVALID_POOL",
    "SELECTED_NODE",
    "STORAGE",
    "WAIT_FOR_FIRST_CONSUMER",
    "Allocated",
    "AssumedPod",
    "Attempts",
    "Backoffs",
    "ClaimError",
    "Cluster",
    "DeviceId",
    "Diagnosis",
    "Driver",
    "Engine",
    "ExplainEngine",
    "HostPort",
    "Inventory",
    "NodeInfo",
    "Outcome",
    "PlacedPod",
    "PodEvaluation",
    "PodSignature",
    "PodTerms",
    "Pool",
    "PooledDevice",
    "Profile",
    "ProfileSpec",
    "QueuedPod",
    "Request",
    "SchedulingQueue",
    "SelectorError",
    "UnknownSchedulerError",
    "added_affinity",
    "attachments",
    "claim_names",
    "class_of",
    "classify_node_change",
    "device_claim_name",
    "device_requests_of",
    "fit_message",
    "host_ports",
    "is_bound",
    "limits_of",
    "needed_features",
    "object_key",
    "on_node",
    "pod_key",
    "pod_terms",
    "pods_share_disk",
]


def added_affinity(profile: ProfileSpec) -> NodeAffinity | None:
    """Return the node affinity that a profile's configuration adds to every pod; None if it adds none."""
    plugin = node_affinity.NodeAffinity.name
    given = profile.arguments.get(plugin, {})
    return arguments.read(plugin, given, node_affinity.NodeAffinityArgs).added_affinity
