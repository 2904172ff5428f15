"""The Node authorizer: decides which requests the kubelet of a node may make, by Kubernetes' rules.

A node may read its own Node, the pods bound to it, and, one by one, the secrets, config maps, claims, volumes and
service accounts that these pods refer to. It may write its own Lease, CSINode and ResourceSlices. Rights that all nodes
share are in `node_rules`. RBAC decides on all other requests; by default nodes have no RBAC rights. ``restriction.py``
checks the contents of written objects, which the authorizer does not see.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from mooring.api.authentication_v1 import UserInfo
from mooring.api.kinds import Kind
from mooring.api.rbac_v1 import PolicyRule
from mooring.apiserver.access.authz import Attributes, Authorizer, Decision, forbidden
from mooring.apiserver.access.bootstrap_roles import node_rules
from mooring.apiserver.access.nodes import references
from mooring.apiserver.access.nodes.node_pods import NodePods
from mooring.apiserver.access.nodes.references import Reference
from mooring.apiserver.access.nodes.restriction import NODE_LEASES
from mooring.apiserver.access.rbac import resource_matches
from mooring.apiserver.messages import users
from mooring.apiserver.output import json_bytes
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.store.kv import Store

_ALLOWED: Final = ""
_Rule = Callable[["NodeAuthorizer", str, Attributes], str]
"""A rule for a node and an action: returns "" if the action is allowed, otherwise the reason why not."""
_NOT_MINE: Final = "no relationship found between node '{}' and this object"
_OWN_VERBS: Final = frozenset({"get", "create", "update", "patch", "delete"})
_READ: Final = frozenset({"get", "list", "watch"})


class NodeAuthorizer:
    """Authorizes requests of nodes; asks the next authorizer about other users and what it does not allow."""

    def __init__(self, store: Store, others: Authorizer) -> None:
        self._store = store
        self._others = others
        self._pods = NodePods(store)

    async def prepare(self, user: UserInfo, attributes: Attributes) -> None:
        """Apply pending pod changes if the decision depends on a node's pods; prepare the next authorizer."""
        if (attributes.group, attributes.resource) in _BY_RELATION and users.node_name(user):
            await self._pods.catch_up()
        await self._others.prepare(user, attributes)

    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision:
        node = users.node_name(user)
        if node is None:
            return self._others.authorize(user, attributes)
        why = self._refusal(node, attributes)
        if why == _ALLOWED:
            return Decision(True, "the Node authorizer")
        decision = self._others.authorize(user, attributes)
        return decision if decision.allowed else Decision(False, why)

    def require_create(self, user: UserInfo, kind: Kind, namespace: str, name: str) -> None:
        """Raise Forbidden unless a user may create an object, for updates and applies that create it."""
        attributes = Attributes("create", kind.group, kind.plural, "", namespace, name)
        decision = self.authorize(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        return self._others.rules(user, namespace)

    async def catch_up(self) -> None:
        await self._others.catch_up()

    def _refusal(self, node: str, attributes: Attributes) -> str:
        rule = _RULES.get((attributes.group, attributes.resource)) if not attributes.path else None
        if rule:
            return rule(self, node, attributes)
        allowed = not attributes.path and any(resource_matches(each, attributes) for each in node_rules())
        return _ALLOWED if allowed else "nodes may not do this"

    # -- by relation to a pod on the node

    def _check_read(self, node: str, attributes: Attributes) -> str:
        """Allow get, list and watch of one secret or config map that the node's pods refer to; else return why not."""
        if attributes.verb not in _READ:
            return "can only read resources of this type"
        if attributes.subresource:
            return "cannot read subresource"
        if not attributes.namespace:
            return "can only read namespaced object of this type"
        return self._check_relation(node, attributes)

    def _check_get(self, node: str, attributes: Attributes) -> str:
        if attributes.verb != "get":
            return "can only get individual resources of this type"
        if attributes.subresource:
            return "cannot get subresource"
        return self._check_relation(node, attributes)

    def _check_claim(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource == "status":
            if attributes.verb not in {"update", "patch"}:
                return "can only get/update/patch this type"
            return self._check_relation(node, attributes)
        return self._check_get(node, attributes)

    def _check_account(self, node: str, attributes: Attributes) -> str:
        if attributes.verb == "get" and not attributes.subresource:
            return self._check_read(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return "can only create tokens for individual service accounts"
        if attributes.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._check_relation(node, attributes)

    def _check_relation(self, node: str, attributes: Attributes) -> str:
        if not attributes.name:
            return "No Object name found"
        reference = Reference(attributes.resource, attributes.namespace, attributes.name)
        is_related = (
            self._is_own_volume(node, attributes.name)
            if attributes.resource == "persistentvolumes"
            else self._pods.has_reference(node, reference)
        )
        if not is_related and attributes.resource == "secrets":
            is_related = self._is_secret_of_volume(node, reference)
        return _ALLOWED if is_related else _NOT_MINE.format(node)

    def _is_own_volume(self, node: str, name: str) -> bool:
        volume = self._decode_stored(f"persistentvolumes/{name}")
        claim = (volume or {}).get("spec", {}).get("claimRef") or {}
        reference = Reference("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        return self._pods.has_reference(node, reference)

    def _is_secret_of_volume(self, node: str, secret: Reference) -> bool:
        for kv in self._store.peek_all(f"{ROOT}persistentvolumes/"):
            if json_bytes.has_text(kv.value, secret.name):
                volume = msgspec.json.decode(kv.value)
                if secret in references.secrets_of_volume(volume) and self._is_own_volume(
                    node, volume["metadata"]["name"]
                ):
                    return True
        return False

    # -- pods

    def _check_pod(self, node: str, attributes: Attributes) -> str:
        match attributes.subresource, attributes.verb:
            case "", "get":
                # Kubelets ask once more for pods that they have just deleted. kube-apiserver forbids it, and they log
                # an error for each; here they learn that it is gone.
                gone = self._pods.was_on(node, attributes.namespace, attributes.name)
                return _ALLOWED if gone else self._check_own_pod(node, attributes)
            case "", ("list" | "watch"):
                if attributes.selected_node == node:
                    return _ALLOWED
                if attributes.name:
                    return self._check_own_pod(node, attributes)
                return "can only list/watch pods with spec.nodeName field selector"
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return "nodes may not do this with pods"

    def _check_own_pod(self, node: str, attributes: Attributes) -> str:
        own = self._pods.is_on(node, attributes.namespace, attributes.name)
        return _ALLOWED if own else _NOT_MINE.format(node)

    # -- by name or field

    def _check_node(self, node: str, attributes: Attributes) -> str:
        match attributes.subresource, attributes.verb:
            case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
                return _ALLOWED
            case "", ("get" | "list" | "watch"):
                if attributes.name == node:
                    return _ALLOWED
                what = f"'{attributes.name}'" if attributes.name else "all nodes"
                return f"node '{node}' cannot read {what}, only its own Node object"
        return "nodes may not do this with nodes"

    def _check_lease(self, node: str, attributes: Attributes) -> str:
        if attributes.verb in _OWN_VERBS and attributes.namespace != NODE_LEASES:
            return f'can only access leases in the "{NODE_LEASES}" system namespace'
        return _check_own_name(node, attributes, "a node lease", "node lease")

    def _check_csi_node(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            return "cannot authorize CSINode subresources"
        return _check_own_name(node, attributes, "a CSINode", "CSINode")

    def _check_attachment(self, node: str, attributes: Attributes) -> str:
        if attributes.verb != "get" or attributes.subresource:
            return "can only get individual resources of this type"
        return self._check_pod_is_on_node(node, f"volumeattachments/{attributes.name}")

    def _check_slice(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            return "cannot authorize ResourceSlice subresources"
        many = ("list", "watch", "deletecollection")
        return self._check_node_field(node, attributes, many, f"resourceslices/{attributes.name}")

    def _check_pod_certificate(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            return "nodes may not access the status subresource of PodCertificateRequests"
        if attributes.verb not in {*_READ, "create"}:
            return "nodes can only create and read PodCertificateRequests"
        key = f"podcertificaterequests/{attributes.namespace}/{attributes.name}"
        return self._check_node_field(node, attributes, ("list", "watch"), key)

    def _check_node_field(self, node: str, attributes: Attributes, many: tuple[str, ...], key: str) -> str:
        """Allow to create objects, and verbs on existing ones that name the node; `many` need a field selector."""
        if attributes.verb == "create" or (attributes.verb in many and attributes.selected_node == node):
            return _ALLOWED
        if attributes.verb in many:
            return f"can only {'/'.join(many)} {attributes.resource} with nodeName field selector"
        return self._check_pod_is_on_node(node, key)

    def _check_pod_is_on_node(self, node: str, key: str) -> str:
        found = self._decode_stored(key)
        return _ALLOWED if found and found["spec"].get("nodeName") == node else _NOT_MINE.format(node)

    def _decode_stored(self, key: str) -> references.Tree | None:
        kv = None if "\0" in key else self._store.peek(ROOT + key)
        return msgspec.json.decode(kv.value) if kv else None


def _check_own_name(node: str, attributes: Attributes, one: str, kind: str) -> str:
    """Allow to create, and to read and write the object with the node's name; return the reason for a refusal."""
    if attributes.verb not in _OWN_VERBS:
        return f"can only get, create, update, patch, or delete {one}"
    if attributes.verb != "create" and attributes.name != node:
        return f"can only access {kind} with the same name as the requesting node"
    return _ALLOWED


_BY_RELATION: Final[dict[tuple[str, str], _Rule]] = {
    ("", "secrets"): NodeAuthorizer._check_read,
    ("", "configmaps"): NodeAuthorizer._check_read,
    ("", "persistentvolumeclaims"): NodeAuthorizer._check_claim,
    ("", "persistentvolumes"): NodeAuthorizer._check_get,
    ("resource.k8s.io", "resourceclaims"): NodeAuthorizer._check_get,
    ("", "serviceaccounts"): NodeAuthorizer._check_account,
    ("", "pods"): NodeAuthorizer._check_pod,
}
"""The rules that depend on the pods of the node, by group and resource."""
_RULES: Final[dict[tuple[str, str], _Rule]] = {
    **_BY_RELATION,
    ("", "nodes"): NodeAuthorizer._check_node,
    ("coordination.k8s.io", "leases"): NodeAuthorizer._check_lease,
    ("storage.k8s.io", "csinodes"): NodeAuthorizer._check_csi_node,
    ("storage.k8s.io", "volumeattachments"): NodeAuthorizer._check_attachment,
    ("resource.k8s.io", "resourceslices"): NodeAuthorizer._check_slice,
    ("certificates.k8s.io", "podcertificaterequests"): NodeAuthorizer._check_pod_certificate,
}
