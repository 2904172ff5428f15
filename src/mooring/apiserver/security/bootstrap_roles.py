"""The roles and bindings that every cluster begins with: Kubernetes' own, as far as Mooring has the resources.

`cluster-admin`, `admin`, `edit` and `view` are for people; what begins with `system:` is for components. `admin`,
`edit` and `view` gather the rules of all roles with their label, so that whoever adds an API adds a role and no more.
The server writes all of them when it starts and adds what is missing, unless somebody has set the annotation
`rbac.authorization.kubernetes.io/autoupdate` of one to false. Written by ``bootstrap.py``.
"""

from collections.abc import Sequence

from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from mooring.apiserver.security import users
from mooring.apiserver.security.authn import PUBLIC_PATHS
from mooring.apiserver.security.issuer import CONFIGURATION, KEYS

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_GROUP = "rbac.authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_ALL = (*_READ, *_WRITE)
_PUBLIC = sorted(PUBLIC_PATHS)
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)


def _may(verbs: Sequence[str], groups: str, *resources: str, names: Sequence[str] = ()) -> PolicyRule:
    """A rule; `groups` are separated by spaces, `core` is the core group."""
    api_groups = ["" if group == "core" else group for group in groups.split()]
    return PolicyRule(verbs=[*verbs], api_groups=api_groups, resources=[*resources], resource_names=[*names])


def _paths(*paths: str) -> PolicyRule:
    return PolicyRule(verbs=["get"], non_resource_urls=[*paths])


_EVENTS = _may(("create", "patch", "update"), "core events.k8s.io", "events")
_LEADER = (
    _may(("create",), "coordination.k8s.io", "leases"),
    _may(("get", "list", "watch", "update", "patch"), "coordination.k8s.io", "leases"),
)
_REVIEWS = (
    _may(("create",), "authentication.k8s.io", "tokenreviews"),
    _may(("create",), "authorization.k8s.io", "subjectaccessreviews"),
)
_VIEWED = (
    _may(
        _READ,
        "core",
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ),
    _may(
        _READ,
        "apps",
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ),
    _may(_READ, "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
    _may(_READ, "discovery.k8s.io", "endpointslices"),
    _may(_READ, "events.k8s.io", "events"),
    _may(_READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
    _may(_READ, "networking.k8s.io", "ingresses", "ingresses/status", "networkpolicies"),
    _may(_READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
    _may(_READ, "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
)
_REACHING_IN = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")
_EDITED = (
    _may(_READ, "core", "secrets", *_REACHING_IN),
    _may(("impersonate",), "core", "serviceaccounts"),
    _may(("create",), "core", "serviceaccounts/token", "pods/eviction"),
    _may(
        _WRITE,
        "core",
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        *_REACHING_IN,
    ),
    _may(
        _WRITE,
        "apps",
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ),
    _may(_WRITE, "batch", "cronjobs", "jobs"),
    _may(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    _may(_WRITE, "networking.k8s.io", "ingresses", "networkpolicies"),
    _may(_WRITE, "policy", "poddisruptionbudgets"),
    _may(_WRITE, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
    _may((*_READ, *_WRITE), "coordination.k8s.io", "leases"),
)
_ADMINISTERED = (
    _may(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    _may(_ALL, _GROUP, "rolebindings", "roles"),
)
_SCHEDULER = (
    _EVENTS,
    *_LEADER,
    _may((*_READ, "delete"), "core", "pods"),
    _may(("create",), "core", "bindings", "pods/binding"),
    _may(("patch", "update"), "core", "pods/status"),
    _may(_READ, "core", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "replicationcontrollers"),
    _may(_READ, "core", "services"),
    _may(_READ, "apps", "replicasets", "statefulsets"),
    _may(_READ, "policy", "poddisruptionbudgets"),
    _may(_READ, "scheduling.k8s.io", "priorityclasses"),
    _may(_READ, "storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"),
    _may(_READ, "resource.k8s.io", "deviceclasses", "devicetaintrules", "resourceslices"),
    _may((*_READ, "create", "delete", "patch", "update"), "resource.k8s.io", "resourceclaims"),
    _may(("patch", "update"), "resource.k8s.io", "resourceclaims/status"),
    *_REVIEWS,
)
_VOLUME_SCHEDULER = (
    _may(("get", "list", "patch", "update", "watch"), "core", "persistentvolumes", "persistentvolumeclaims"),
    _may(_READ, "storage.k8s.io", "storageclasses"),
)
_CONTROLLERS = (
    # One process runs all controllers, the garbage collector and the namespaces' end among them: these must be able
    # to read and delete whatever there is. Kubernetes splits this over a role for each controller.
    _may((*_READ, "delete", "deletecollection", "patch", "update"), "*", "*"),
    _may(
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
    _may(("create",), _CERTIFICATES, "podcertificaterequests"),  # for pods of simulated nodes
    _may(("approve",), _CERTIFICATES, "signers", names=("kubernetes.io/kube-apiserver-client-kubelet",)),
    *_REVIEWS,
)
_OF_KUBELETS = (
    "nodes/configz",
    "nodes/healthz",
    "nodes/log",
    "nodes/metrics",
    "nodes/pods",
    "nodes/proxy",
    "nodes/stats",
)
NODE_RULES = (
    *_REVIEWS,
    _may(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    _may(_READ, "core", "services"),
    _may(("create", "get", "list", "watch", "patch", "update"), "core", "nodes"),
    _may(("patch", "update"), "core", "nodes/status"),
    _EVENTS,
    _may((*_READ, "create", "delete"), "core", "pods"),
    _may(("patch", "update"), "core", "pods/status"),
    _may(("create",), "core", "pods/eviction", "serviceaccounts/token"),
    _may(_READ, "core", "configmaps", "secrets"),
    _may(("get",), "core", "endpoints", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"),
    _may(("get", "patch", "update"), "core", "persistentvolumeclaims/status"),
    _may(("create", *_READ), _CERTIFICATES, "certificatesigningrequests"),
    _may(_READ, _CERTIFICATES, "clustertrustbundles"),
    _may(("create", "delete", "get", "patch", "update"), "coordination.k8s.io", "leases"),
    _may(("create", "delete", "get", "patch", "update"), "storage.k8s.io", "csinodes"),
    _may(_READ, "storage.k8s.io", "csidrivers"),
    _may(("get",), "storage.k8s.io", "volumeattachments"),
    _may(_READ, "node.k8s.io", "runtimeclasses"),
    _may(("get",), "resource.k8s.io", "resourceclaims"),
    _may(("deletecollection",), "resource.k8s.io", "resourceslices"),
)
"""What all nodes have in common. The Node authorizer narrows it to what concerns each node; the role `system:node` is
bound to nobody, as in Kubernetes, and shows it."""


_SIGNERS = ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving")


def _role(name: str, *rules: PolicyRule, gathered_by: str = "") -> ClusterRole:
    labels = {**_LABELS, f"{_AGGREGATE}{gathered_by}": "true"} if gathered_by else dict(_LABELS)
    metadata = ObjectMeta(name=name, labels=labels, annotations={AUTO_UPDATE: "true"})
    return ClusterRole(metadata=metadata, rules=[*rules])


def _gathering(name: str, rules: Sequence[PolicyRule], gathered_by: str = "") -> ClusterRole:
    """A role that has the rules of others. They are written out too, so that people can read them."""
    role = _role(name, *rules, gathered_by=gathered_by)
    selector = LabelSelector(match_labels={f"{_AGGREGATE}{name}": "true"})
    role.aggregation_rule = AggregationRule(cluster_role_selectors=[selector])
    return role


def cluster_roles() -> list[ClusterRole]:
    """All ClusterRoles."""
    return [
        _role(
            "cluster-admin",
            _may(("*",), "*", "*"),
            PolicyRule(verbs=["*"], non_resource_urls=["*"]),
        ),
        _role("system:discovery", _paths(*_DISCOVERY)),
        _role(
            "system:monitoring",
            _paths(
                *("/flagz", "/healthz", "/healthz/*", "/livez", "/livez/*"),
                *("/metrics", "/metrics/slis", "/readyz", "/readyz/*", "/statusz"),
            ),
            _may(("get",), "core", "nodes/metrics"),
        ),
        _role(
            "system:basic-user",
            _may(("create",), "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
            _may(("create",), "authentication.k8s.io", "selfsubjectreviews"),
        ),
        _role("system:public-info-viewer", _paths(*_PUBLIC)),
        _gathering("admin", (*_ADMINISTERED, *_EDITED, *_VIEWED)),
        _gathering("edit", (*_EDITED, *_VIEWED), gathered_by="admin"),
        _gathering("view", _VIEWED, gathered_by="edit"),
        _role("system:aggregate-to-admin", *_ADMINISTERED, gathered_by="admin"),
        _role("system:aggregate-to-edit", *_EDITED, gathered_by="edit"),
        _role("system:aggregate-to-view", *_VIEWED, gathered_by="view"),
        _role("system:auth-delegator", *_REVIEWS),
        _role("system:kube-scheduler", *_SCHEDULER),
        _role("system:volume-scheduler", *_VOLUME_SCHEDULER),
        _role("system:kube-controller-manager", *_CONTROLLERS),
        _role("mooring:write-groups", PolicyRule(verbs=["post"], non_resource_urls=["/writes"])),
        _role(
            "system:service-account-issuer-discovery",
            _paths(CONFIGURATION, f"{CONFIGURATION}/", KEYS, f"{KEYS}/"),
        ),
        _role("system:node", *NODE_RULES),
        _role(
            "system:kubelet-api-admin",
            _may(_READ, "core", "nodes"),
            _may(("proxy",), "core", "nodes"),
            _may(("*",), "core", *_OF_KUBELETS),
        ),
        _role("system:node-bootstrapper", _may(("create", *_READ), _CERTIFICATES, "certificatesigningrequests")),
        *(
            _role(
                f"{_REQUESTS}:{kind}",
                _may(("create",), _CERTIFICATES, f"certificatesigningrequests/{kind}"),
            )
            for kind in ("nodeclient", "selfnodeclient")
        ),
        _role("system:cluster-trust-bundle-discovery", _may(_READ, _CERTIFICATES, "clustertrustbundles")),
        *(
            _role(
                f"system:certificates.k8s.io:{signer}-approver",
                _may(("approve",), _CERTIFICATES, "signers", names=(f"kubernetes.io/{signer}",)),
            )
            for signer in _SIGNERS
        ),
        _role("system:kube-dns", _may(("list", "watch"), "core", "endpoints", "services")),
        _role(
            "system:node-problem-detector",
            _may(("get",), "core", "nodes"),
            _may(("patch",), "core", "nodes/status"),
            _EVENTS,
        ),
        _role(
            "system:node-proxier",
            _may(("list", "watch"), "core", "services", "endpoints"),
            _may(("get", "list", "watch"), "core", "nodes"),
            _may(("list", "watch"), "networking.k8s.io", "servicecidrs"),
            _may(("list", "watch"), "discovery.k8s.io", "endpointslices"),
            _EVENTS,
        ),
        _role(
            "system:persistent-volume-provisioner",
            _may((*_READ, "create", "delete"), "core", "persistentvolumes"),
            _may((*_READ, "update"), "core", "persistentvolumeclaims"),
            _may(_READ, "storage.k8s.io", "storageclasses"),
            _may(("watch",), "core", "events"),
            _EVENTS,
        ),
    ]


def cluster_role_bindings() -> list[ClusterRoleBinding]:
    """All ClusterRoleBindings."""
    everybody, nobody = _group(users.AUTHENTICATED), _group(users.UNAUTHENTICATED)
    return [
        _bound("cluster-admin", "cluster-admin", _group(users.MASTERS)),
        _bound("system:monitoring", "system:monitoring", _group("system:monitoring")),
        _bound("system:discovery", "system:discovery", everybody),
        _bound("system:basic-user", "system:basic-user", everybody),
        _bound("system:public-info-viewer", "system:public-info-viewer", everybody, nobody),
        _bound(
            "system:cluster-trust-bundle-discovery",
            "system:cluster-trust-bundle-discovery",
            _group(users.SERVICE_ACCOUNTS),
        ),
        _bound(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            _group(users.SERVICE_ACCOUNTS),
        ),
        _bound("system:node-proxier", "system:node-proxier", _user("system:kube-proxy")),
        _bound(
            "system:kube-dns",
            "system:kube-dns",
            Subject(kind="ServiceAccount", namespace="kube-system", name="kube-dns"),
        ),
        _bound("system:node", "system:node"),
        # What kubeadm binds in other clusters: nodes with a token join, and renew their certificates, by themselves.
        _bound("mooring:node-bootstrapper", "system:node-bootstrapper", _group(users.JOINING_NODES)),
        _bound("mooring:node-autoapprove-bootstrap", f"{_REQUESTS}:nodeclient", _group(users.JOINING_NODES)),
        _bound("mooring:node-autoapprove-rotation", f"{_REQUESTS}:selfnodeclient", _group(users.NODES)),
        # kube-apiserver leaves this to whoever installs it; here the server makes its certificate for kubelets itself
        _bound("mooring:kube-apiserver-kubelet-client", "system:kubelet-api-admin", _user(users.KUBELET_CLIENT)),
        _bound("system:kube-controller-manager", "system:kube-controller-manager", _user(users.CONTROLLERS)),
        _bound("system:kube-scheduler", "system:kube-scheduler", _user(users.SCHEDULER)),
        _bound("mooring:write-groups", "mooring:write-groups", _user(users.CONTROLLERS), _user(users.SCHEDULER)),
        _bound("system:volume-scheduler", "system:volume-scheduler", _user(users.SCHEDULER)),
    ]


def roles() -> list[Role]:
    """All Roles: who may see what the cluster says about itself."""
    return [
        Role(
            metadata=_metadata("extension-apiserver-authentication-reader", "kube-system"),
            rules=[_may(_READ, "core", "configmaps", names=("extension-apiserver-authentication",))],
        )
    ]


def role_bindings() -> list[RoleBinding]:
    """All RoleBindings."""
    reference = RoleRef(api_group=_GROUP, kind="Role", name="extension-apiserver-authentication-reader")
    return [
        RoleBinding(
            metadata=_metadata("system::extension-apiserver-authentication-reader", "kube-system"),
            role_ref=reference,
            subjects=[_user(users.CONTROLLERS), _user(users.SCHEDULER)],
        )
    ]


def _bound(name: str, role: str, *subjects: Subject) -> ClusterRoleBinding:
    reference = RoleRef(api_group=_GROUP, kind="ClusterRole", name=role)
    return ClusterRoleBinding(metadata=_metadata(name), role_ref=reference, subjects=[*subjects])


def _metadata(name: str, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=dict(_LABELS), annotations={AUTO_UPDATE: "true"})


def _group(name: str) -> Subject:
    return Subject(kind="Group", api_group=_GROUP, name=name)


def _user(name: str) -> Subject:
    return Subject(kind="User", api_group=_GROUP, name=name)


RETIRED = {"system:node": [_group(users.NODES)]}
"""Subjects that are not bound any more, by binding: nodes have their rights from the Node authorizer."""
