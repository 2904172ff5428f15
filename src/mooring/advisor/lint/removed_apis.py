"""API versions of Kubernetes that Mooring lacks because they were removed, or because it does not have the kind.

Manifests still use them. Kinds that Mooring has are in ``mooring.api.lifecycles``. Read by ``options.py``.
"""

from typing import NamedTuple


class Removal(NamedTuple):
    """The first release without an API version, and the API version that replaces it."""

    release: str
    replacement: str = ""


_REMOVED: tuple[tuple[str, str, str, str], ...] = (
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "1.22",
        "admissionregistration.k8s.io/v1",
    ),
    ("apiextensions.k8s.io/v1beta1", "*", "1.22", "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io/v1beta1", "*", "1.22", "apiregistration.k8s.io/v1"),
    ("apps/v1beta1", "*", "1.16", "apps/v1"),
    ("apps/v1beta2", "*", "1.16", "apps/v1"),
    ("authentication.k8s.io/v1beta1", "TokenReview", "1.22", "authentication.k8s.io/v1"),
    ("authorization.k8s.io/v1beta1", "*", "1.22", "authorization.k8s.io/v1"),
    ("autoscaling/v2beta1", "*", "1.25", "autoscaling/v2"),
    ("autoscaling/v2beta2", "*", "1.26", "autoscaling/v2"),
    ("batch/v1beta1", "*", "1.25", "batch/v1"),
    ("batch/v2alpha1", "*", "1.21", "batch/v1"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest", "1.22", "certificates.k8s.io/v1"),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate", "1.38", "coordination.k8s.io/v1beta1"),
    ("coordination.k8s.io/v1beta1", "Lease", "1.22", "coordination.k8s.io/v1"),
    ("coordination.k8s.io/v1beta1", "LeaseCandidate", "1.39", ""),
    ("discovery.k8s.io/v1beta1", "*", "1.25", "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", "*", "1.25", "events.k8s.io/v1"),
    ("extensions/v1beta1", "DaemonSet Deployment ReplicaSet", "1.16", "apps/v1"),
    ("extensions/v1beta1", "Ingress", "1.22", "networking.k8s.io/v1"),
    ("extensions/v1beta1", "NetworkPolicy", "1.16", "networking.k8s.io/v1"),
    ("extensions/v1beta1", "PodSecurityPolicy", "1.16", ""),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "*", "1.26", "flowcontrol.apiserver.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "*", "1.29", "flowcontrol.apiserver.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "*", "1.32", "flowcontrol.apiserver.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", "Ingress IngressClass", "1.22", "networking.k8s.io/v1"),
    ("node.k8s.io/v1beta1", "*", "1.25", "node.k8s.io/v1"),
    ("policy/v1beta1", "Eviction PodDisruptionBudget", "1.25", "policy/v1"),
    ("policy/v1beta1", "PodSecurityPolicy", "1.25", ""),
    ("rbac.authorization.k8s.io/v1alpha1", "*", "1.22", "rbac.authorization.k8s.io/v1"),
    ("rbac.authorization.k8s.io/v1beta1", "*", "1.22", "rbac.authorization.k8s.io/v1"),
    ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", "1.42", ""),
    ("scheduling.k8s.io/v1beta1", "PriorityClass", "1.22", "scheduling.k8s.io/v1"),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity VolumeAttachment", "1.24", "storage.k8s.io/v1"),
    ("storage.k8s.io/v1alpha1", "VolumeAttributesClass", "1.35", "storage.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", "CSIDriver CSINode StorageClass VolumeAttachment", "1.22", "storage.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity", "1.27", "storage.k8s.io/v1"),
)
"""Removed API versions: apiVersion, kinds (`*` for all), the first release without them, and the replacement."""
_BY_KIND = {
    (api_version, kind): Removal(release, replacement)
    for api_version, kinds, release, replacement in _REMOVED
    for kind in kinds.split()
}


def removal_of(api_version: str, kind: str) -> Removal | None:
    """Return the removal of an API version that Mooring does not have; None if no release removes it."""
    return _BY_KIND.get((api_version, kind)) or _BY_KIND.get((api_version, "*"))
