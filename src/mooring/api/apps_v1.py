"""apps/v1: the workloads that keep a number of pods running, and the revisions of their templates.

The workload controllers act on these; their pods come from `core_v1.PodTemplateSpec`. Read next: ``batch_v1.py``.
"""

from typing import Annotated, Any

from mooring.api.base import (
    Int32,
    Int64,
    IntOrString,
    Merge,
    Object,
    StateCondition,
    always,
    atomic,
    list_map,
    required,
)
from mooring.api.core_v1 import PersistentVolumeClaim, PodTemplateSpec
from mooring.api.meta_v1 import LabelSelector, Resource


class _WorkloadCondition(StateCondition):
    """One aspect of a workload's state."""

    type: str = always(str)
    """What the condition is about."""
    status: str = always(str)
    """True, False or Unknown."""


class RollingUpdateDeployment(Object):
    """The limits of a Deployment's rolling update."""

    max_unavailable: IntOrString | None = None
    """How many pods may be missing during the update, as a number or a percentage of the replicas."""
    max_surge: IntOrString | None = None
    """How many pods there may be above the replicas during the update, as a number or a percentage."""


class DeploymentStrategy(Object):
    """The strategy by which a Deployment replaces old pods with new ones."""

    type: str = ""
    """Recreate or RollingUpdate."""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Object):
    """The desired state of a Deployment."""

    replicas: Int32 | None = None
    """How many pods are wanted; 1 when not given."""
    selector: LabelSelector | None = required(lambda: None)
    """Finds the pods of the Deployment; it must match the labels of the template."""
    template: PodTemplateSpec = required(PodTemplateSpec)
    strategy: Annotated[DeploymentStrategy, Merge("granular", patch_strategies=("retainKeys",))] = always(
        DeploymentStrategy
    )
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    """How many old ReplicaSets are kept for a rollback; 10 when not given."""
    paused: bool = False
    """Whether changes of the template wait."""
    progress_deadline_seconds: Int32 | None = None
    """After how many seconds without progress the Deployment counts as failed; 600 when not given."""


class DeploymentCondition(_WorkloadCondition):
    """One aspect of a Deployment's state: Available, Progressing or ReplicaFailure."""

    last_update_time: str | None = always(lambda: None)
    """When the condition was last looked at."""


class DeploymentStatus(Object):
    """The observed state of a Deployment."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    """How many pods the Deployment has that are not ending."""
    updated_replicas: Int32 = 0
    """How many of them have the current template."""
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    unavailable_replicas: Int32 = 0
    """How many more available pods are needed."""
    terminating_replicas: Int32 | None = None
    """How many pods are being deleted and have not ended yet."""
    conditions: Annotated[list[DeploymentCondition], list_map("type")] = []
    collision_count: Int32 | None = None
    """How often the name of a new ReplicaSet was taken already; it goes into the hash."""


class Deployment(Resource):
    """Runs a number of equal pods and updates them step by step."""

    spec: DeploymentSpec = required(DeploymentSpec)
    status: DeploymentStatus = always(DeploymentStatus)


class ReplicaSetSpec(Object):
    """The desired state of a ReplicaSet."""

    replicas: Int32 | None = None
    """How many pods are wanted; 1 when not given."""
    min_ready_seconds: Int32 = 0
    selector: LabelSelector | None = required(lambda: None)
    """Finds the pods of the ReplicaSet; it must match the labels of the template."""
    template: PodTemplateSpec = always(PodTemplateSpec)


class ReplicaSetCondition(_WorkloadCondition):
    """One aspect of a ReplicaSet's state; ReplicaFailure is the only one."""


class ReplicaSetStatus(Object):
    """The observed state of a ReplicaSet."""

    replicas: Int32 = required(int)
    """How many pods the ReplicaSet has that are not ending."""
    fully_labeled_replicas: Int32 = 0
    """How many of them have all labels of the template."""
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    """How many pods are being deleted and have not ended yet."""
    observed_generation: Int64 = 0
    conditions: Annotated[list[ReplicaSetCondition], list_map("type")] = []


class ReplicaSet(Resource):
    """Keeps a number of equal pods running; usually made by a Deployment."""

    spec: ReplicaSetSpec = required(ReplicaSetSpec)
    status: ReplicaSetStatus = always(ReplicaSetStatus)


class RollingUpdateStatefulSetStrategy(Object):
    """The limits of a StatefulSet's rolling update."""

    partition: Int32 | None = None
    """Only pods with this ordinal or a higher one are updated; 0 when not given."""
    max_unavailable: IntOrString | None = None
    """How many pods may be missing during the update, as a number or a percentage of the replicas."""


class StatefulSetUpdateStrategy(Object):
    """The strategy by which a StatefulSet replaces old pods with new ones."""

    type: str = ""
    """RollingUpdate, or OnDelete to replace pods only after they were deleted manually."""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Object):
    """The retention policy of the volume claims that a StatefulSet created."""

    when_deleted: str = ""
    """Retain or Delete them when the StatefulSet is deleted."""
    when_scaled: str = ""
    """Retain or Delete those of pods that scaling down removes."""


class StatefulSetOrdinals(Object):
    """The numbering of a StatefulSet's pods."""

    start: Int32 = always(int)
    """The number of the first pod."""


class StatefulSetSpec(Object):
    """The desired state of a StatefulSet."""

    replicas: Int32 | None = None
    """How many pods are wanted; 1 when not given."""
    selector: LabelSelector | None = required(lambda: None)
    """Finds the pods of the StatefulSet; it must match the labels of the template."""
    template: PodTemplateSpec = required(PodTemplateSpec)
    """The pods that are made, named after the StatefulSet and a number."""
    volume_claim_templates: list[PersistentVolumeClaim] = []
    """Claims that are made for every pod and stay its own."""
    service_name: str = always(str)
    """The Service that gives the pods their network names."""
    pod_management_policy: str = ""
    """OrderedReady to start pods one after the other, Parallel for all at once."""
    update_strategy: StatefulSetUpdateStrategy = always(StatefulSetUpdateStrategy)
    revision_history_limit: Int32 | None = None
    """How many old ControllerRevisions are kept for a rollback; 10 when not given."""
    min_ready_seconds: Int32 = 0
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    """What becomes of the volume claims; they are retained when not given."""
    ordinals: StatefulSetOrdinals | None = None
    """How the pods are numbered; from 0 when not given."""


class StatefulSetCondition(_WorkloadCondition):
    """One aspect of a StatefulSet's state."""


class StatefulSetStatus(Object):
    """The observed state of a StatefulSet."""

    observed_generation: Int64 = 0
    replicas: Int32 = required(int)
    """How many pods the controller has made."""
    ready_replicas: Int32 = 0
    current_replicas: Int32 = 0
    """How many of them have the template of the current revision."""
    updated_replicas: Int32 = 0
    """How many of them have the template of the update revision."""
    current_revision: str = ""
    """The ControllerRevision from which the first pods were made."""
    update_revision: str = ""
    """The ControllerRevision from which updated pods are made."""
    collision_count: Int32 | None = None
    """How often the name of a new ControllerRevision was taken already; it goes into the hash."""
    conditions: Annotated[list[StatefulSetCondition], list_map("type")] = []
    available_replicas: Int32 = always(int)
    """How many pods have been ready for long enough."""


class StatefulSet(Resource):
    """Runs pods that each keep their name, network identity and storage."""

    spec: StatefulSetSpec = required(StatefulSetSpec)
    status: StatefulSetStatus = always(StatefulSetStatus)


class RollingUpdateDaemonSet(Object):
    """The limits of a DaemonSet's rolling update."""

    max_unavailable: IntOrString | None = None
    """On how many nodes the pod may be missing during the update, as a number or a percentage of the nodes."""
    max_surge: IntOrString | None = None
    """On how many nodes a new pod may run beside the old one, as a number or a percentage of the nodes."""


class DaemonSetUpdateStrategy(Object):
    """The strategy by which a DaemonSet replaces old pods with new ones."""

    type: str = ""
    """RollingUpdate, or OnDelete to replace pods only after they were deleted manually."""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Object):
    """The desired state of a DaemonSet."""

    selector: LabelSelector | None = required(lambda: None)
    """Finds the pods of the DaemonSet; it must match the labels of the template."""
    template: PodTemplateSpec = required(PodTemplateSpec)
    """The pod that runs on every node which it fits."""
    update_strategy: DaemonSetUpdateStrategy = always(DaemonSetUpdateStrategy)
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    """How many old ControllerRevisions are kept for a rollback; 10 when not given."""


class DaemonSetCondition(_WorkloadCondition):
    """One aspect of a DaemonSet's state."""


class DaemonSetStatus(Object):
    """The observed state of a DaemonSet."""

    current_number_scheduled: Int32 = required(int)
    """How many nodes run the pod and should."""
    number_misscheduled: Int32 = required(int)
    """How many nodes run the pod and should not."""
    desired_number_scheduled: Int32 = required(int)
    """How many nodes should run the pod."""
    number_ready: Int32 = required(int)
    """How many nodes have a ready pod."""
    observed_generation: Int64 = 0
    updated_number_scheduled: Int32 = 0
    """How many nodes run the pod with the current template."""
    number_available: Int32 = 0
    """How many nodes have a pod that has been ready for long enough."""
    number_unavailable: Int32 = 0
    """How many nodes should have such a pod and do not."""
    collision_count: Int32 | None = None
    """How often the name of a new ControllerRevision was taken already; it goes into the hash."""
    conditions: Annotated[list[DaemonSetCondition], list_map("type")] = []


class DaemonSet(Resource):
    """Runs one pod on every node that it fits."""

    spec: DaemonSetSpec = required(DaemonSetSpec)
    status: DaemonSetStatus = always(DaemonSetStatus)


class ControllerRevision(Resource):
    """A past state of a StatefulSet or DaemonSet, kept for rollbacks; its data cannot be changed."""

    data: Annotated[dict[str, Any] | None, atomic()] = required(lambda: None)
    """The state, in the form that its controller chose."""
    revision: Int64 = always(int)
    """The number of the revision; later ones are higher."""
