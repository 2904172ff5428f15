"""Rules that comparing with kube-apiserver on random objects found to be missing or too strict."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from admission_kinds import SCHEME, Create, Update, decoded, example, merged, shortened, stored
from admission_pods import NOW, ON, Tree, created, pod_of, request, update_problems
from mooring.admission.pipeline import admit_create, admit_update, begin_create
from mooring.admission.strategy import NoCluster
from mooring.api.base import copy_of
from mooring.api.codec import to_tree
from mooring.api.errors import StatusError
from mooring.api.networking_v1 import IPAddress
from mooring.api.quantity import Quantity
from mooring.apiserver.registry.apply.comparison import compare
from mooring.apiserver.registry.apply.field_managers import FieldManagers, Manager
from mooring.apiserver.registry.patch.schema import schema_of

pytestmark = pytest.mark.req("N.10")
NAME_PART = "name part must consist of alphanumeric characters, '-', '_' or '.', …"


def limits(**item: Any) -> Tree:
    return {"spec": {"limits": [item]}}


def scopes(*names: str) -> list[Tree]:
    return [{"scopeName": name, "operator": "Exists"} for name in names]


def devices(**claim: Any) -> Tree:
    return {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "c"}}], **claim}}}


def container(**fields: Any) -> Tree:
    return {"template": {"spec": {"containers": [{"name": "c", "image": "i", **fields}]}}}


def file_key(**fields: Any) -> Tree:
    source = {"fileKeyRef": {"key": "A", "path": "e", **fields}}
    return container(env=[{"name": "A", "valueFrom": source}])


def definition(schema: Tree) -> Tree:
    version = {"name": "v1", "served": True, "storage": True}
    return {"spec": {"versions": [{**version, "schema": {"openAPIV3Schema": {"type": "object", **schema}}}]}}


CONDITION = "spec.validation.openAPIV3Schema.not"


CREATES = [
    Create("any port number, which is not checked", "EndpointSlice", {"ports": [{"port": -1}]}),
    Create(
        "domains of two segments, also with a dot at the end",
        "EndpointSlice",
        {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b", "a.b.c."]}]},
    ),
    Create(
        "no domains",
        "EndpointSlice",
        {"addressType": "FQDN", "endpoints": [{"addresses": ["a", "", "A.b", "a" * 64 + ".b"]}]},
        [
            'endpoints[0].addresses[0]: Invalid value: "a": …',
            "endpoints[0].addresses[1]: Required value",
            'endpoints[0].addresses[2]: Invalid value: "A.b": …',
            "endpoints[0].addresses[3]: Invalid value: …: must be no more than 63 characters",
        ],
    ),
    Create(
        "a zone hint twice",
        "EndpointSlice",
        {"endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}]}}]},
        ['endpoints[0].hints.forZones[1].name: Duplicate value: "a"'],
    ),
    Create("any largest size, which is not checked", "CSIStorageCapacity", {"maximumVolumeSize": "-1"}),
    Create(
        "a conversion where unknown fields are kept",
        "CustomResourceDefinition",
        {"spec": {"preserveUnknownFields": True, "conversion": {"strategy": "A"}}},
        [
            'spec.conversion.strategy: Invalid value: "A": must be None if spec.preserveUnknownFields is true',
            'spec.conversion.strategy: Unsupported value: "A": …',
            "spec.preserveUnknownFields: Invalid value: true: …",
        ],
    ),
    Create(
        "empty types of lists and maps in a condition",
        "CustomResourceDefinition",
        definition({"not": {"x-kubernetes-list-type": "", "x-kubernetes-map-type": ""}}),
        [
            f"{CONDITION}.x-kubernetes-list-type: Forbidden: must be undefined to be structural",
            f"{CONDITION}.x-kubernetes-map-type: Forbidden: must be undefined to be structural",
            f"{CONDITION}.type: Required value: must be object if x-kubernetes-map-type is specified",
            f"{CONDITION}.x-kubernetes-map-type: Unsupported value: …",
            f"{CONDITION}.type: Required value: must be array if x-kubernetes-list-type is specified",
            f"{CONDITION}.x-kubernetes-list-type: Unsupported value: …",
        ],
    ),
    Create("a driver name with a path", "VolumeAttributesClass", {"driverName": "a.example.com/b"}),
    Create(
        "tokens in secrets without requests for tokens",
        "CSIDriver",
        {"spec": {"serviceAccountTokenInSecrets": True}},
        ["spec.serviceAccountTokenInSecrets: Invalid value: true: …"],
    ),
    Create(
        "no driver name", "CSINode", {"spec": {"drivers": [{"nodeID": "n"}]}}, ["spec.drivers[0].name: Required value"]
    ),
    Create(
        "half an extended resource",
        "ResourceQuota",
        {"spec": {"hard": {"example.com/gpu": "500m"}}},
        ['spec.hard[example.com/gpu]: Invalid value: "500m": must be an integer'],
    ),
    Create(
        "a limit of containers on a resource that containers do not have",
        "LimitRange",
        limits(type="Container", maxLimitRequestRatio={"pods": "2"}),
        ['spec.limits[0].maxLimitRequestRatio[pods]: Invalid value: "pods": …'],
    ),
    Create(
        "a limit of claims without storage",
        "LimitRange",
        limits(type="PersistentVolumeClaim", max={"cpu": "1"}),
        ["spec.limits[0].limits: Required value: …"],
    ),
    Create(
        "a claim template with an impossible class",
        "StatefulSet",
        {
            "spec": {
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "d"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "s/s",
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ]
            }
        },
        ['spec.volumeClaimTemplates[0].spec.storageClassName: Invalid value: "s/s": …'],
    ),
    Create(
        "the same wrong mode twice, which is reported once",
        "CSIDriver",
        {"spec": {"volumeLifecycleModes": ["-a", "-a"]}},
        ['spec.volumeLifecycleModes: Unsupported value: "-a": …'],
    ),
    Create(
        "wrong families and wrong ports, of which only the families are reported",
        "Service",
        {"spec": {"ipFamilies": ["IPv4", "IPv4"], "ports": [{"port": 0}]}},
        ['spec.ipFamilies[1]: Duplicate value: "IPv4"'],
    ),
    Create(
        "an invalid cluster IP beside a valid one",
        "Service",
        {"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "x"]}},
        ['spec.clusterIPs[1]: Invalid value: "x": …'],
    ),
    Create(
        "addresses of a family that the cluster does not have, before one of its own",
        "Service",
        {"spec": {"clusterIP": "::1", "clusterIPs": ["::1", "10.0.0.7"]}},
        [
            'spec.ipFamilyPolicy: Invalid value: "SingleStack": …',
            'spec.clusterIPs[0]: Invalid value: ["::1","10.0.0.7"]: IPv6 is not configured on this cluster',
        ],
    ),
    Create(
        "addresses of both families where the cluster IP is None",
        "Service",
        {"spec": {"clusterIP": "None", "clusterIPs": ["::1", "10.0.0.7"]}},
        ['spec.clusterIPs: Invalid value: ["::1","10.0.0.7"]: first value must match `clusterIP`'],
    ),
    Create(
        "None after an address",
        "Service",
        {"spec": {"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]}},
        ['spec.clusterIPs: Invalid value: ["None","10.0.0.1"]: \'None\' must be the first and only value'],
    ),
    Create(
        "a scope of pods on ephemeral storage",
        "ResourceQuota",
        {"spec": {"hard": {"ephemeral-storage": "1Gi"}, "scopes": ["Terminating"]}},
        ['spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource'],
    ),
    Create(
        "conflicting scopes in a selector",
        "ResourceQuota",
        {
            "spec": {
                "hard": {"pods": "1"},
                "scopeSelector": {"matchExpressions": scopes("Terminating", "NotTerminating")},
            }
        },
        ["spec.scopeSelector.matchExpressions: Invalid value: []: conflicting scopes"],
    ),
    Create(
        "several ranges of which one is none",
        "Node",
        {"spec": {"podCIDR": "10.0.0.0/8", "podCIDRs": ["10.0.0.0/8", "x"]}},
        [
            'spec.podCIDRs[1]: Invalid value: "x": …',
            "spec.podCIDRs: Internal error: …",
            'spec.podCIDRs: Invalid value: ["10.0.0.0/8","x"]: may specify no more than one CIDR for each IP family',
        ],
    ),
    Create(
        "an attribute to match and one to tell apart",
        "ResourceClaim",
        devices(constraints=[{"matchAttribute": "a.example.com/b", "distinctAttribute": "c"}]),
        ['spec.devices.constraints[0].distinctAttribute: Invalid value: "c": …'],
    ),
    Create(
        "one name for two alternatives of a request that has one way already",
        "ResourceClaim",
        devices(
            requests=[
                {
                    "name": "a",
                    "exactly": {"deviceClassName": "c"},
                    "firstAvailable": [{"name": "s", "deviceClassName": "c"}] * 2,
                }
            ]
        ),
        [
            "spec.devices.requests[0]: Invalid value: null: …",
            'spec.devices.requests[0].firstAvailable[1]: Duplicate value: "s"',
        ],
    ),
    Create(
        "no parameters for a driver",
        "DeviceClass",
        {"spec": {"config": [{"opaque": {"driver": "gpu.example.com"}}]}},
        ["spec.config[0].opaque.parameters: Required value"],
    ),
    Create(
        "a uid in a template",
        "ResourceClaimTemplate",
        {"spec": {"metadata": {"uid": "u"}}},
        ["spec.metadata.uID: Forbidden: cannot be set"],
    ),
    Create(
        "half a pod of overhead",
        "RuntimeClass",
        {"overhead": {"podFixed": {"pods": "500m"}}},
        [
            'overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers',
            'overhead.limits[pods]: Invalid value: "500m": must be an integer',
        ],
    ),
    Create(
        "a local volume after another source",
        "PersistentVolume",
        {"spec": {"local": {"path": "/x"}}},
        ["spec.local: Forbidden: may not specify more than 1 volume type"],
    ),
    Create(
        "an environment file in a volume without a name",
        "PodTemplate",
        file_key(volumeName=""),
        [
            "template.spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Required value",
            'template.spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: ""',
        ],
    ),
    Create(
        "a request of a claim with a dot",
        "PodTemplate",
        container(resources={"claims": [{"name": "c", "request": "a.b"}]}),
        [
            'template.spec.containers[0].resources.claims[0].request: Invalid value: "a.b": …',
            "template.spec.containers[0].resources.claims[0]: Not found: …",
        ],
    ),
    Create(
        "two ways to request devices, whose values are validated all the same",
        "ResourceClaim",
        devices(
            requests=[
                {
                    "name": "a",
                    "exactly": {"deviceClassName": "c", "tolerations": [{"operator": "Bad"}]},
                    "firstAvailable": [{"name": "s", "tolerations": [{"key": "a b", "operator": "Exists"}]}],
                }
            ]
        ),
        [
            "spec.devices.requests[0]: Invalid value: null: …",
            'spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "Bad": …',
            "spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value",
            'spec.devices.requests[0].firstAvailable[0].tolerations[0].key: Invalid value: "a b": …',
        ],
    ),
    Create(
        "the domain of Kubernetes",
        "DeviceClass",
        {"spec": {"extendedResourceName": "kubernetes.io/gpu"}},
        ['spec.extendedResourceName: Invalid value: "kubernetes.io/gpu": must not have "kubernetes.io/" domain'],
    ),
    Create(
        "a limit whose type matters less than its response",
        "PriorityLevelConfiguration",
        {"spec": {"type": "Other", "limited": {"limitResponse": {"type": "", "queuing": {"queues": -1}}}}},
        [
            "spec.limited: Forbidden",
            'spec.type: Unsupported value: "Other": …',
            "spec.limited.limitResponse.type: Required value",
            "spec.limited.limitResponse.queuing: Forbidden",
        ],
    ),
    Create(
        "exit codes of which any are accepted",
        "PodTemplate",
        container(
            restartPolicy="Never",
            restartPolicyRules=[
                {"action": "Restart", "exitCodes": {"operator": "In"}},
                {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [-1, 300]}},
            ],
        ),
    ),
    Create(
        "an address with leading zeros",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "010.0.0.1"}]}]},
        ['subsets[0].addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s'],
    ),
    Create(
        "an address of the other family and one that is none",
        "EndpointSlice",
        {"endpoints": [{"addresses": ["fd00::1", "x"]}]},
        [
            'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address',
            'endpoints[0].addresses[1]: Invalid value: "x": …',
        ],
    ),
    Create(
        "hints with bad names",
        "EndpointSlice",
        {
            "endpoints": [
                {
                    "addresses": ["10.0.0.1"],
                    "hints": {"forZones": [{"name": "a b"}], "forNodes": [{"name": "n"}, {"name": "n"}]},
                }
            ]
        },
        [
            'endpoints[0].hints.forZones[0].name: Invalid value: "a b": …',
            'endpoints[0].hints.forNodes[1].name: Duplicate value: "n"',
        ],
    ),
    Create(
        "a long note",
        "Event",
        {"eventTime": "2026-01-01T00:00:00.000000Z", "message": "x" * 1025, "action": "a", "reportingInstance": "i"}
        | {"reportingComponent": "c"},
        ['message: Invalid value: "": can have at most 1024 characters'],
    ),
    Create(
        "an empty completion mode",
        "Job",
        {"spec": {"completionMode": ""}},
        ['spec.completionMode: Unsupported value: "": supported values: "NonIndexed", "Indexed"'],
    ),
    Create(
        "more successes than its indexes, which cannot be read",
        "Job",
        {
            "spec": {
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "a", "succeededCount": 1}]},
            }
        },
        [
            'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "a": …',
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 1: …",
        ],
    ),
    Create(
        "names that the controller overwrites, and any history",
        "StatefulSet",
        {"spec": {"revisionHistoryLimit": -1, "template": {"spec": {"hostname": "A B", "subdomain": "C/"}}}},
    ),
    Create(
        "defaults of pods, which are not compared with the bounds",
        "LimitRange",
        limits(type="Pod", min={"cpu": "2"}, default={"cpu": "1"}),
        ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    ),
    Create(
        "features in no order",
        "Node",
        {"status": {"declaredFeatures": ["B", "A/b", "A/b", "c"]}},
        [
            'status.declaredFeatures[1]: Invalid value: "A/b": list must be sorted alphabetically',
            'status.declaredFeatures[2]: Duplicate value: "A/b"',
            'status.declaredFeatures[3]: Invalid value: "c": invalid feature name "c": …',
        ],
    ),
    Create(
        "a default that is not the request, of a resource that cannot be overcommitted",
        "LimitRange",
        limits(type="Container", default={"example.com/gpu": "2"}, defaultRequest={"example.com/gpu": "1"}),
        ['spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": …'],
    ),
    Create(
        "an empty protocol",
        "EndpointSlice",
        {"ports": [{"port": 1, "protocol": ""}]},
        ['ports[0].protocol: Unsupported value: "": …'],
    ),
    Create(
        "devices of volumes without users of the host",
        "PodTemplate",
        {
            "template": {
                "spec": {
                    "hostUsers": False,
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
                    "containers": [{"name": "c", "image": "i", "volumeDevices": [{"name": "v", "devicePath": "/v"}]}],
                }
            }
        },
        ["template.spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"],
    ),
    Create(
        "claims that name each other's requests",
        "PodTemplate",
        {
            "template": {
                "spec": {
                    "resourceClaims": [{"name": name, "resourceClaimName": "x"} for name in "ab"],
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "resources": {
                                "claims": [
                                    {"name": "a"},
                                    {"name": "a", "request": "B"},
                                    {"name": "b", "request": "x"},
                                    {"name": "b", "request": "x"},
                                    {"name": "b"},
                                ]
                            },
                        }
                    ],
                }
            }
        },
        [
            'template.spec.containers[0].resources.claims[1]: Duplicate value: "a"',
            'template.spec.containers[0].resources.claims[3]: Duplicate value: "b/x"',
            'template.spec.containers[0].resources.claims[4]: Duplicate value: "b"',
        ],
    ),
    Create(
        "an unknown resource of the whole pod",
        "PodTemplate",
        {"template": {"spec": {"resources": {"requests": {"a": "1"}}}}},
        ['template.spec.resources.requests[a]: Invalid value: "a": …'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_a_create_is_validated_as_kubernetes_does(case: Create) -> None:
    found = case.validate()
    assert [line.split(": …")[0] for line in case.problems] == [
        line[: len(wanted.split(": …")[0])] if "…" in wanted else line
        for line, wanted in zip(found, case.problems, strict=True)
    ]


@dataclass(frozen=True)
class Stored:
    """What is stored of an object: a path of attributes and the value there."""

    id: str
    kind: str
    change: Tree
    path: str
    value: Any


STORED = [
    Stored(
        "only names of secrets", "ServiceAccount", {"secrets": [{"name": "a", "kind": "Secret"}]}, "secrets.0.kind", ""
    ),
    Stored(
        "no data source of an unknown kind",
        "PersistentVolumeClaim",
        {"spec": {"dataSource": {"kind": "Deployment", "name": "x", "apiGroup": "apps"}}},
        "spec.data_source",
        None,
    ),
    Stored("no generation", "CSIDriver", {}, "metadata.generation", 0),
    Stored("no generation", "StorageVersionMigration", {}, "metadata.generation", 0),
    Stored("a finalizer", "VolumeAttributesClass", {}, "metadata.finalizers.0", "kubernetes.io/vac-protection"),
    Stored(
        "no topology, which v1 cannot write",
        "EndpointSlice",
        {"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "b"}}]},
        "endpoints.0.deprecated_topology",
        {},
    ),
]


@pytest.mark.parametrize("case", STORED, ids=lambda case: f"{case.kind}: {case.id}")
def test_what_is_stored_is_what_kubernetes_stores(case: Stored) -> None:
    found: Any = stored(case.kind, case.change)
    for step in case.path.split("."):
        found = found[int(step)] if step.isdecimal() else getattr(found, step)
    assert found == case.value


def test_a_daemon_set_counts_its_templates_in_an_annotation() -> None:
    key = "deprecated.daemonset.template.generation"
    assert stored("DaemonSet").metadata.annotations[key] == "1"


def test_a_claim_template_replaces_a_volume_of_its_name() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"spec": {"volumes": [{"name": "d", "emptyDir": {}}, {"name": "d", "emptyDir": {}}]}}
    change = {"spec": {"template": template, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim}]}}
    assert created(example("StatefulSet", change), ON).metadata.name == "x"


def test_rules_of_a_runtime_class_hold_for_updates_as_well() -> None:
    old = stored("RuntimeClass")
    new = example("RuntimeClass", {"scheduling": {"nodeSelector": {"bad key": "x"}}})
    new.metadata.resource_version = "1"
    assert any("scheduling.nodeSelector" in problem for problem in update_problems(new, old))


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_an_unusable_selector_is_an_error_of_its_own(kind: str) -> None:
    bad = {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}}
    problems = Create("", kind, bad).validate()
    assert sum(problem.startswith("spec.selector: Invalid value") for problem in problems) == 1


def test_a_create_owns_a_struct_that_was_null_before_with_its_own_entry() -> None:
    before, after = {"spec": {"parentRef": None}}, {"spec": {"parentRef": {"name": "x"}}}
    fields = compare(before, after, schema_of(IPAddress)).changed
    assert fields == {"f:spec": {"f:parentRef": {".": {}, "f:name": {}}}}


def test_a_range_with_bits_beyond_its_prefix_is_refused_only_where_it_is_new() -> None:
    rule = {"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}
    problems = Create("", "NetworkPolicy", {"spec": {"ingress": [rule]}}).validate()
    assert any("must not have bits set beyond the prefix length" in problem for problem in problems)
    old = stored("NetworkPolicy")
    old.spec.ingress = example("NetworkPolicy", {"spec": {"ingress": [rule]}}).spec.ingress
    new = copy_of(old)
    new.metadata.resource_version = "1"
    new.metadata.labels["a"] = "b"
    assert update_problems(new, old) == []


def test_a_level_of_an_unknown_type_may_have_neither_part() -> None:
    change = {"spec": {"type": "Other", "exempt": {}, "limited": {"limitResponse": {"type": "Reject"}}}}
    problems = Create("", "PriorityLevelConfiguration", change).validate()
    assert {"spec.exempt: Forbidden", "spec.limited: Forbidden"} <= set(problems)


def test_a_template_is_not_validated_while_its_selector_is_invalid() -> None:
    change = {"spec": {"selector": {"matchLabels": {"app": "bad value"}}, "template": {"spec": {"containers": []}}}}
    assert not any("template" in problem for problem in Create("", "Deployment", change).validate())


@pytest.mark.parametrize(
    ("kind", "path"),
    [("Deployment", ("f:spec", "f:selector")), ("CronJob", ("f:spec", "f:schedule")), ("ClusterRole", ("f:rules",))],
)
def test_the_creator_owns_required_fields_as_well(kind: str, path: tuple[str, ...]) -> None:
    obj = example(kind)
    known = SCHEME.kind(obj.api_version, obj.kind)
    assert known is not None
    FieldManagers(SCHEME).create(known, obj, Manager("me", "", NOW))
    [entry] = obj.metadata.managed_fields
    fields: Any = json.loads(bytes(entry.fields_v1))
    for step in path:
        fields = fields[step]
    assert fields == {}


class Locked(NoCluster):
    """Namespaces without the label that allows access as an administrator."""

    def allows_admin_access(self, namespace: str) -> bool:
        return False


ADMIN = devices(requests=[{"name": "a", "exactly": {"deviceClassName": "c", "adminAccess": True}}])


@pytest.mark.parametrize(("kind", "change"), [("ResourceClaim", ADMIN), ("ResourceClaimTemplate", {"spec": ADMIN})])
def test_access_as_an_administrator_needs_a_label_of_the_namespace(kind: str, change: Tree) -> None:
    assert Create("", kind, change).validate() == []
    with pytest.raises(StatusError, match="admin access to devices requires the `resource"):
        admit_create(example(kind, change), request(lookups=Locked()))


def test_a_claim_with_half_a_byte_is_accepted_with_a_warning() -> None:
    claim = example("PersistentVolumeClaim", {"spec": {"resources": {"requests": {"storage": "1500m"}}}})
    wrong = 'fractional byte value "1500m" is invalid, must be an integer'
    assert admit_create(claim, request()).warnings == [f"spec.resources.requests[storage]: {wrong}"]


def test_an_update_may_not_bring_huge_pages_that_are_no_multiple_of_their_size() -> None:
    old = stored("Deployment")
    new = copy_of(old)
    new.metadata.resource_version = "1"
    new.spec.template.spec.containers[0].resources.requests["hugepages-2Mi"] = Quantity.parse("1")
    assert any("is not positive integer multiple of hugepages-2Mi" in each for each in update_problems(new, old))


def test_a_headless_service_gets_its_list_of_addresses_after_policies_have_seen_it() -> None:
    service = example("Service", {"spec": {"clusterIP": "None"}})
    begin_create(service, request())
    assert service.spec.cluster_ips == []
    assert created(service).spec.cluster_ips == ["None"]


def test_an_update_of_a_claim_template_is_validated_in_full() -> None:
    old = stored("ResourceClaimTemplate")
    new = copy_of(old)
    new.metadata.resource_version = "1"
    new.spec.spec.devices.requests[0].name = "Bad_Name"
    assert [each.split(":")[0] for each in update_problems(new, old)] == ["spec", "spec.spec.devices.requests[0].name"]


UPDATES = [
    Update(
        "a bad finalizer",
        "ConfigMap",
        {},
        {"metadata": {"finalizers": ["a b"]}},
        ['metadata.finalizers: Invalid value: "a b": …', 'metadata.finalizers[0]: Invalid value: "a b": …'],
    ),
    Update(
        "a source without a name",
        "VolumeAttachment",
        {},
        {"spec": {"source": {"persistentVolumeName": ""}}},
        [
            "spec.source.persistentVolumeName: Required value: …",
            'spec.source.persistentVolumeName: Invalid value: "": …',
            "spec: Invalid value: …",
        ],
    ),
    Update(
        "both families in a cluster of one",
        "Service",
        {},
        {"spec": {"ipFamilyPolicy": "RequireDualStack"}},
        ['spec.ipFamilyPolicy: Invalid value: "RequireDualStack": …'],
    ),
    Update("any history", "StatefulSet", {}, {"spec": {"revisionHistoryLimit": -1}}),
    Update(
        "a selector where a headless Service without one has both families",
        "Service",
        {"spec": {"clusterIP": "None", "ipFamilies": ["IPv6"], "selector": None}},
        {"spec": {"selector": {"app": "x"}}},
        [
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": …',
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
        ],
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_validated_as_kubernetes_does(case: Update) -> None:
    assert shortened(case.validate(), case.problems) == case.problems


@pytest.mark.parametrize(
    ("spec", "status", "problems"),
    [
        (
            {},
            {
                "containerStatuses": [{"name": "c", "user": {"linux": {"uid": 2**32, "gid": 2**31}}}],
                "ephemeralContainerStatuses": [{"name": "e", "user": {"linux": {"uid": 2**32 - 1, "gid": 0}}}],
                "initContainerStatuses": [
                    {"name": "i"},
                    {"name": "j", "user": {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [7, -1]}}},
                ],
            },
            [
                "status.containerStatuses[0].user.linux.uid: Invalid value: 4294967296: must be between 0 and …",
                "status.containerStatuses[0].user.linux.gid: Invalid value: 2147483648: …",
                "status.initContainerStatuses[1].user.linux.supplementalGroups[1]: Invalid value: -1: …",
            ],
        ),
        (
            {"os": {"name": "windows"}},
            {"containerStatuses": [{"name": "c", "user": {"linux": {"uid": 0, "gid": 0}}}]},
            ["status.containerStatuses[0].user.linux: Forbidden: cannot be set for a windows pod"],
        ),
    ],
    ids=["Linux", "Windows"],
)
def test_the_user_of_a_container_has_ids_that_exist(spec: Tree, status: Tree, problems: list[str]) -> None:
    old = created(pod_of(spec))
    new = decoded(merged(to_tree(old), {"status": status}))
    assert shortened(update_problems(new, old, subresource="status"), problems) == problems


def test_an_external_service_has_no_internal_policy() -> None:
    spec = {"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Local"}
    assert stored("Service", {"spec": spec}).spec.internal_traffic_policy is None


def test_ports_of_all_containers_are_compared_for_warnings() -> None:
    ports = [[{"containerPort": 80, "hostPort": port}] for port in (0, 0, 81)]
    containers = [{"name": f"c{index}", "image": "i", "ports": each} for index, each in enumerate(ports)]
    deployment = example("Deployment", {"spec": {"template": {"spec": {"containers": containers}}}})
    assert [each.split("spec.template.spec.")[1] for each in admit_create(deployment, request()).warnings] == [
        "containers[1].ports[0]: duplicate port definition with ",
        "containers[2].ports[0]: overlapping port definition with ",
        "containers[2].ports[0]: overlapping port definition with ",
    ]


def test_deprecated_sources_of_volumes_are_warned_about() -> None:
    volumes = [{"name": "a", "gitRepo": {"repository": "x"}}, {"name": "b", "flocker": {"datasetName": "a"}}]
    deployment = example("Deployment", {"spec": {"template": {"spec": {"volumes": volumes}}}})
    assert admit_create(deployment, request()).warnings == [
        "spec.template.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "spec.template.spec.volumes[1].flocker: deprecated in v1.22, non-functional in v1.25+",
    ]


def test_an_update_of_a_pods_addresses_agrees_on_the_first() -> None:
    old = created(pod_of({}))
    new = copy_of(old)
    new.metadata.resource_version, new.status.pod_ip = "1", "10.0.0.1"
    found = admit_update(new, old, request(), "status").object
    assert [each.ip for each in found.status.pod_ips] == ["10.0.0.1"]


def test_amounts_of_a_node_are_rounded_to_thousandths() -> None:
    node = stored("Node", {"status": {"capacity": {"app": "1n"}}})
    assert {str(amount) for amount in (node.status.capacity["app"], node.status.allocatable["app"])} == {"1m"}


def test_a_template_is_warned_about_whenever_the_spec_changes() -> None:
    old = stored("Deployment", {"spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "x"}}}}})
    new = copy_of(old)
    new.metadata.resource_version = "1"
    new.spec.replicas = 5
    assert len(admit_update(new, old, request()).warnings) == 1
