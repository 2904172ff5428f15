"""Describe rejections because of volumes and devices."""

from collections.abc import Sequence

from mooring.advisor.explain import devices
from mooring.advisor.explain.reasons.groups import Groups, as_one, by_text, pods_named
from mooring.advisor.explain.reasons.nodes import shown_requirement
from mooring.advisor.explain.storage import (
    claims_of,
    disk_holders,
    one_pod_holders,
    size_of,
    volume_of,
    volume_terms,
    volume_zones,
)
from mooring.advisor.explain.view import View, full_name
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim
from mooring.api.storage_v1 import CSINode
from mooring.constraints import node_selector
from mooring.scheduler.facade import (
    REASON_CANNOT,
    REASON_ELSEWHERE,
    REASON_GAVE_UP,
    REASON_INVALID_POOL,
    NodeInfo,
    class_of,
    is_bound,
    limits_of,
)
from mooring.scheduler.framework import Status


def restrictions(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    claimed = one_pod_holders(view)
    if claimed:
        return as_one(infos, f"{pods_named(claimed)} uses a claim that only one pod may use (ReadWriteOncePod)")
    held = [holder for info in infos for holder in disk_holders(view, info)]
    return as_one(infos, f"{pods_named(held)} has a disk that cannot be mounted twice") if held else []


def binding(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups:
    if len(status.reasons) == 1 and status.reasons[0] == "pod has unbound immediate PersistentVolumeClaims":
        unbound = [_claim_text(claim) for claim in claims_of(view) if not is_bound(claim)]
        return as_one(infos, "; ".join(unbound)) if unbound else []
    return by_text(infos, lambda info: "; ".join(_binding_texts(view, info, status)) or status.message)


def _claim_text(claim: PersistentVolumeClaim) -> str:
    of_class = class_of(claim)
    return (
        f"claim {full_name(claim)} ({size_of(claim)}, {', '.join(claim.spec.access_modes)},"
        f" {f'class {of_class}' if of_class else 'no class'}) is bound to no volume"
    )


def _binding_texts(view: View, info: NodeInfo, status: Status) -> list[str]:
    found, labels = [], info.node.metadata.labels
    for claim in claims_of(view):
        volume = volume_of(view, claim)
        if claim.spec.volume_name and volume is None:
            found.append(
                f"claim {full_name(claim)} is bound to the volume {claim.spec.volume_name}, which is not there"
            )
        elif volume is not None and not node_selector.volume_matches(volume, labels, view.features.constraints):
            found.append(f"volume {volume.metadata.name} can be used only where {affinity_text(volume)}")
        elif not is_bound(claim) and any("persistent volumes to bind" in reason for reason in status.reasons):
            found.append(f"{_claim_text(claim)}, and there is none for it here")
        elif not is_bound(claim) and any("free storage" in reason for reason in status.reasons):
            found.append(f"{_claim_text(claim)}, and its driver reports too little room here")
    return found


def affinity_text(volume: PersistentVolume) -> str:
    return " or ".join(
        " and ".join([*(shown_requirement(each) for each in term.match_expressions), *term.match_cel_expressions])
        for term in volume_terms(volume)
    )


def zone(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    wanted = "; ".join(
        f"volume {volume.metadata.name} is in {key}={' or '.join(values)}" for volume, key, values in volume_zones(view)
    )
    keys = [key for _, key, _ in volume_zones(view)]

    def text(info: NodeInfo) -> str:
        labels = info.node.metadata.labels
        return f"{wanted}, the node in {', '.join(f'{key}={labels[key]}' for key in keys if key in labels) or 'none'}"

    return by_text(infos, text) if wanted else []


def limits(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups:
    if any("not found" in reason or "created for" in reason for reason in status.reasons):
        return []
    found: dict[str, None] = {}
    for info in infos:
        node = view.object(CSINode, info.name)
        for driver, number in limits_of(node).items() if node is not None else ():
            found[f"at most {number} volumes of {driver}"] = None
    return as_one(infos, f"the node can have {', '.join(found)}, and has as many") if found else []


def devices_on(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups:
    if REASON_ELSEWHERE in status.reasons:
        return as_one(infos, "a claim of the pod has devices that cannot be used on this node")
    if not {REASON_CANNOT, REASON_GAVE_UP, REASON_INVALID_POOL} & set(status.reasons):
        return []  # it is about the claims themselves

    def text(info: NodeInfo) -> str:
        lacking = [devices.lacking_text(found) for found in devices.requests_on(view, info.name) if not found.is_enough]
        return "; ".join(lacking) or "each request could have its devices, but not all of them together"

    return by_text(infos, text)
