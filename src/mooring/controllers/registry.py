"""Every controller by the name that `--controllers` and kube-controller-manager have for it. One line each."""

from mooring.controllers.controller import Factory
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.namespace import NamespaceDeletion
from mooring.controllers.node_lifecycle import NodeLifecycle
from mooring.controllers.service_account import ServiceAccounts
from mooring.controllers.simulated_nodes import SimulatedNodes, SimulatedPods
from mooring.controllers.taint_eviction import TaintEviction
from mooring.controllers.volume_protection import VolumeProtection
from mooring.controllers.workloads.deployment import DeploymentController
from mooring.controllers.workloads.replica_set import ReplicaSetController

CONTROLLERS: dict[str, Factory] = {
    "deployment": DeploymentController,
    "replicaset": ReplicaSetController,
    "garbage-collector": GarbageCollector,
    "namespace": NamespaceDeletion,
    "serviceaccount": ServiceAccounts,
    "volume-protection": VolumeProtection,
    "node-lifecycle": NodeLifecycle,
    "simulated-nodes": SimulatedNodes,
    "simulated-pods": SimulatedPods,
    "taint-eviction": TaintEviction,
}
