"""Create the pods of a workload with the controllers' own functions."""

from collections.abc import Iterator
from itertools import islice

from msgspec import structs

from mooring.advisor.simulate.pods import Workload
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Pod, PodTemplateSpec, ReplicationController
from mooring.api.meta_v1 import ObjectMeta, OwnerReference, Resource
from mooring.controllers.workloads import daemon_nodes, stateful_pods
from mooring.controllers.workloads.deployment_replica_sets import template_hash
from mooring.controllers.workloads.job_pods import INDEX, IndexSet, is_indexed, template_with_index
from mooring.controllers.workloads.revisions import POD_LABEL

WORKLOADS = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet
_ENDED = frozenset({"Complete", "Failed"})


def reference_to(owner: Resource) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def workload_of(obj: ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet) -> Workload:
    """Return a `Workload` for an object whose controller creates pods itself, which excludes Deployments."""
    return Workload(
        reference_to(obj), obj.metadata.namespace, obj, template=obj.spec.template, wanted=count_wanted(obj)
    )


def count_wanted(obj: Resource) -> int:
    """Return how many pods an object's controller keeps running; 0 for a DaemonSet, where nodes decide."""
    if isinstance(obj, Job):
        spec, status = obj.spec, obj.status
        if spec.suspend or any(entry.type in _ENDED and entry.status == "True" for entry in status.conditions):
            return 0
        most = 1 if spec.parallelism is None else spec.parallelism
        return most if spec.completions is None else max(min(most, spec.completions - status.succeeded), 0)
    if isinstance(obj, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if obj.spec.replicas is None else obj.spec.replicas
    return 0


def with_replicas(obj: Resource, replicas: int) -> Resource:
    """Return a workload with another number of replicas (Job: parallelism); a DaemonSet stays unchanged."""
    if isinstance(obj, Job):
        more = obj.spec.completions is not None
        spec = structs.replace(obj.spec, parallelism=replicas, completions=replicas if more else None)
        return structs.replace(obj, spec=spec)
    if isinstance(obj, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return structs.replace(obj, spec=structs.replace(obj.spec, replicas=replicas))
    return obj


def infer_template(pod: Pod) -> PodTemplateSpec:
    """Return a pod template inferred from a pod, for a workload that the snapshot lacks."""
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
    return PodTemplateSpec(metadata=meta, spec=structs.replace(pod.spec, node_name="", ephemeral_containers=[]))


def slot_of(owner: OwnerReference, pod: Pod) -> str:
    """Return what identifies a pod within its workload: ordinal, index or node; empty if pods are interchangeable."""
    if owner.kind == "StatefulSet":
        return pod.metadata.name.rpartition("-")[2]
    if owner.kind == "DaemonSet":
        return daemon_nodes.target_node_of(pod)
    return pod.metadata.annotations.get(INDEX, "")


def has_slots(owner: Workload) -> bool:
    """Return whether each pod of a workload has an ordinal, index or node of its own, so that no two are identical."""
    return owner.kind in ("StatefulSet", "DaemonSet") or (isinstance(owner.object, Job) and is_indexed(owner.object))


def list_slots(owner: Workload) -> Iterator[str]:
    """Yield the ordinals of a StatefulSet, or the unfinished indexes of a Job, that should have a pod, in order."""
    obj = owner.object
    if isinstance(obj, StatefulSet):
        first = stateful_pods.start_ordinal(obj)
        yield from map(str, range(first, first + owner.wanted))
    elif isinstance(obj, Job):
        completions = obj.spec.completions or 0
        done = IndexSet.parse(obj.status.completed_indexes, completions)
        yield from map(str, islice(done.missing_below(completions), owner.wanted))


def is_ordered(owner: Workload) -> bool:
    """Return whether a pod is created only once the previous one runs."""
    obj = owner.object
    return isinstance(obj, StatefulSet) and stateful_pods.is_ordered(obj)


def new_pod(owner: Workload, slot: str) -> Pod:
    """Return a new pod as the workload's controller creates it. It shares parts of the template: copy it first."""
    obj, template = owner.object, owner.template
    if template is None:
        raise AssertionError(f"{owner.display_name} has no template")
    if isinstance(obj, StatefulSet):
        revision = f"{owner.name}-{template_hash(template, None)}"
        return stateful_pods.build_pod(obj, int(slot), template, revision, owner.reference)
    labels, annotations, spec = template.metadata.labels, template.metadata.annotations, template.spec
    name, generated = "", f"{owner.name}-"
    if owner.kind == "DaemonSet":
        spec = daemon_nodes.pin_spec_to_node(spec, slot)
        labels = {**labels, POD_LABEL: template_hash(template, None)}
    elif owner.kind == "StatefulSet":  # known only by its pods
        name, generated = f"{owner.name}-{slot}", ""
    elif slot and isinstance(obj, Job):
        made, changes = template_with_index(obj, int(slot), 0)
        spec, labels, annotations = made.spec, changes["labels"], changes["annotations"]
        generated = changes["generate_name"]
    meta = ObjectMeta(
        name=name,
        generate_name=generated,
        namespace=owner.namespace,
        labels=labels,
        annotations=annotations,
        finalizers=template.metadata.finalizers,
        owner_references=[owner.reference],
    )
    return Pod(api_version="v1", kind="Pod", metadata=meta, spec=spec)
