"""Every controller by its name in `--controllers` and kube-controller-manager."""

from mooring.controllers.autoscaling.horizontal import HorizontalAutoscaler
from mooring.controllers.certificate_requests import CertificateApproval
from mooring.controllers.controller import Factory
from mooring.controllers.device_taint_eviction import DeviceTaintEviction
from mooring.controllers.disruption import DisruptionBudgets
from mooring.controllers.endpoint_slice import EndpointSlices
from mooring.controllers.endpoint_slice_mirroring import EndpointSliceMirroring
from mooring.controllers.endpoints import ServiceEndpoints
from mooring.controllers.ephemeral_volume import EphemeralVolumes
from mooring.controllers.expiry import CertificateRequestExpiry, EventExpiry, JobExpiry, TokenExpiry
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.namespace import NamespaceDeletion
from mooring.controllers.node_lifecycle import NodeLifecycle
from mooring.controllers.persistent_volume_binder import PersistentVolumeBinder
from mooring.controllers.pod_garbage_collector import PodGarbageCollector
from mooring.controllers.resource_claim import ResourceClaims
from mooring.controllers.root_ca import RootCaPublisher
from mooring.controllers.service_account import ServiceAccounts
from mooring.controllers.simulated_nodes import SimulatedNodes, SimulatedPods
from mooring.controllers.taint_eviction import TaintEviction
from mooring.controllers.validating_policy_status import ValidatingPolicyStatus
from mooring.controllers.volume_protection import VolumeProtection
from mooring.controllers.workloads.cron_job import CronJobController
from mooring.controllers.workloads.daemon_set import DaemonSetController
from mooring.controllers.workloads.deployment import DeploymentController
from mooring.controllers.workloads.job import JobController
from mooring.controllers.workloads.replicas import ReplicaSetController, ReplicationControllers
from mooring.controllers.workloads.stateful_set import StatefulSetController

CONTROLLERS: dict[str, Factory] = {
    "deployment": DeploymentController,
    "replicaset": ReplicaSetController,
    "replicationcontroller": ReplicationControllers,
    "statefulset": StatefulSetController,
    "daemonset": DaemonSetController,
    "job": JobController,
    "ttl-after-finished": JobExpiry,
    "cronjob": CronJobController,
    "horizontalpodautoscaler": HorizontalAutoscaler,
    "certificatesigningrequest-approving": CertificateApproval,
    "certificatesigningrequest-cleaner": CertificateRequestExpiry,
    "device-taint-eviction": DeviceTaintEviction,
    "disruption": DisruptionBudgets,
    "endpoints": ServiceEndpoints,
    "endpointslice": EndpointSlices,
    "endpointslicemirroring": EndpointSliceMirroring,
    "ephemeral-volume": EphemeralVolumes,
    "event-ttl": EventExpiry,
    "persistentvolume-binder": PersistentVolumeBinder,
    "pod-garbage-collector": PodGarbageCollector,
    "resourceclaim": ResourceClaims,
    "garbage-collector": GarbageCollector,
    "namespace": NamespaceDeletion,
    "root-ca-certificate-publisher": RootCaPublisher,
    "serviceaccount": ServiceAccounts,
    "volume-protection": VolumeProtection,
    "node-lifecycle": NodeLifecycle,
    "simulated-nodes": SimulatedNodes,
    "simulated-pods": SimulatedPods,
    "taint-eviction": TaintEviction,
    "token-cleaner": TokenExpiry,
    "validatingadmissionpolicy-status": ValidatingPolicyStatus,
}
