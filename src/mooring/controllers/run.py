"""Run a set of controllers, by their names in kube-controller-manager, on shared informers.

    controllers = Controllers(client, options)
    await controllers.run()          # until cancelled; `run_elected` waits for leadership first

`mooring controllers` and `mooring up` run one. Read next: ``controller.py``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from mooring.api.admissionregistration_v1 import ValidatingAdmissionPolicy
from mooring.api.errors import StatusError
from mooring.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.base import logs
from mooring.client import Client, ClientError, Informers
from mooring.client.leader_election import ElectedComponent, LeaderElection
from mooring.controllers.autoscaling.horizontal import HorizontalPodAutoscalerController
from mooring.controllers.certificate_requests import CertificateApprovalController
from mooring.controllers.controller import Context, Controller, ControllerFactory
from mooring.controllers.disruption import DisruptionBudgetController
from mooring.controllers.endpoint_slice import (
    EndpointsController,
    EndpointSliceController,
    EndpointSliceMirroringController,
)
from mooring.controllers.expiry import CertificateRequestExpiryController, JobExpiryController, TokenExpiryController
from mooring.controllers.garbage_collector import GarbageCollector, PodGarbageCollector
from mooring.controllers.namespace import NamespaceController
from mooring.controllers.node_lifecycle import NodeLifecycleController
from mooring.controllers.options import COMPONENT, ControllerOptions, select_controllers
from mooring.controllers.persistent_volume_binder import PersistentVolumeController
from mooring.controllers.resource_claim import ResourceClaimController
from mooring.controllers.service_account import RootCaController, ServiceAccountController
from mooring.controllers.simulated_nodes.nodes import SimulatedNodeController
from mooring.controllers.simulated_nodes.pods import SimulatedPodController
from mooring.controllers.taint_eviction import DeviceTaintEviction, TaintEviction
from mooring.controllers.validating_policy_status import ValidatingPolicyStatusController
from mooring.controllers.volume_protection import EphemeralVolumeController, VolumeProtectionController
from mooring.controllers.workloads.cron_job import CronJobController
from mooring.controllers.workloads.daemon_set import DaemonSetController
from mooring.controllers.workloads.deployment import DeploymentController
from mooring.controllers.workloads.job import JobController
from mooring.controllers.workloads.replicas import ReplicaSetController, ReplicationControllerController
from mooring.controllers.workloads.stateful_set import StatefulSetController

CONTROLLERS: dict[str, ControllerFactory] = {
    "deployment": DeploymentController,
    "replicaset": ReplicaSetController,
    "replicationcontroller": ReplicationControllerController,
    "statefulset": StatefulSetController,
    "daemonset": DaemonSetController,
    "job": JobController,
    "ttl-after-finished": JobExpiryController,
    "cronjob": CronJobController,
    "horizontalpodautoscaler": HorizontalPodAutoscalerController,
    "certificatesigningrequest-approving": CertificateApprovalController,
    "certificatesigningrequest-cleaner": CertificateRequestExpiryController,
    "device-taint-eviction": DeviceTaintEviction,
    "disruption": DisruptionBudgetController,
    "endpoints": EndpointsController,
    "endpointslice": EndpointSliceController,
    "endpointslicemirroring": EndpointSliceMirroringController,
    "ephemeral-volume": EphemeralVolumeController,
    "persistentvolume-binder": PersistentVolumeController,
    "pod-garbage-collector": PodGarbageCollector,
    "resourceclaim": ResourceClaimController,
    "garbage-collector": GarbageCollector,
    "namespace": NamespaceController,
    "root-ca-certificate-publisher": RootCaController,
    "serviceaccount": ServiceAccountController,
    "volume-protection": VolumeProtectionController,
    "node-lifecycle": NodeLifecycleController,
    "simulated-nodes": SimulatedNodeController,
    "simulated-pods": SimulatedPodController,
    "taint-eviction": TaintEviction,
    "token-cleaner": TokenExpiryController,
    "validatingadmissionpolicy-status": ValidatingPolicyStatusController,
}


log = logs.get(__name__)


async def discover_versions(client: Client) -> None:
    """Ask the server for the versions of kinds that not every server has, before controllers use them."""
    policies = [] if client.knows(ValidatingAdmissionPolicy) else [ValidatingAdmissionPolicy]
    try:
        await client.served([DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice, *policies])
    except (StatusError, ClientError) as problem:
        log.info("cannot ask what the API server serves, taking the versions for granted: %s", problem)


class ControllerSet(ElectedComponent):
    """A component whose controllers run on shared informers while it is the leader."""

    context: Context
    controllers: Mapping[str, Controller]

    async def prepare(self) -> None:
        """Do what must be done before the controllers start; subclasses override it. Informers may not have synced."""

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self.context.start(stack)
                await self.prepare()
                await self.context.informers.wait_for_sync()
                log.info("controllers begin", extra={"fields": {"controllers": list(self.controllers)}})
                self._ready.set()
                async with asyncio.TaskGroup() as tasks:
                    for name, controller in self.controllers.items():
                        tasks.create_task(controller.run(), name=name)
        finally:
            self._ready.clear()
            for controller in self.controllers.values():
                controller.queue.shut_down()


class Controllers(ControllerSet):
    """The component that runs the controllers that `names` selects, by default all. Raise UnknownControllerError."""

    def __init__(
        self,
        client: Client,
        options: ControllerOptions | None = None,
        *,
        names: Sequence[str] = (),
        election: LeaderElection | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        options = options or ControllerOptions()
        super().__init__(client, election or LeaderElection(COMPONENT), options.version)
        self.context = Context(client, Informers(client), options, registry or CollectorRegistry())
        names = select_controllers(names, CONTROLLERS)
        self.controllers = {name: CONTROLLERS[name](self.context) for name in names}
