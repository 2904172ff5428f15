"""API versions of Kubernetes that Mooring lacks because they were removed, or because it does not have the kind.

Manifests still use them. Keyed by apiVersion (with `*` for all other kinds): the release that removed them, and the
replacement. Kinds that Mooring has are in ``mooring.api.lifecycles``. Read by ``options.py``.
"""

from typing import NamedTuple


class Removal(NamedTuple):
    """The first release that lacks an API version, and the replacement."""

    release: str
    replacement: str = ""


REMOVED: dict[str, dict[str, Removal]] = {
    "admissionregistration.k8s.io/v1beta1": {
        "MutatingWebhookConfiguration": Removal("1.22", "admissionregistration.k8s.io/v1"),
        "ValidatingWebhookConfiguration": Removal("1.22", "admissionregistration.k8s.io/v1"),
    },
    "apiextensions.k8s.io/v1beta1": {"*": Removal("1.22", "apiextensions.k8s.io/v1")},
    "apiregistration.k8s.io/v1beta1": {"*": Removal("1.22", "apiregistration.k8s.io/v1")},
    "apps/v1beta1": {"*": Removal("1.16", "apps/v1")},
    "apps/v1beta2": {"*": Removal("1.16", "apps/v1")},
    "authentication.k8s.io/v1beta1": {"TokenReview": Removal("1.22", "authentication.k8s.io/v1")},
    "authorization.k8s.io/v1beta1": {"*": Removal("1.22", "authorization.k8s.io/v1")},
    "autoscaling/v2beta1": {"*": Removal("1.25", "autoscaling/v2")},
    "autoscaling/v2beta2": {"*": Removal("1.26", "autoscaling/v2")},
    "batch/v1beta1": {"*": Removal("1.25", "batch/v1")},
    "batch/v2alpha1": {"*": Removal("1.21", "batch/v1")},
    "certificates.k8s.io/v1beta1": {"CertificateSigningRequest": Removal("1.22", "certificates.k8s.io/v1")},
    "coordination.k8s.io/v1alpha2": {"LeaseCandidate": Removal("1.38", "coordination.k8s.io/v1beta1")},
    "coordination.k8s.io/v1beta1": {
        "Lease": Removal("1.22", "coordination.k8s.io/v1"),
        "LeaseCandidate": Removal("1.39"),
    },
    "discovery.k8s.io/v1beta1": {"*": Removal("1.25", "discovery.k8s.io/v1")},
    "events.k8s.io/v1beta1": {"*": Removal("1.25", "events.k8s.io/v1")},
    "extensions/v1beta1": {
        "DaemonSet": Removal("1.16", "apps/v1"),
        "Deployment": Removal("1.16", "apps/v1"),
        "Ingress": Removal("1.22", "networking.k8s.io/v1"),
        "NetworkPolicy": Removal("1.16", "networking.k8s.io/v1"),
        "PodSecurityPolicy": Removal("1.16"),
        "ReplicaSet": Removal("1.16", "apps/v1"),
    },
    "flowcontrol.apiserver.k8s.io/v1beta1": {"*": Removal("1.26", "flowcontrol.apiserver.k8s.io/v1")},
    "flowcontrol.apiserver.k8s.io/v1beta2": {"*": Removal("1.29", "flowcontrol.apiserver.k8s.io/v1")},
    "flowcontrol.apiserver.k8s.io/v1beta3": {"*": Removal("1.32", "flowcontrol.apiserver.k8s.io/v1")},
    "networking.k8s.io/v1beta1": {
        "Ingress": Removal("1.22", "networking.k8s.io/v1"),
        "IngressClass": Removal("1.22", "networking.k8s.io/v1"),
    },
    "node.k8s.io/v1beta1": {"*": Removal("1.25", "node.k8s.io/v1")},
    "policy/v1beta1": {
        "Eviction": Removal("1.25", "policy/v1"),
        "PodDisruptionBudget": Removal("1.25", "policy/v1"),
        "PodSecurityPolicy": Removal("1.25"),
    },
    "rbac.authorization.k8s.io/v1alpha1": {"*": Removal("1.22", "rbac.authorization.k8s.io/v1")},
    "rbac.authorization.k8s.io/v1beta1": {"*": Removal("1.22", "rbac.authorization.k8s.io/v1")},
    "resource.k8s.io/v1alpha3": {"ResourcePoolStatusRequest": Removal("1.42")},
    "scheduling.k8s.io/v1beta1": {"PriorityClass": Removal("1.22", "scheduling.k8s.io/v1")},
    "storage.k8s.io/v1alpha1": {
        "CSIStorageCapacity": Removal("1.24", "storage.k8s.io/v1"),
        "VolumeAttachment": Removal("1.24", "storage.k8s.io/v1"),
        "VolumeAttributesClass": Removal("1.35", "storage.k8s.io/v1"),
    },
    "storage.k8s.io/v1beta1": {
        "CSIDriver": Removal("1.22", "storage.k8s.io/v1"),
        "CSINode": Removal("1.22", "storage.k8s.io/v1"),
        "CSIStorageCapacity": Removal("1.27", "storage.k8s.io/v1"),
        "StorageClass": Removal("1.22", "storage.k8s.io/v1"),
        "VolumeAttachment": Removal("1.22", "storage.k8s.io/v1"),
    },
}


def removal_of(api_version: str, kind: str) -> Removal | None:
    """Return when a kind was or will be removed; None if it will not."""
    kinds = REMOVED.get(api_version, {})
    return kinds.get(kind) or kinds.get("*")
