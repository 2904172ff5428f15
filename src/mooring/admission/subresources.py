"""Which metadata a write of a subresource may change: one table for all kinds.

``pipeline.py`` restores everything else before the kind's own strategy prepares the object, so that a role for a
subresource grants no control of owners, finalizers or labels. A kind or subresource that is missing here changes
nothing. Identity (name, uid, creation time) is left as sent, so that validation rejects a change.
"""

from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource

CLIENT_METADATA = ("labels", "annotations", "finalizers", "owner_references")
"""Metadata that an update of the main resource may change."""
_RESTORED = (*CLIENT_METADATA, "generate_name", "generation", "deletion_timestamp")
_ORDINARY = frozenset({"labels", "annotations", "finalizers"})
_ORDINARY_STATUS = {
    "": (
        "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers resourcequotas services"
    ),
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apps": "daemonsets replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": "certificatesigningrequests",
    "networking.k8s.io": "ingresses",
    "policy": "poddisruptionbudgets",
}
WRITABLE_METADATA: dict[tuple[str, str, str], frozenset[str]] = {
    **{
        (group, resource, "status"): _ORDINARY
        for group, resources in _ORDINARY_STATUS.items()
        for resource in resources.split()
    },
    ("", "namespaces", "finalize"): _ORDINARY,
    ("apps", "deployments", "status"): _ORDINARY - {"labels"},
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): _ORDINARY,
}
"""(group, resource, subresource) → fields of the metadata, as in upstream Kubernetes, but never owner references."""


def restore_metadata(new: Resource, old: Resource, group: str, resource: str, subresource: str) -> None:
    """Put the old metadata into `new`, except the fields that the subresource may change."""
    writable = WRITABLE_METADATA.get((group, resource, subresource), frozenset())
    for name in _RESTORED:
        stored = getattr(old.metadata, name)
        if name not in writable and getattr(new.metadata, name) != stored:
            setattr(new.metadata, name, copy_of(stored))
