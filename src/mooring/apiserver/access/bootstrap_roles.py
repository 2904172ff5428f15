"""The initial roles and bindings: those of Kubernetes, and additional ones for Mooring's components.

Those of Kubernetes are data, ``kubernetes_roles.json``, as a kube-apiserver of 1.37 wrote them
(``tools/bootstrap_roles.py``). `cluster-admin`, `admin`, `edit` and `view` are for people; names with `system:` are for
components. `admin`, `edit` and `view` aggregate the rules of all roles with their label, so that a new API needs one
additional role.

Written by ``bootstrap.py`` when the server starts, except for roles with the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from mooring.api.meta_v1 import ObjectMeta
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from mooring.apiserver.messages import users

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_FILE = Path(__file__).parent / "kubernetes_roles.json"
_GROUP = "rbac.authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = ("get", "list", "watch")


class Roles(msgspec.Struct):
    """Roles and bindings, by kind as in the file."""

    cluster_roles: list[ClusterRole] = msgspec.field(name="ClusterRole")
    cluster_role_bindings: list[ClusterRoleBinding] = msgspec.field(name="ClusterRoleBinding")
    roles: list[Role] = msgspec.field(name="Role")
    role_bindings: list[RoleBinding] = msgspec.field(name="RoleBinding")


def _load_recorded() -> Roles:
    return msgspec.json.decode(_FILE.read_bytes(), type=Roles)


def _rule(verbs: Sequence[str], groups: str, *resources: str, names: Sequence[str] = ()) -> PolicyRule:
    """Return a policy rule; `groups` are separated by spaces, and `core` stands for the core group."""
    api_groups = ["" if group == "core" else group for group in groups.split()]
    return PolicyRule(verbs=[*verbs], api_groups=api_groups, resources=[*resources], resource_names=[*names])


_ADDITIONAL_RULES = {
    "system:kube-scheduler": (
        _rule(("get", "list", "watch", "update", "patch"), "coordination.k8s.io", "leases"),
        _rule(_READ, "scheduling.k8s.io", "priorityclasses"),
    ),
    "system:kube-controller-manager": (
        # One process runs all controllers, the garbage collector and the namespaces' end among them: these must be
        # able to read and delete whatever there is. Kubernetes has a role for each controller besides.
        _rule((*_READ, "delete", "deletecollection", "patch", "update"), "*", "*"),
        _rule(
            ("create",),
            "core apps batch coordination.k8s.io discovery.k8s.io events.k8s.io policy resource.k8s.io storage.k8s.io",
            "configmaps",
            "controllerrevisions",
            "csinodes",
            "endpoints",
            "endpointslices",
            "events",
            "jobs",
            "leases",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "pods/eviction",
            "replicasets",
            "resourceclaims",
            "resourceslices",
            "serviceaccounts",
            "serviceaccounts/token",
        ),
        _rule(("create",), _CERTIFICATES, "podcertificaterequests"),  # for pods of simulated nodes
        _rule(("approve",), _CERTIFICATES, "signers", names=("kubernetes.io/kube-apiserver-client-kubelet",)),
    ),
}
"""Rules that Mooring's components need in addition to the rules of Kubernetes' roles."""


def load_roles() -> Roles:
    """Return the initial roles and bindings of a cluster."""
    recorded = _load_recorded()
    roles = {role.metadata.name: role for role in recorded.cluster_roles}
    for name, rules in _ADDITIONAL_RULES.items():
        roles[name].rules += rules
    for role in roles.values():
        if role.aggregation_rule:  # written out too, so that people can read it
            role.rules = list(_gather_rules(role, roles.values()))
    writes = PolicyRule(verbs=["post"], non_resource_urls=["/writes"])
    recorded.cluster_roles.append(ClusterRole(metadata=_metadata("mooring:write-groups"), rules=[writes]))
    recorded.cluster_role_bindings += _additional_bindings()
    return recorded


def _gather_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> Iterable[PolicyRule]:
    """Yield the rules of all roles whose labels an aggregated ClusterRole selects, recursively."""
    selectors = role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else []
    wanted = {label for selector in selectors for label in selector.match_labels.items()}
    for other in roles:
        if wanted & set(other.metadata.labels.items()):
            yield from _gather_rules(other, roles) if other.aggregation_rule else other.rules


@cache
def node_rules() -> tuple[PolicyRule, ...]:
    """Return the rules of the role `system:node`, which apply to every node although no binding names it."""
    return tuple(next(role.rules for role in _load_recorded().cluster_roles if role.metadata.name == "system:node"))


def _additional_bindings() -> list[ClusterRoleBinding]:
    return [
        # What kubeadm binds in other clusters: nodes with a token join, and renew their certificates, by themselves.
        _binding_of("mooring:node-bootstrapper", "system:node-bootstrapper", _group(users.JOINING_NODES)),
        _binding_of("mooring:node-autoapprove-bootstrap", f"{_REQUESTS}:nodeclient", _group(users.JOINING_NODES)),
        _binding_of("mooring:node-autoapprove-rotation", f"{_REQUESTS}:selfnodeclient", _group(users.NODES)),
        # kube-apiserver leaves this to installers; here the server issues its kubelet client certificate itself
        _binding_of("mooring:kube-apiserver-kubelet-client", "system:kubelet-api-admin", _user(users.KUBELET_CLIENT)),
        _binding_of("mooring:write-groups", "mooring:write-groups", _user(users.CONTROLLERS), _user(users.SCHEDULER)),
    ]


def _binding_of(name: str, role: str, *subjects: Subject) -> ClusterRoleBinding:
    reference = RoleRef(api_group=_GROUP, kind="ClusterRole", name=role)
    return ClusterRoleBinding(metadata=_metadata(name), role_ref=reference, subjects=[*subjects])


def _metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, labels=dict(_LABELS), annotations={AUTO_UPDATE: "true"})


def _group(name: str) -> Subject:
    return Subject(kind="Group", api_group=_GROUP, name=name)


def _user(name: str) -> Subject:
    return Subject(kind="User", api_group=_GROUP, name=name)


RETIRED = {"system:node": [_group(users.NODES)]}
"""By binding, subjects of earlier releases to remove: the Node authorizer authorizes nodes now."""
