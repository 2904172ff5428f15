"""Create, bind and allocate volume claims and device claims at once, as their controllers would.

The scheduler's plugins choose and reserve a volume or device; the choice is then written to the simulated cluster. A
provisioned volume is accessible where the CSI driver of the chosen node says; without such a driver, everywhere.
"""

from typing import TYPE_CHECKING

from msgspec import structs

from mooring.advisor.simulate.pod_creation import reference_to
from mooring.advisor.simulate.pods import SimulatedPod, suffix_of, uid_of
from mooring.api.core_v1 import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    PodResourceClaimStatus,
    VolumeNodeAffinity,
)
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.storage_v1 import CSINode, StorageClass
from mooring.scheduler.facade import NO_PROVISIONER, SELECTED_NODE, AssumedPod, object_key
from mooring.scheduler.framework import PreviewsWrites

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class Claims:
    """Creates, binds and releases the volume claims and device claims of simulated pods."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def create_volume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Create a volume claim unless it exists; bind it unless its StorageClass waits for the first consumer."""
        meta = claim.metadata
        cluster = self._world.engine.cluster
        if object_key(meta.namespace, meta.name) in cluster.objects(PersistentVolumeClaim):
            return
        claim = structs.replace(claim, api_version="v1", kind="PersistentVolumeClaim", spec=structs.replace(claim.spec))
        if self._world.admission.admit(claim):
            return  # then its pod reports the missing claim
        claim.metadata.uid = uid_of("PersistentVolumeClaim", meta.namespace, meta.name)
        storage = self._get_named_storage_class(claim)
        if storage is not None and storage.volume_binding_mode != "WaitForFirstConsumer":
            claim = self._provision_volume(claim, "") if storage.provisioner != NO_PROVISIONER else claim
        self._world.put_object(claim)

    def prepare_pod(self, pod: Pod) -> Pod:
        """Create the claims of a new pod from its templates; return the pod with the claims' names in its status."""
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                wanted = volume.ephemeral.volume_claim_template
                meta = ObjectMeta(
                    name=f"{pod.metadata.name}-{volume.name}",
                    namespace=pod.metadata.namespace,
                    labels=wanted.metadata.labels,
                    annotations=wanted.metadata.annotations,
                    owner_references=[reference_to(pod)],
                )
                self.create_volume_claim(PersistentVolumeClaim(metadata=meta, spec=wanted.spec))
        statuses = list(pod.status.resource_claim_statuses)
        known = {entry.name for entry in statuses}
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name and entry.name not in known:
                made = self._create_from_template(pod, entry.name, entry.resource_claim_template_name)
                if made is not None:
                    statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=made))
        if len(statuses) == len(pod.status.resource_claim_statuses):
            return pod
        return structs.replace(pod, status=structs.replace(pod.status, resource_claim_statuses=statuses))

    def _create_from_template(self, pod: Pod, entry: str, template_name: str) -> str | None:
        namespace = pod.metadata.namespace
        templates = self._world.engine.cluster.objects(ResourceClaimTemplate)
        template = templates.get(object_key(namespace, template_name))
        if template is None:
            return None
        name = f"{pod.metadata.name}-{entry}-{suffix_of(pod.metadata.uid, entry)}"
        meta = ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid_of("ResourceClaim", namespace, name),
            labels=template.spec.metadata.labels,
            annotations={**template.spec.metadata.annotations, _POD_CLAIM_NAME: entry},
            owner_references=[reference_to(pod)],
        )
        claim = ResourceClaim(
            api_version="resource.k8s.io/v1", kind="ResourceClaim", metadata=meta, spec=template.spec.spec
        )
        self._world.put_object(claim)
        return name

    def _get_named_storage_class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name
        return self._world.engine.cluster.objects(StorageClass).get(name) if name else None

    def commit_reservations(self, assumed: AssumedPod) -> None:
        """Store the volumes and claims that plugins chose for a placed pod; release the plugins' reservations."""
        cycle, pod, node = assumed.cycle, assumed.pod, assumed.node
        for plugin in assumed.profile.reserve:
            if isinstance(plugin, PreviewsWrites):
                written = plugin.would_write(cycle, pod, node)
                plugin.unreserve(cycle, pod, node)
                for obj in written:
                    if isinstance(obj, PersistentVolume):
                        self._bind_volume(obj)
                    elif isinstance(obj, PersistentVolumeClaim):
                        self._world.put_object(self._provision_volume(obj, obj.metadata.annotations[SELECTED_NODE]))
                    else:
                        self._world.put_object(obj)

    def _bind_volume(self, volume: PersistentVolume) -> None:
        self._world.put_object(structs.replace(volume, status=structs.replace(volume.status, phase="Bound")))
        wanted = volume.spec.claim_ref or ObjectReference()
        claims = self._world.engine.cluster.objects(PersistentVolumeClaim)
        claim = claims.get(object_key(wanted.namespace, wanted.name))
        if claim is not None:
            self._world.put_object(_with_volume(claim, volume.metadata.name))

    def _provision_volume(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
        meta = claim.metadata
        storage = self._get_named_storage_class(claim)
        name = f"pvc-{meta.uid}"
        volume = PersistentVolume(
            api_version="v1",
            kind="PersistentVolume",
            metadata=ObjectMeta(name=name, uid=uid_of("PersistentVolume", name)),
            spec=PersistentVolumeSpec(
                capacity=dict(claim.spec.resources.requests),
                access_modes=claim.spec.access_modes,
                storage_class_name=claim.spec.storage_class_name or "",
                claim_ref=ObjectReference(
                    kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid
                ),
                node_affinity=self._topology_of(storage.provisioner if storage is not None else "", node),
            ),
        )
        volume.status.phase = "Bound"
        self._world.put_object(volume)
        return _with_volume(claim, name)

    def _topology_of(self, driver: str, node: str) -> VolumeNodeAffinity | None:
        info = self._world.engine.cluster.node(node) if node else None
        found = self._world.engine.cluster.objects(CSINode).get(node)
        if info is None or found is None:
            return None
        keys = next((entry.topology_keys for entry in found.spec.drivers if entry.name == driver), [])
        labels = info.node.metadata.labels
        wanted = [
            NodeSelectorRequirement(key=key, operator="In", values=[labels[key]]) for key in keys if key in labels
        ]
        if not wanted:
            return None
        return VolumeNodeAffinity(
            required=NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=wanted)])
        )

    def release_claims(self, pod: SimulatedPod) -> None:
        """Release the devices that a deleted pod used, and delete the claims that were created for it."""
        meta, cluster = pod.pod.metadata, self._world.engine.cluster
        for volume in pod.pod.spec.volumes:
            if volume.ephemeral is not None:
                key = object_key(meta.namespace, f"{meta.name}-{volume.name}")
                claim = cluster.objects(PersistentVolumeClaim).get(key)
                if claim is not None:
                    self._world.remove_object(claim)
        names = [entry.resource_claim_name for entry in pod.pod.status.resource_claim_statuses]
        names += [entry.resource_claim_name for entry in pod.pod.spec.resource_claims]
        for name in filter(None, names):
            found = cluster.objects(ResourceClaim).get(object_key(meta.namespace, name))
            if found is None:
                continue
            if any(owner.uid == meta.uid for owner in found.metadata.owner_references):
                self._world.remove_object(found)
                continue
            users = [user for user in found.status.reserved_for if user.uid != meta.uid]
            if len(users) < len(found.status.reserved_for):
                allocation = found.status.allocation if users else None
                status = structs.replace(found.status, reserved_for=users, allocation=allocation)
                self._world.put_object(structs.replace(found, status=status))


def _with_volume(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"}
    return structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volume_name=volume),
        status=structs.replace(claim.status, phase="Bound"),
    )
