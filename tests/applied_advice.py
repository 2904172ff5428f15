"""Does what a suggestion of `mooring explain` says to a snapshot, as a user with kubectl and the controllers would."""

from typing import Any

from mooring.advisor.explain.results import Change, Suggestion
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.apiserver.registry.patch.json_patch import apply


def applied(snapshot: Snapshot, suggestion: Suggestion) -> Snapshot:
    """Return the cluster after a suggestion was applied and the controllers have reacted."""
    for change in suggestion.changes:
        target = change.target
        kind = full_scheme().kind(target.api_version, target.kind)
        assert kind is not None
        old = snapshot.find(kind.type, target.namespace, target.name)
        if change.action == "delete":
            assert old is not None
            snapshot = snapshot.replace(remove=[old])
        elif change.action == "create":
            new: Any = codec.decode_tree(change.object, kind.type).object
            snapshot = snapshot.replace(put=[new])
        else:
            snapshot = snapshot.replace(put=[patched(old, change, kind.type)])
    return bind_claims(snapshot)


def patched(old: Resource | None, change: Change, cls: type[Resource]) -> Resource:
    tree = apply(change.patch, codec.to_tree(old))
    found = codec.decode_tree(tree, cls).object
    if found.kind == "Node" and not tree["spec"].get("unschedulable"):
        found.spec.taints = [each for each in found.spec.taints if not each.key.endswith("/unschedulable")]  # type: ignore[attr-defined] # a node
    return found


def bind_claims(snapshot: Snapshot) -> Snapshot:
    """Return what the volume controller does for claims that do not wait for a pod."""
    waiting = {each.metadata.name for each in snapshot.all(StorageClass)}
    for each in snapshot.all(PersistentVolumeClaim):
        if each.status.phase == "Lost" and snapshot.find(PersistentVolume, "", each.spec.volume_name) is not None:
            found = copy_of(each)
            found.status.phase = "Bound"
            snapshot = snapshot.replace(put=[found])
        if each.spec.volume_name or each.spec.storage_class_name in waiting:
            continue
        name = (each.metadata.namespace, each.metadata.name)
        for volume in snapshot.all(PersistentVolume):
            reference = volume.spec.claim_ref
            if reference is not None and (reference.namespace, reference.name) == name:
                bound = copy_of(each)
                bound.spec.volume_name = volume.metadata.name
                bound.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
                snapshot = snapshot.replace(put=[bound])
    return snapshot
