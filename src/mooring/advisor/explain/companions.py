"""Create the objects that controllers would create together with a pod: claims for ephemeral volumes and devices, and
numbered volumes.

A pod that is only planned has none of these yet; without them the scheduler would wait for controllers and evaluate no
nodes. Called by ``explanation.py`` before the engine evaluates the pod.
"""

from collections.abc import Iterator

from mooring.advisor.explain.subject import Subject
from mooring.advisor.snapshot.admitting import ClusterLookups, admit, by_name
from mooring.advisor.snapshot.objects import Snapshot
from mooring.api.apps_v1 import StatefulSet
from mooring.api.base import copy_of
from mooring.api.core_v1 import PersistentVolumeClaim, Pod, PodResourceClaimStatus
from mooring.api.meta_v1 import ObjectMeta, OwnerReference, Resource
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass
from mooring.controllers.resource_claim import POD_CLAIM_NAME
from mooring.controllers.workloads.stateful_pods import new_claims, ordinal_of


def companions(snapshot: Snapshot, subject: Subject) -> list[Resource]:
    """Return the objects that controllers create along with the pod; write names of device claims to its status."""
    if subject.exists:
        return []
    pod = subject.pod
    facts = ClusterLookups(by_name(snapshot.all(PriorityClass)), by_name(snapshot.all(StorageClass)))
    made: list[Resource] = []
    for claim in (*_ephemeral(pod), *_numbered(subject)):
        if snapshot.find(PersistentVolumeClaim, claim.metadata.namespace, claim.metadata.name) is None:
            admit(claim, facts)
            made.append(claim)
    return [*made, *_device_claims(snapshot, pod)]


def _owner(pod: Pod) -> list[OwnerReference]:
    meta = pod.metadata
    return [OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)]


def _ephemeral(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            meta = ObjectMeta(
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                owner_references=_owner(pod),
            )
            yield PersistentVolumeClaim(
                api_version="v1", kind="PersistentVolumeClaim", metadata=meta, spec=copy_of(template.spec)
            )


def _numbered(subject: Subject) -> list[PersistentVolumeClaim]:
    if not isinstance(subject.source, StatefulSet):
        return []
    reference = subject.pod.metadata.owner_references[0]
    return [copy_of(each) for each in new_claims(subject.source, ordinal_of(subject.pod), reference)]


def _device_claims(snapshot: Snapshot, pod: Pod) -> Iterator[ResourceClaim]:
    for entry in pod.spec.resource_claims:
        wanted = entry.resource_claim_template_name
        template = snapshot.find(ResourceClaimTemplate, pod.metadata.namespace, wanted) if wanted else None
        if template is None:
            continue
        name = f"{pod.metadata.name}-{entry.name}"
        pod.status.resource_claim_statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
        meta = ObjectMeta(
            name=name,
            namespace=pod.metadata.namespace,
            uid=f"{pod.metadata.uid}-{entry.name}",
            annotations={POD_CLAIM_NAME: entry.name},
            owner_references=_owner(pod),
        )
        yield ResourceClaim(
            api_version="resource.k8s.io/v1", kind="ResourceClaim", metadata=meta, spec=copy_of(template.spec.spec)
        )
