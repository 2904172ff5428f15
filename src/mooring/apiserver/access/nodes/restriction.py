"""NodeRestriction: restricts which fields and objects a node may write, by Kubernetes' rules.

Called for every object that is written or deleted (`AccessChecks`). Users that are not nodes pass.
"""

from collections.abc import Mapping, Set
from typing import Final, NoReturn

from msgspec import structs

from mooring.admission.registry import strategy_of
from mooring.api import certificate_requests, codec, errors
from mooring.api.authentication_v1 import TokenRequest, UserInfo
from mooring.api.certificates_v1 import (
    KUBELET_CLIENT,
    KUBELET_SERVING,
    CertificateSigningRequest,
    PodCertificateRequest,
)
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.quoting import go_quote
from mooring.api.storage_v1 import CSINode
from mooring.apiserver.access.nodes.references import MIRROR, resources_named_by
from mooring.apiserver.messages import users
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.store.kv import Store

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the Leases by which nodes report that they are alive."""
_KUBELET_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
"""Kubernetes' labels that a kubelet may set on its own node, in addition to those of `_KUBELET_DOMAINS`."""
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED_DOMAIN: Final = "node-restriction.kubernetes.io"
_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")


class NodeRestriction:
    """Refuses writes by which a node would exceed its part: other nodes' objects, or fields it may not set."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        """Raise Forbidden if a node may not make a write; `new` is None for a deletion, `old` for a create."""
        if users.NODES not in user.groups:
            return
        node, obj = users.node_name(user), new or old
        if obj is None:
            return
        if node is None:
            _forbidden_error(obj, f'could not determine node from user "{user.username}"')
        match obj:
            case Pod() if isinstance(old, Pod):
                _check_pod(node, new, old, subresource)
            case Pod():
                _check_mirror_pod(node, obj)
                self._check_owner(node, obj)
            case Node():
                _check_node(node, obj, old)
            case PersistentVolumeClaim():
                _check_claim(node, obj, old, is_status=subresource == "status" and new is not None)
            case Lease():
                if obj.metadata.namespace != NODE_LEASES:
                    _forbidden_error(obj, f'can only access leases in the "{NODE_LEASES}" system namespace')
                _require_own_name(node, obj, "node lease")
            case CSINode():
                _require_own_name(node, obj, "CSINode")
            case PodCertificateRequest() if old is None:
                self._check_pod_certificate(node, obj)
            case CertificateSigningRequest() if old is None:
                _check_certificate_request(node, obj)
        is_slice_added_or_removed = obj.kind == "ResourceSlice" and (new is None or old is None)
        if is_slice_added_or_removed and codec.to_tree(obj)["spec"].get("nodeName") != node:
            deed = "delete" if new is None else "create"
            _forbidden_error(obj, f"can only {deed} ResourceSlice with the same NodeName as the requesting node")

    def _check_pod_certificate(self, node: str, wanted: PodCertificateRequest) -> None:
        """Raise Forbidden unless a certificate request is for a pod on this node and its account."""
        spec = wanted.spec
        if spec.node_name != node:
            _forbidden_error(wanted, f'spec.nodeName is "{spec.node_name}", which is not the requesting node "{node}"')
        kv = self._store.peek(f"{ROOT}pods/{wanted.metadata.namespace}/{spec.pod_name}")
        pod = codec.decode_own(kv.value, Pod) if kv else None
        if pod is None or pod.metadata.uid != spec.pod_uid or pod.spec.node_name != node:
            _forbidden_error(wanted, f'pod "{spec.pod_name}" is not running on node "{node}"')
        if MIRROR in pod.metadata.annotations:
            _forbidden_error(wanted, f'pod "{spec.pod_name}" is a mirror pod')
        if pod.spec.service_account_name != spec.service_account_name:
            _forbidden_error(wanted, f'pod "{spec.pod_name}" has another service account')
        sources = [source for volume in pod.spec.volumes if volume.projected for source in volume.projected.sources]
        signers = {source.pod_certificate.signer_name for source in sources if source.pod_certificate}
        if spec.signer_name not in signers:
            _forbidden_error(
                wanted, f'pod "{spec.pod_name}" has no podCertificate volume for signer "{spec.signer_name}"'
            )

    def _check_owner(self, node: str, pod: Pod) -> None:
        """Raise Forbidden unless a mirror pod's owner reference has the uid of the existing Node."""
        kv = self._store.peek(f"{ROOT}nodes/{node}")
        [owner] = pod.metadata.owner_references
        uid = codec.decode_own(kv.value, Node).metadata.uid if kv else ""
        if owner.uid != uid:
            _forbidden_error(pod, f"node {node} UID mismatch: expected {owner.uid} got {uid}")


def token_refusal(user: UserInfo, request: TokenRequest, pod: Pod | None, audiences: Set[str]) -> str:
    """Return why a node may not have a token, as none of its pods needs it; empty if it may."""
    bound, wanted = request.spec.bound_object_ref, request.spec.audiences
    if bound is None or bound.api_version != "v1" or bound.kind != "Pod" or not bound.name:
        return "node requested token not bound to a pod"
    if not bound.uid:
        return "node requested token with a pod binding without a uid"
    if pod is None:
        return ""  # the issuer reports that there is no such pod
    if pod.spec.node_name != users.node_name(user):
        return "node requested token bound to a pod scheduled on a different node"
    if len(wanted) > 1:
        return "node may only request 0 or 1 audiences"
    if (wanted[0] if wanted else "") not in audiences:
        return f"{user.username} is not authorized to request tokens for audience {go_quote(''.join(wanted))}"
    return ""


def _check_pod(node: str, new: Resource | None, old: Pod, subresource: str) -> None:
    if new is None:
        deed = "evict" if subresource == "eviction" else "delete"
        if old.spec.node_name != node:
            _forbidden_error(old, f'node "{node}" can only {deed} pods with spec.nodeName set to itself')
    elif subresource != "status":
        _forbidden_error(old, f'unexpected operation "UPDATE", node "{node}" can only create and delete mirror pods')
    elif isinstance(new, Pod):
        _check_pod_status(node, new, old)


def _check_pod_status(node: str, new: Pod, old: Pod) -> None:
    if old.spec.node_name != node:
        _forbidden_error(old, f'node "{node}" can only update pod status for pods with spec.nodeName set to itself')  # noqa: S608 - no SQL
    if new.metadata.labels != old.metadata.labels:
        _forbidden_error(old, f'node "{node}" cannot update labels through pod status')
    if new.status.resource_claim_statuses != old.status.resource_claim_statuses:
        _forbidden_error(old, f'node "{node}" cannot update resource claim statues')
    if new.status.extended_resource_claim_status != old.status.extended_resource_claim_status:
        _forbidden_error(old, f'node "{node}" cannot update extended resource claim status')
    if new.status.node_allocatable_resource_claim_statuses != old.status.node_allocatable_resource_claim_statuses:
        _forbidden_error(old, f'node "{node}" cannot update node allocatable resource claim statuses')


def _check_mirror_pod(node: str, pod: Pod) -> None:
    if MIRROR not in pod.metadata.annotations:
        _forbidden_error(pod, f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods')
    if pod.spec.node_name != node:
        _forbidden_error(pod, f'node "{node}" can only create pods with spec.nodeName set to itself')
    owners = pod.metadata.owner_references
    if len(owners) != 1:
        _forbidden_error(pod, f'node "{node}" can only create pods with a single owner reference set to itself')
    [owner] = owners
    if (owner.api_version, owner.kind, owner.name) != ("v1", "Node", node):
        _forbidden_error(pod, f'node "{node}" can only create pods with an owner reference set to itself')
    if not owner.controller:
        _forbidden_error(pod, f'node "{node}" can only create pods with a controller owner reference set to itself')
    if owner.block_owner_deletion:
        _forbidden_error(pod, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
    for resource in resources_named_by(codec.to_tree(pod)):
        _forbidden_error(pod, f'node "{node}" can not create pods that reference {resource}')


def _check_node(node: str, new: Node, old: Resource | None) -> None:
    """Raise Forbidden if a node may not write a Node; for a deletion, `new` is the deleted one."""
    if new.metadata.name != node:
        _forbidden_error(new, f'node "{node}" is not allowed to modify node "{new.metadata.name}"')
    before = old if isinstance(old, Node) else None
    if new.spec.config_source is not None and new.spec.config_source != (before and before.spec.config_source):
        _forbidden_error(new, f'node "{node}" is not allowed to set a configSource')
    labels = _forbidden_labels(new.metadata.labels, before.metadata.labels if before else {})
    if before is None:
        if labels:
            _forbidden_error(new, f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}')
        return
    if new.spec.taints != before.spec.taints:
        _forbidden_error(new, f'node "{node}" is not allowed to modify taints')
    if new.metadata.owner_references != before.metadata.owner_references:
        _forbidden_error(new, f'node "{node}" is not allowed to modify ownerReferences')
    if labels:
        _forbidden_error(new, f"is not allowed to modify labels: {', '.join(labels)}")


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Return the labels changed by a write that nodes may not set on themselves, lest they attract pods."""
    changed = {key for key in (*new, *old) if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_forbidden_label(key))


def _is_forbidden_label(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if _is_in_domain(domain, _RESTRICTED_DOMAIN):
        return True
    if not any(_is_in_domain(domain, each) for each in _KUBERNETES_DOMAINS):
        return False
    return key not in _KUBELET_LABELS and not any(_is_in_domain(domain, each) for each in _KUBELET_DOMAINS)


def _is_in_domain(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _check_claim(node: str, new: PersistentVolumeClaim, old: Resource | None, *, is_status: bool) -> None:
    if not is_status or not isinstance(old, PersistentVolumeClaim):
        _forbidden_error(new, "may only update PVC status")
    if _without_changeable_fields(new) != _without_changeable_fields(old):
        _forbidden_error(
            new, f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
        )


def _without_changeable_fields(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return a copy of a claim without what nodes may change, so that the rest can be compared."""
    metadata = structs.replace(claim.metadata, resource_version="", managed_fields=[])
    status = structs.replace(
        claim.status, capacity={}, conditions=[], allocated_resources={}, allocated_resource_statuses={}
    )
    return structs.replace(claim, metadata=metadata, status=status)


def _check_certificate_request(node: str, csr: CertificateSigningRequest) -> None:
    if csr.spec.signer_name in {KUBELET_CLIENT, KUBELET_SERVING}:
        name = certificate_requests.NODE_USER + node
        if certificate_requests.read(csr.spec.request).common_name != name:
            _forbidden_error(csr, f"can only create a node CSR with CN={name}")


def _require_own_name(node: str, obj: Resource, what: str) -> None:
    if obj.metadata.name != node:
        _forbidden_error(obj, f"can only access {what} with the same name as the requesting node")


def _forbidden_error(obj: Resource, why: str) -> NoReturn:
    strategy = strategy_of(type(obj))
    raise errors.forbidden(strategy.resource, obj.metadata.name, why, group=strategy.group)
