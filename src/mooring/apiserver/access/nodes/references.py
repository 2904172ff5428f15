"""Find the objects that a pod or a PersistentVolume refers to, which the pod's node may read."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Tree = Mapping[str, Any]

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of mirror pods, which kubelets create themselves; a node must not gain rights by creating one."""
_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_OF_CSI = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
"""The secret fields of a CSI volume that kubelets need; other secrets are for controllers."""


class Reference(NamedTuple):
    """A reference from a pod or PersistentVolume to another object: its resource, namespace and name."""

    resource: str
    namespace: str
    name: str


def references_of_pod(pod: Tree) -> frozenset[Reference]:
    """Return references to the objects that a pod lets its node read; none for a mirror pod."""
    return frozenset() if MIRROR in pod["metadata"].get("annotations", {}) else named_by(pod)


def named_by(pod: Tree) -> frozenset[Reference]:
    namespace = pod["metadata"]["namespace"]
    return frozenset(Reference(resource, namespace, name) for resource, name in _find_references(pod) if name)


def resources_named_by(pod: Tree) -> Iterator[str]:
    """Yield the resources (such as `secrets`) that a pod refers to; a mirror pod with any is refused.

    They include resources that a node may not read directly, such as claim templates and signers.
    """
    spec = pod["spec"]
    yield from sorted({reference.resource for reference in named_by(pod)})
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes", ()):
        yield from (text for kind, text in _API_VOLUMES.items() if volume.get(kind) is not None)
        for source in (volume.get("projected") or {}).get("sources", ()):
            yield from (text for kind, text in _API_SOURCES.items() if source.get(kind) is not None)


_API_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_API_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def secrets_of_volume(volume: Tree) -> Iterator[Reference]:
    """Return references to the secrets with which a kubelet mounts a PersistentVolume."""
    spec = volume["spec"]
    namespace = spec.get("claimRef", {}).get("namespace", "")
    if "azureFile" in spec:
        source = spec["azureFile"]
        yield Reference("secrets", source.get("secretNamespace") or namespace, source.get("secretName", ""))
    found = [spec.get(kind, {}).get("secretRef") for kind in _WITH_SECRET_REF]
    found += [spec.get("csi", {}).get(field) for field in _OF_CSI]
    for reference in found:
        if reference:
            yield Reference("secrets", reference.get("namespace") or namespace, reference.get("name", ""))


def _find_references(pod: Tree) -> Iterator[tuple[str, str]]:
    spec = pod["spec"]
    yield "serviceaccounts", spec.get("serviceAccountName", "")
    for secret in spec.get("imagePullSecrets", ()):
        yield "secrets", secret.get("name", "")
    for volume in spec.get("volumes", ()):
        yield from _references_of_volume(volume, pod["metadata"]["name"])
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind, ()):
            yield from _references_of_container(container)
    yield from _referenced_claims(spec, pod.get("status", {}))


def _references_of_volume(volume: Tree, pod_name: str) -> Iterator[tuple[str, str]]:
    yield "secrets", volume.get("secret", {}).get("secretName", "")
    yield "secrets", volume.get("azureFile", {}).get("secretName", "")
    yield "configmaps", volume.get("configMap", {}).get("name", "")
    yield "persistentvolumeclaims", volume.get("persistentVolumeClaim", {}).get("claimName", "")
    if "ephemeral" in volume:
        yield "persistentvolumeclaims", f"{pod_name}-{volume['name']}"
    for source in volume.get("projected", {}).get("sources", ()):
        yield "secrets", source.get("secret", {}).get("name", "")
        yield "configmaps", source.get("configMap", {}).get("name", "")
    for kind in _WITH_SECRET_REF:
        yield "secrets", (volume.get(kind, {}).get("secretRef") or {}).get("name", "")
    yield "secrets", (volume.get("csi", {}).get("nodePublishSecretRef") or {}).get("name", "")


def _references_of_container(container: Tree) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom", ()):
        yield "secrets", source.get("secretRef", {}).get("name", "")
        yield "configmaps", source.get("configMapRef", {}).get("name", "")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom") or {}
        yield "secrets", source.get("secretKeyRef", {}).get("name", "")
        yield "configmaps", source.get("configMapKeyRef", {}).get("name", "")


def _referenced_claims(spec: Tree, status: Tree) -> Iterator[tuple[str, str]]:
    made = {entry["name"]: entry.get("resourceClaimName", "") for entry in status.get("resourceClaimStatuses", ())}
    for claim in spec.get("resourceClaims", ()):
        yield "resourceclaims", claim.get("resourceClaimName") or made.get(claim.get("name"), "")
    yield "resourceclaims", (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName", "")
