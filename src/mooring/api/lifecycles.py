"""When each kind of each API version was introduced, deprecated and removed.

The facts are Kubernetes' own, down to the releases that are planned but not out yet; a test compares them with the
history of the API (``history/``), so that servers need not read that. The scheme reads them to decide what is served,
what is warned about and in which version objects are stored. Read next: ``scheme.py``.
"""

from dataclasses import dataclass

from mooring.base.version import Version


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The releases in which something about a kind changed."""

    introduced: Version
    deprecated: Version | None = None
    removed: Version | None = None
    replacement: str = ""
    """The group and version to use instead, for the warning."""
    is_legacy: bool = False
    """Whether a beta is on by default although those of its time are not, since the ones before it were."""

    def known_at(self, version: Version) -> bool:
        """Whether a release has the kind."""
        return self.introduced <= version and (self.removed is None or version < self.removed)

    def deprecated_at(self, version: Version) -> bool:
        """Whether a release warns about the kind."""
        return self.deprecated is not None and self.deprecated <= version


def since(
    introduced: str, deprecated: str = "", removed: str = "", *, replacement: str = "", is_legacy: bool = False
) -> Lifecycle:
    """A lifecycle as the tables below and tests write it."""
    return Lifecycle(
        Version.parse(introduced),
        Version.parse(deprecated) if deprecated else None,
        Version.parse(removed) if removed else None,
        replacement,
        is_legacy,
    )


ALWAYS = since("1.0")
_RESOURCE_V1 = "resource.k8s.io/v1"
_FLOW_V1 = "flowcontrol.apiserver.k8s.io/v1"

_ADMISSION_V1 = "admissionregistration.k8s.io/v1"

_LIFECYCLES = {
    ("admissionregistration.k8s.io", "v1"): {
        "MutatingAdmissionPolicy": since("1.36"),
        "MutatingAdmissionPolicyBinding": since("1.36"),
        "MutatingWebhookConfiguration": since("1.16"),
        "ValidatingAdmissionPolicy": since("1.30"),
        "ValidatingAdmissionPolicyBinding": since("1.30"),
        "ValidatingWebhookConfiguration": since("1.16"),
    },
    ("admissionregistration.k8s.io", "v1beta1"): {
        "MutatingAdmissionPolicy": since("1.34", "1.37", "1.40", replacement=_ADMISSION_V1),
        "MutatingAdmissionPolicyBinding": since("1.34", "1.37", "1.40", replacement=_ADMISSION_V1),
        "ValidatingAdmissionPolicy": since("1.28", "1.31", "1.34"),
        "ValidatingAdmissionPolicyBinding": since("1.28", "1.31", "1.34"),
    },
    ("admissionregistration.k8s.io", "v1alpha1"): {
        "MutatingAdmissionPolicy": since("1.32", "1.35", "1.38"),
        "MutatingAdmissionPolicyBinding": since("1.32", "1.35", "1.38"),
    },
    ("apps", "v1"): {
        "ControllerRevision": since("1.9"),
        "DaemonSet": since("1.9"),
        "Deployment": since("1.9"),
        "ReplicaSet": since("1.9"),
        "StatefulSet": since("1.9"),
    },
    ("authentication.k8s.io", "v1"): {"SelfSubjectReview": since("1.28")},
    ("autoscaling", "v1"): {"HorizontalPodAutoscaler": since("1.2"), "Scale": since("1.2")},
    ("autoscaling", "v2"): {"HorizontalPodAutoscaler": since("1.23")},
    ("batch", "v1"): {"CronJob": since("1.21"), "Job": since("1.2")},
    ("certificates.k8s.io", "v1"): {
        "CertificateSigningRequest": since("1.19"),
        "ClusterTrustBundle": since("1.37"),
        "PodCertificateRequest": since("1.37"),
    },
    ("certificates.k8s.io", "v1beta1"): {
        "ClusterTrustBundle": since("1.33", "1.37", "1.40", replacement="certificates.k8s.io/v1"),
        "PodCertificateRequest": since("1.35", "1.37", "1.40", replacement="certificates.k8s.io/v1"),
    },
    ("coordination.k8s.io", "v1"): {"Lease": since("1.14")},
    ("events.k8s.io", "v1"): {"Event": since("1.19")},
    ("flowcontrol.apiserver.k8s.io", "v1"): {
        "FlowSchema": since("1.29"),
        "PriorityLevelConfiguration": since("1.29"),
    },
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): {
        "FlowSchema": since("1.26", "1.29", "1.32", replacement=_FLOW_V1, is_legacy=True),
        "PriorityLevelConfiguration": since("1.26", "1.29", "1.32", replacement=_FLOW_V1, is_legacy=True),
    },
    ("networking.k8s.io", "v1"): {
        "IPAddress": since("1.33"),
        "Ingress": since("1.19"),
        "IngressClass": since("1.19"),
        "NetworkPolicy": since("1.7"),
        "ServiceCIDR": since("1.33"),
    },
    ("networking.k8s.io", "v1beta1"): {
        "IPAddress": since("1.31", "1.34", "1.37"),
        "ServiceCIDR": since("1.31", "1.34", "1.37"),
    },
    ("node.k8s.io", "v1"): {"RuntimeClass": since("1.20")},
    ("policy", "v1"): {"Eviction": since("1.22"), "PodDisruptionBudget": since("1.21")},
    ("resource.k8s.io", "v1"): {
        "DeviceClass": since("1.34"),
        "DeviceTaintRule": since("1.37"),
        "ResourceClaim": since("1.34"),
        "ResourceClaimTemplate": since("1.34"),
        "ResourceSlice": since("1.34"),
    },
    ("resource.k8s.io", "v1beta2"): {
        "DeviceClass": since("1.33", "1.36", "1.39", replacement=_RESOURCE_V1),
        "DeviceTaintRule": since("1.36", "1.39", "1.42", replacement=_RESOURCE_V1),
        "ResourceClaim": since("1.33", "1.36", "1.39", replacement=_RESOURCE_V1),
        "ResourceClaimTemplate": since("1.33", "1.36", "1.39", replacement=_RESOURCE_V1),
        "ResourceSlice": since("1.33", "1.36", "1.39", replacement=_RESOURCE_V1),
    },
    ("resource.k8s.io", "v1beta1"): {
        "DeviceClass": since("1.32", "1.35", "1.38", replacement=_RESOURCE_V1),
        "ResourceClaim": since("1.32", "1.35", "1.38", replacement=_RESOURCE_V1),
        "ResourceClaimTemplate": since("1.32", "1.35", "1.38", replacement=_RESOURCE_V1),
        "ResourceSlice": since("1.32", "1.35", "1.38", replacement=_RESOURCE_V1),
    },
    ("resource.k8s.io", "v1alpha3"): {
        "DeviceTaintRule": since("1.33", "1.36", "1.39", replacement=_RESOURCE_V1),
    },
    ("scheduling.k8s.io", "v1"): {"PriorityClass": since("1.14")},
    ("storage.k8s.io", "v1"): {
        "CSIDriver": since("1.18"),
        "CSINode": since("1.17"),
        "CSIStorageCapacity": since("1.24"),
        "StorageClass": since("1.6"),
        "VolumeAttachment": since("1.13"),
        "VolumeAttributesClass": since("1.34"),
    },
    ("storagemigration.k8s.io", "v1"): {"StorageVersionMigration": since("1.37")},
    ("storagemigration.k8s.io", "v1beta1"): {
        "StorageVersionMigration": since("1.35", "1.37", "1.40", replacement="storagemigration.k8s.io/v1"),
    },
    ("storage.k8s.io", "v1beta1"): {
        "VolumeAttributesClass": since("1.31", "1.34", "1.37", replacement="storage.k8s.io/v1"),
    },
}


def lifecycle_of(group: str, version: str, kind: str) -> Lifecycle:
    """The lifecycle of a kind; those without an entry, such as all of core/v1, have always been there."""
    return _LIFECYCLES.get((group, version), {}).get(kind, ALWAYS)
