"""Objects of every kind for the tests of admission: a valid example of each, and changes of them."""

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from admission_pods import ON, Tree, create_problems, created, update_problems
from mooring.admission.options import AdmissionOptions
from mooring.api import codec
from mooring.api.scheme import Scheme

SCHEME = Scheme()
_POD: Tree = {"containers": [{"name": "c", "image": "i"}]}
_TEMPLATE: Tree = {"metadata": {"labels": {"app": "x"}}, "spec": _POD}
_WORKLOAD: Tree = {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}
_JOB: Tree = {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {**_POD, "restartPolicy": "Never"}}}
_REQUEST: Tree = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
_ROLE_REF: Tree = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


def _certificate_request(encoding: serialization.Encoding) -> str:
    """Return a request that names nothing, signed with a key of its own."""
    key = ed25519.Ed25519PrivateKey.generate()
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, None)
    return b64encode(made.public_bytes(encoding)).decode()


def authority(name: str = "x", *, ca: bool = True) -> str:
    """Return the certificate of an authority, in PEM."""
    key = ed25519.Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(key, None)
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def name_for(kind: str) -> str:
    """Return the name that tests give to their object of a kind."""
    return {
        "APIService": "v1.x.example.com",
        "IPAddress": "192.0.2.7",
        "CustomResourceDefinition": "widgets.example.com",
    }.get(kind, "x")


_WEBHOOK: Tree = {
    "name": "hook.example.com",
    "clientConfig": {"url": "https://example.com/hook"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["x"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
_PODS: Tree = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
    ]
}
_POLICIES = "admissionregistration.k8s.io/v1"

EXAMPLES: dict[str, tuple[str, Tree]] = {
    "ValidatingAdmissionPolicy": (
        _POLICIES,
        {"spec": {"matchConstraints": _PODS, "validations": [{"expression": "object.metadata.name != 'x'"}]}},
    ),
    "ValidatingWebhookConfiguration": (_POLICIES, {"webhooks": [_WEBHOOK]}),
    "MutatingWebhookConfiguration": (_POLICIES, {"webhooks": [_WEBHOOK]}),
    "APIService": (
        "apiregistration.k8s.io/v1",
        {"spec": {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}},
    ),
    "ClusterTrustBundle": ("certificates.k8s.io/v1", {"spec": {"trustBundle": authority()}}),
    "ValidatingAdmissionPolicyBinding": (_POLICIES, {"spec": {"policyName": "x", "validationActions": ["Deny"]}}),
    "MutatingAdmissionPolicy": (
        _POLICIES,
        {
            "spec": {
                "matchConstraints": _PODS,
                "reinvocationPolicy": "Never",
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"},
                    }
                ],
            }
        },
    ),
    "MutatingAdmissionPolicyBinding": (_POLICIES, {"spec": {"policyName": "x"}}),
    "CustomResourceDefinition": (
        "apiextensions.k8s.io/v1",
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                            }
                        },
                    }
                ],
            },
        },
    ),
    "Node": ("v1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    "Namespace": ("v1", {}),
    "ConfigMap": ("v1", {"data": {"a": "b"}}),
    "Secret": ("v1", {"data": {"a": "Yg=="}}),
    "ServiceAccount": ("v1", {}),
    "Service": ("v1", {"spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}),
    "Endpoints": ("v1", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
    "Event": ("v1", {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Started"}),
    "ResourceQuota": ("v1", {"spec": {"hard": {"pods": "10", "requests.cpu": "4"}}}),
    "LimitRange": ("v1", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}}]}}),
    "PersistentVolume": (
        "v1",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
    ),
    "PersistentVolumeClaim": (
        "v1",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "PodTemplate": ("v1", {"template": _TEMPLATE}),
    "ReplicationController": ("v1", {"spec": {"selector": {"app": "x"}, "template": _TEMPLATE}}),
    "Deployment": ("apps/v1", {"spec": _WORKLOAD}),
    "ReplicaSet": ("apps/v1", {"spec": _WORKLOAD}),
    "StatefulSet": ("apps/v1", {"spec": {**_WORKLOAD, "serviceName": "s"}}),
    "DaemonSet": ("apps/v1", {"spec": _WORKLOAD}),
    "ControllerRevision": ("apps/v1", {"data": {"spec": {}}, "revision": 1}),
    "Job": ("batch/v1", {"spec": _JOB}),
    "CronJob": ("batch/v1", {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": _JOB}}}),
    "PodDisruptionBudget": ("policy/v1", {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "x"}}}}),
    "RuntimeClass": ("node.k8s.io/v1", {"handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "behavior": {"scaleUp": {"selectPolicy": "Min"}},
            }
        },
    ),
    "Ingress": (
        "networking.k8s.io/v1",
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    ),
    "IngressClass": ("networking.k8s.io/v1", {"spec": {"controller": "example.com/ingress"}}),
    "NetworkPolicy": ("networking.k8s.io/v1", {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
    "ServiceCIDR": ("networking.k8s.io/v1", {"spec": {"cidrs": ["10.96.0.0/24"]}}),
    "IPAddress": (
        "networking.k8s.io/v1",
        {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}},
    ),
    "PodCertificateRequest": (
        "certificates.k8s.io/v1",
        {
            "spec": {
                "signerName": "example.com/signer",
                "podName": "p",
                "podUID": "1",
                "serviceAccountName": "default",
                "serviceAccountUID": "2",
                "nodeName": "n",
                "nodeUID": "3",
                "stubPKCS10Request": _certificate_request(serialization.Encoding.DER),
            }
        },
    ),
    "StorageVersionMigration": (
        "storagemigration.k8s.io/v1",
        {"spec": {"resource": {"group": "apps", "resource": "deployments"}}},
    ),
    "PriorityClass": ("scheduling.k8s.io/v1", {"value": 1000}),
    "FlowSchema": (
        "flowcontrol.apiserver.k8s.io/v1",
        {"spec": {"priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": 1000}},
    ),
    "PriorityLevelConfiguration": (
        "flowcontrol.apiserver.k8s.io/v1",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
    ),
    "StorageClass": ("storage.k8s.io/v1", {"provisioner": "csi.example.com"}),
    "VolumeAttributesClass": (
        "storage.k8s.io/v1",
        {"driverName": "csi.example.com", "parameters": {"iops": "100"}},
    ),
    "CSIDriver": ("storage.k8s.io/v1", {"spec": {}}),
    "CSINode": ("storage.k8s.io/v1", {"spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n"}]}}),
    "CSIStorageCapacity": ("storage.k8s.io/v1", {"storageClassName": "s", "capacity": "1Gi"}),
    "VolumeAttachment": (
        "storage.k8s.io/v1",
        {"spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}},
    ),
    "CertificateSigningRequest": (
        "certificates.k8s.io/v1",
        {
            "spec": {
                "request": _certificate_request(serialization.Encoding.PEM),
                "signerName": "example.com/own",
                "usages": ["client auth"],
            }
        },
    ),
    "Lease": ("coordination.k8s.io/v1", {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
    "EndpointSlice": (
        "discovery.k8s.io/v1",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ),
    "Role": (
        "rbac.authorization.k8s.io/v1",
        {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    ),
    "ClusterRole": (
        "rbac.authorization.k8s.io/v1",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
    ),
    "RoleBinding": (
        "rbac.authorization.k8s.io/v1",
        {"roleRef": _ROLE_REF, "subjects": [{"kind": "User", "name": "ann"}]},
    ),
    "ClusterRoleBinding": (
        "rbac.authorization.k8s.io/v1",
        {"roleRef": _ROLE_REF, "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}]},
    ),
    "ResourceClaim": ("resource.k8s.io/v1", {"spec": {"devices": {"requests": [_REQUEST]}}}),
    "ResourceClaimTemplate": ("resource.k8s.io/v1", {"spec": {"spec": {"devices": {"requests": [_REQUEST]}}}}),
    "DeviceClass": (
        "resource.k8s.io/v1",
        {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}},
    ),
    "ResourceSlice": (
        "resource.k8s.io/v1",
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d0", "attributes": {"model": {"string": "a100"}}}],
            }
        },
    ),
    "DeviceTaintRule": (
        "resource.k8s.io/v1",
        {"spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a", "effect": "NoExecute"}}},
    ),
}
"""Kind → version and the object without its metadata, as small as it can be."""


class _Absent:
    """In a change: the field is left out."""


ABSENT: Any = _Absent()


def merged(tree: Any, change: Any) -> Any:
    """Return the tree with the fields of the change in it; lists are replaced."""
    if not isinstance(tree, dict) or not isinstance(change, dict):
        return change
    result = {key: value for key, value in tree.items() if change.get(key) is not ABSENT}
    for key, value in change.items():
        if value is not ABSENT:
            result[key] = merged(result.get(key), value)
    return result


def decoded(tree: Tree) -> Any:
    """Return the object in the shape that admission works with."""
    kind = SCHEME.kind(tree["apiVersion"], tree["kind"])
    assert kind is not None, tree
    found = codec.decode(msgspec.json.encode(tree), kind.type).object
    return SCHEME.convert(found, SCHEME.hub(kind))


def example(kind: str, change: Tree | None = None) -> Any:
    """Return the example of a kind, with a change."""
    version, tree = EXAMPLES[kind]
    return decoded(
        merged({"apiVersion": version, "kind": kind, "metadata": {"name": name_for(kind)}, **tree}, change or {})
    )


def stored(kind: str, change: Tree | None = None, options: AdmissionOptions = ON) -> Any:
    """Return the same as it is stored after a create."""
    return created(example(kind, change), options)


def shortened(lines: list[str], expected: list[str]) -> list[str]:
    """Return the lines, with `…` for what the expected line at the same place has `…` for."""
    result = []
    for place, line in enumerate(lines):
        before, mark, after = (expected[place] if place < len(expected) else line).partition("…")
        fits = mark and len(line) >= len(before + after) and line.startswith(before) and line.endswith(after)
        result.append(expected[place] if fits else line)
    return result


@dataclass(frozen=True)
class Create:
    """A change of the example, and what a create of that is refused for."""

    id: str
    kind: str
    change: Tree
    problems: list[str] = field(default_factory=list)

    def validate(self, options: AdmissionOptions = ON) -> list[str]:
        return create_problems(example(self.kind, self.change), options)


@dataclass(frozen=True)
class Update:
    """What is stored, a change of it, and what an update is refused for."""

    id: str
    kind: str
    old: Tree
    new: Tree
    problems: list[str] = field(default_factory=list)
    status: Tree = field(default_factory=dict)
    """The status that the stored object has got in the meantime."""
    subresource: str = ""

    def validate(self, options: AdmissionOptions = ON, old_options: AdmissionOptions = ON) -> list[str]:
        old = stored(self.kind, self.old, old_options)
        tree = codec.to_tree(old)
        if self.status:
            old = decoded(merged(tree, {"status": self.status}))
            tree = codec.to_tree(old)
        return update_problems(decoded(merged(tree, self.new)), old, options, self.subresource)
