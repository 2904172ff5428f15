"""Find the claims and volumes of a pod and their other users, and describe why they exclude nodes."""

from collections.abc import Sequence

from mooring.advisor.explain import wording
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.node_facts import find_nearest
from mooring.advisor.snapshot import Snapshot
from mooring.api import core_v1
from mooring.api.apps_v1 import StatefulSet
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource
from mooring.api.simulation import is_simulated
from mooring.api.storage_v1 import CSIDriver, CSINode, StorageClass
from mooring.constraints import node_selector
from mooring.scheduler import facade
from mooring.scheduler.framework import Status

_ONE_POD = "ReadWriteOncePod"
_SIMULATED_PROVISIONER = "simulation.mooring.dev/volumes"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BINDING = (facade.BIND_COMPLETED, facade.SELECTED_NODE, "pv.kubernetes.io/bound-by-controller")
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def volume_claims_of(view: View) -> list[core_v1.PersistentVolumeClaim]:
    """Return the claims of the pod that exist, in the order of its volumes."""
    found = (view.object(core_v1.PersistentVolumeClaim, name, view.namespace) for name in facade.claim_names(view.pod))
    return [claim for claim in found if claim is not None]


def claim_sources(spec: core_v1.PodSpec) -> list[core_v1.PersistentVolumeClaimVolumeSource]:
    """Return the references to PersistentVolumeClaims in the volumes of a pod's spec."""
    return [each.persistent_volume_claim for each in spec.volumes if each.persistent_volume_claim is not None]


def missing_claim_names(view: View) -> list[str]:
    """Return the names of the pod's claims that do not exist."""
    names = dict.fromkeys(facade.claim_names(view.pod))
    return [name for name in names if view.object(core_v1.PersistentVolumeClaim, name, view.namespace) is None]


def volume_of(view: View, claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolume | None:
    return view.object(core_v1.PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None


def format_size_of(claim: core_v1.PersistentVolumeClaim) -> str:
    size = claim.spec.resources.requests.get(facade.STORAGE)
    return "no size" if size is None else str(size)


def volume_zones(view: View) -> list[tuple[core_v1.PersistentVolume, str, list[str]]]:
    """Return each zone or region label of the pod's volumes: the volume, the label's key and the allowed values."""
    found = []
    for claim in volume_claims_of(view):
        volume = volume_of(view, claim)
        if volume is not None:
            labels = volume.metadata.labels
            own = {key: labels[key].split("__") for key in _ZONES if labels.get(key)}
            found += [(volume, key, [value.strip() for value in values]) for key, values in own.items()]
    return found


def volume_terms(volume: core_v1.PersistentVolume) -> list[core_v1.NodeSelectorTerm]:
    """Return the terms of a volume's required node affinity."""
    required = volume.spec.node_affinity and volume.spec.node_affinity.required
    return required.node_selector_terms if required else []


def one_pod_holders(view: View) -> list[core_v1.Pod]:
    """Return the pods that already use one of the pod's ReadWriteOncePod claims."""
    wanted = {claim.metadata.name for claim in volume_claims_of(view) if _ONE_POD in claim.spec.access_modes}
    if not wanted:
        return []
    placed = (each.pod for each in view.engine.cluster.placed_pods())
    return [
        pod
        for pod in placed
        if pod.spec.volumes
        and pod.metadata.namespace == view.namespace
        and not wanted.isdisjoint(facade.claim_names(pod))
    ]


def disk_holders(view: View, info: facade.NodeInfo) -> list[core_v1.Pod]:
    """Return the pods on a node that share a disk with the pod."""
    return [pod for pod in info.pods if pod.spec.volumes and facade.pods_share_disk(view.pod, pod)]


def working_provisioners(snapshot: Snapshot) -> list[str]:
    """Return the names of provisioners that work: installed CSI drivers, and those that have made a volume."""
    found = {each.metadata.name for each in snapshot.all(CSIDriver)}
    found |= {driver.name for each in snapshot.all(CSINode) for driver in each.spec.drivers}
    for volume in snapshot.all(core_v1.PersistentVolume):
        found.add(volume.metadata.annotations.get(_PROVISIONED_BY, ""))
    if any(is_simulated(each) for each in snapshot.all(core_v1.Node)):
        found.add(_SIMULATED_PROVISIONER)
    return sorted(found - {""})


def is_from_claim_template(source: Resource, claim: str) -> bool:
    """Return whether `source` is a StatefulSet that has made the claim from one of its claim templates."""
    return isinstance(source, StatefulSet) and any(
        claim.startswith(f"{each.metadata.name}-{source.metadata.name}-") for each in source.spec.volume_claim_templates
    )


def ephemeral_volume_of(pod: core_v1.Pod, claim: str) -> str | None:
    """Return the name of the pod's ephemeral volume for which a claim was made; None for any other claim."""
    names = (each.name for each in pod.spec.volumes if each.ephemeral is not None)
    return next((name for name in names if claim == f"{pod.metadata.name}-{name}"), None)


def without_binding(claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolumeClaim:
    """Return a copy of a claim without volume, status, and the annotations of binding and provisioning."""
    found = copy_of(claim)
    found.spec.volume_name = ""
    for name in (*_BINDING, *_PROVISIONERS):
        found.metadata.annotations.pop(name, None)
    found.status = type(found.status)()
    return found


# -- rejections of single nodes, as text


def describe_restrictions(view: View, infos: Sequence[facade.NodeInfo], _status: Status) -> str:
    if claimed := one_pod_holders(view):
        return f"{wording.join_pod_names(claimed)} uses a claim that only one pod may use (ReadWriteOncePod)"
    held = [holder for info in infos for holder in disk_holders(view, info)]
    return f"{wording.join_pod_names(held)} has a disk that cannot be mounted twice" if held else ""


def describe_binding(view: View, infos: Sequence[facade.NodeInfo], status: Status) -> wording.Groups | str:
    if len(status.reasons) == 1 and status.reasons[0] == "pod has unbound immediate PersistentVolumeClaims":
        return "; ".join(_format_claim(claim) for claim in volume_claims_of(view) if not facade.is_bound(claim))
    return wording.group_by_text(infos, lambda info: "; ".join(_binding_texts(view, info, status)) or status.message)


def _format_claim(claim: core_v1.PersistentVolumeClaim) -> str:
    of_class = facade.class_of(claim)
    return (
        f"claim {full_name(claim)} ({format_size_of(claim)}, {', '.join(claim.spec.access_modes)},"
        f" {f'class {of_class}' if of_class else 'no class'}) is bound to no volume"
    )


def _binding_texts(view: View, info: facade.NodeInfo, status: Status) -> list[str]:
    found, labels = [], info.node.metadata.labels
    for claim in volume_claims_of(view):
        volume = volume_of(view, claim)
        if claim.spec.volume_name and volume is None:
            found.append(
                f"claim {full_name(claim)} is bound to the volume {claim.spec.volume_name}, which is not there"
            )
        elif volume is not None and not node_selector.volume_matches(volume, labels, view.features.constraints):
            found.append(f"volume {volume.metadata.name} can be used only where {format_volume_affinity(volume)}")
        elif not facade.is_bound(claim) and any("persistent volumes to bind" in reason for reason in status.reasons):
            found.append(f"{_format_claim(claim)}, and there is none for it here")
        elif not facade.is_bound(claim) and any("free storage" in reason for reason in status.reasons):
            found.append(f"{_format_claim(claim)}, and its driver reports too little room here")
    return found


def format_volume_affinity(volume: core_v1.PersistentVolume) -> str:
    return " or ".join(
        " and ".join(
            [*(wording.format_requirement(each) for each in term.match_expressions), *term.match_cel_expressions]
        )
        for term in volume_terms(volume)
    )


def describe_zone(view: View, infos: Sequence[facade.NodeInfo], _status: Status) -> wording.Groups:
    wanted = "; ".join(
        f"volume {volume.metadata.name} is in {key}={' or '.join(values)}" for volume, key, values in volume_zones(view)
    )
    keys = [key for _, key, _ in volume_zones(view)]

    def text(info: facade.NodeInfo) -> str:
        labels = info.node.metadata.labels
        return f"{wanted}, the node in {', '.join(f'{key}={labels[key]}' for key in keys if key in labels) or 'none'}"

    return wording.group_by_text(infos, text) if wanted else []


def describe_limits(view: View, infos: Sequence[facade.NodeInfo], status: Status) -> str:
    if any("not found" in reason or "created for" in reason for reason in status.reasons):
        return ""
    found: dict[str, None] = {}
    for info in infos:
        node = view.object(CSINode, info.name)
        for driver, number in facade.limits_of(node).items() if node is not None else ():
            found[f"at most {number} volumes of {driver}"] = None
    return f"the node can have {', '.join(found)}, and has as many" if found else ""


# -- causes


def claim_cause(view: View) -> Cause | None:
    """Return the cause if one of the pod's claims, its volume or its StorageClass is missing, else None."""
    for name in missing_claim_names(view):
        meant = view.similar_name(core_v1.PersistentVolumeClaim, name, view.namespace)
        others = [each.metadata for each in view.objects(core_v1.PersistentVolumeClaim).values()]
        spaces = sorted(each.namespace for each in others if each.name == name)
        hint = (
            f"; there is one in {wording.join_names(spaces)}, which only pods there can use"
            if spaces
            else wording.did_you_mean(meant)
        )
        return Cause("MissingClaim", f"claim {view.namespace}/{name} does not exist{hint}")
    for claim in volume_claims_of(view):
        cause = _unbound_cause(view, claim)
        if cause is not None:
            return cause
    return None


def _unbound_cause(view: View, claim: core_v1.PersistentVolumeClaim) -> Cause | None:
    name, of_class = full_name(claim), facade.class_of(claim)
    if claim.metadata.deletion_timestamp is not None:
        return Cause("ClaimTerminating", f"claim {name} is being deleted")
    if volume := claim.spec.volume_name:
        if volume_of(view, claim) is not None:
            return None
        lost = " any more: the claim is lost" if claim.status.phase == "Lost" else ""
        return Cause("MissingVolume", f"claim {name} is bound to the volume {volume}, which does not exist{lost}")
    found = view.object(StorageClass, of_class) if of_class else None
    volumes = view.objects(core_v1.PersistentVolume).values()
    if of_class and found is None and all(each.spec.storage_class_name != of_class for each in volumes):
        meant = wording.did_you_mean(view.similar_name(StorageClass, of_class))
        return Cause("MissingStorageClass", f"StorageClass {of_class} does not exist (claim {name}){meant}")
    if found is not None and found.volume_binding_mode == facade.WAIT_FOR_FIRST_CONSUMER:
        return None
    classes = view.objects(StorageClass)
    if claim.spec.storage_class_name is None and not of_class and classes:
        names = wording.join_names([each.metadata.name for each in classes.values()])
        text = f"claim {name} names no StorageClass, and no class is the default (existing classes: {names})"
        return Cause("NoDefaultClass", text)
    wanted = f"{format_size_of(claim)}, {', '.join(claim.spec.access_modes)}"
    if found is None or found.provisioner == facade.NO_PROVISIONER:
        of = f"of class {of_class}" if of_class else "without a class"
        return Cause("NoVolume", f"claim {name} has no volume: no free PersistentVolume {of} fits it ({wanted})")
    return Cause(
        "NotProvisioned",
        f"claim {name} has no volume yet: the provisioner {found.provisioner} of StorageClass {of_class}"
        f" has not made one{_driver_hint(view, found.provisioner)}",
    )


def unprovisioned_cause(view: View) -> Cause | None:
    """Return the cause if a claim waits for its volume on a node that the scheduler has chosen, else None."""
    for claim in volume_claims_of(view):
        node = claim.metadata.annotations.get(facade.SELECTED_NODE)
        found = view.object(StorageClass, facade.class_of(claim))
        if node and found is not None and not claim.spec.volume_name:
            text = (
                f"the scheduler has chosen node {node}, and claim {full_name(claim)} waits for its volume there: is the"
                f" provisioner {found.provisioner} of StorageClass {facade.class_of(claim)} installed and running?"
                f"{_driver_hint(view, found.provisioner)}"
            )
            return Cause("NotProvisioned", text)
    return None


def _driver_hint(view: View, provisioner: str) -> str:
    drivers = view.objects(CSIDriver)
    known = [each.metadata.name for each in drivers.values()]
    if provisioner in known or not known:
        return ""
    return f"; no CSIDriver {provisioner} is installed{wording.did_you_mean(find_nearest(provisioner, known))}"


def restrictions_cause(view: View, infos: Sequence[facade.NodeInfo]) -> Cause | None:
    """Return the cause if another pod uses the pod's ReadWriteOncePod claim or its disk on a node; else None."""
    if held := one_pod_holders(view):
        text = "the pod's claim may be used by one pod only (ReadWriteOncePod)"
        return Cause("ClaimInUse", f"{text}, and {wording.join_pod_names(held)} uses it")
    disks = [pod for info in infos for pod in disk_holders(view, info)]
    text = f"{wording.join_pod_names(disks)} has a disk of the pod, which cannot be mounted twice"
    return Cause("DiskInUse", text) if disks else None


def binding_cause(view: View) -> Cause | None:
    """Return why volumes or an unbound claim exclude all nodes that other filters pass; None if none can."""
    for claim in volume_claims_of(view):
        volume = volume_of(view, claim)
        if volume is not None and volume.spec.node_affinity is not None:
            head = f"volume {volume.metadata.name} of claim {full_name(claim)} can be used only where"
            where = format_volume_affinity(volume)
            return Cause("VolumeElsewhere", f"{head} {where}, and no node left for the pod is there")
    unbound = next((each for each in volume_claims_of(view) if not facade.is_bound(each)), None)
    if unbound is None:
        return None
    of_class, name, size = facade.class_of(unbound), full_name(unbound), format_size_of(unbound)
    found = view.object(StorageClass, of_class)
    if found is not None and found.provisioner == facade.NO_PROVISIONER:
        text = f"claim {name} has no volume: no free PersistentVolume of class {of_class} fits it on a node left for"
        return Cause("NoVolume", f"{text} the pod ({size})")
    if found is not None and found.allowed_topologies:
        terms = [each for term in found.allowed_topologies for each in term.match_label_expressions]
        zones = wording.join_names([value for each in terms for value in each.values])
        text = f"StorageClass {of_class} makes volumes only in {zones}, and no node left for the pod is there"
        return Cause("ClassElsewhere", text)
    text = f"claim {name} ({size}): the driver of StorageClass {of_class} has not enough room on any node left"
    return Cause("NoCapacity", f"{text} for the pod")


def zone_cause(view: View, infos: Sequence[facade.NodeInfo]) -> Cause | None:
    for volume, key, values in volume_zones(view):
        if all(info.node.metadata.labels.get(key) not in values for info in infos):
            there = wording.join_names(sorted({info.node.metadata.labels.get(key, "none") for info in infos}))
            return Cause(
                "VolumeZone",
                f"volume {volume.metadata.name} is in zone {' or '.join(values)}, and no node left for the"
                f" pod is: they are in {there}",
            )
    return None
