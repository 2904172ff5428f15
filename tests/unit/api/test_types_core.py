"""How API types look in JSON, how they merge, and what their descriptions are."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest

from mooring.api import authentication_v1, autoscaling_v1, core_v1, events_v1, meta_v1, rbac_v1
from mooring.api.base import Merge, Object, copy_of, is_required, merge_of
from mooring.api.openapi_docs import descriptions
from mooring.api.quantity import Quantity


def encoded(value: Object) -> Any:
    return json.loads(msgspec.json.encode(value, enc_hook=str))


def decoded(cls: type[Object], value: Any) -> Object:
    return msgspec.json.decode(json.dumps(value), type=cls, dec_hook=lambda _, text: Quantity.parse(text))


@dataclass(frozen=True)
class Written:
    id: str
    value: Object
    json: dict[str, Any]


@pytest.mark.parametrize(
    "case",
    [
        Written(
            "a pod writes its metadata, spec and status even when they are empty",
            core_v1.Pod(kind="Pod", api_version="v1"),
            {"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"containers": []}, "status": {}},
        ),
        Written(
            "a container writes its name and resources",
            core_v1.Container(name="c", image="i"),
            {"name": "c", "image": "i", "resources": {}},
        ),
        Written("a toleration writes only what it has", core_v1.Toleration(key="a"), {"key": "a"}),
        Written("a taint writes its effect", core_v1.Taint(key="a"), {"key": "a", "effect": ""}),
        Written(
            "a condition that never changed writes null",
            core_v1.PodCondition(type="Ready", status="True"),
            {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None},
        ),
        Written(
            "zero behind a pointer is written and absence is not",
            core_v1.PodSpec(priority=0, termination_grace_period_seconds=0),
            {"containers": [], "terminationGracePeriodSeconds": 0, "priority": 0},
        ),
        Written("zero without a pointer is not written", autoscaling_v1.ScaleSpec(replicas=0), {}),
        Written(
            "a missing divisor is 0",
            core_v1.ResourceFieldSelector(resource="limits.cpu"),
            {"resource": "limits.cpu", "divisor": "0"},
        ),
        Written(
            "a token that was not bound writes null",
            authentication_v1.TokenRequestSpec(),
            {"audiences": [], "expirationSeconds": None, "boundObjectRef": None},
        ),
        Written("bytes are base64", core_v1.Secret(data={"k": b"hi"}), {"metadata": {}, "data": {"k": "aGk="}}),
        Written(
            "words that camelCase would spell wrong keep their spelling",
            core_v1.PodStatus(host_ip="a", pod_ips=[core_v1.PodIP(ip="b")]),
            {"hostIP": "a", "podIPs": [{"ip": "b"}]},
        ),
        Written("the kubelet's port has a capital", core_v1.DaemonEndpoint(port=10250), {"Port": 10250}),
        Written("Python's keywords are spelled as in JSON", meta_v1.ListMeta(continue_="t"), {"continue": "t"}),
        Written(
            "a role without rules says so",
            rbac_v1.Role(kind="Role"),
            {"kind": "Role", "metadata": {}, "rules": []},
        ),
    ],
    ids=lambda case: case.id,
)
def test_json(case: Written) -> None:
    assert encoded(case.value) == case.json
    assert decoded(type(case.value), case.json) == case.value


def test_fields_are_written_in_the_order_of_kubernetes() -> None:
    event = events_v1.Event(kind="Event", api_version="events.k8s.io/v1", note="n", series=events_v1.EventSeries())
    assert list(encoded(event)) == [
        *("kind", "apiVersion", "metadata", "eventTime", "series", "regarding", "note"),
        *("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
    ]


def test_metadata_stays_in_front_where_a_kind_requires_it() -> None:
    assert core_v1.Event.__struct_fields__[:4] == ("kind", "api_version", "metadata", "involved_object")


@dataclass(frozen=True)
class Refused:
    id: str
    cls: type[Object]
    json: dict[str, Any]
    error: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("an unknown field", core_v1.Toleration, {"foo": 1}, "unknown field `foo`"),
        Refused("a number beyond 32 bits", core_v1.PodSpec, {"priority": 2**31}, r"<= 2147483647 - at `\$.priority`"),
        Refused("a number beyond 64 bits", core_v1.Toleration, {"tolerationSeconds": 2**63}, "<= 9223372036854775807"),
        Refused("a fraction where a port is due", core_v1.TCPSocketAction, {"port": 1.5}, r"Expected `int \| str`"),
        Refused("text that is not base64", core_v1.Secret, {"data": {"k": "!"}}, "base64"),
    ],
    ids=lambda case: case.id,
)
def test_refused(case: Refused) -> None:
    with pytest.raises(msgspec.ValidationError, match=case.error):
        decoded(case.cls, case.json)


def test_managed_fields_survive_unchanged() -> None:
    entry = {"manager": "kubectl", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}
    assert encoded(decoded(meta_v1.ManagedFieldsEntry, entry)) == entry


def test_a_copy_shares_nothing_that_can_change() -> None:
    pod = core_v1.Pod(spec=core_v1.PodSpec(node_selector={"a": "b"}, tolerations=[core_v1.Toleration(key="k")]))
    copy = copy_of(pod)
    copy.spec.node_selector["a"] = "c"
    copy.spec.tolerations[0].key = "l"
    assert (pod.spec.node_selector, pod.spec.tolerations[0].key) == ({"a": "b"}, "k")


MERGE: tuple[Literal["merge"], ...] = ("merge",)
KEEP: tuple[Literal["merge", "retainKeys"], ...] = ("merge", "retainKeys")


@dataclass(frozen=True)
class Merges:
    cls: type[Object]
    attribute: str
    merge: Merge | None


@pytest.mark.parametrize(
    "case",
    [
        Merges(core_v1.PodSpec, "containers", Merge("map", ("name",), "name", MERGE)),
        Merges(core_v1.PodSpec, "volumes", Merge("map", ("name",), "name", KEEP)),
        Merges(core_v1.PodSpec, "tolerations", None),
        Merges(core_v1.PodSpec, "host_aliases", Merge("map", ("ip",), "ip", MERGE)),
        Merges(core_v1.PodSpec, "node_selector", Merge("atomic")),
        Merges(
            core_v1.PodSpec,
            "topology_spread_constraints",
            Merge("map", ("topologyKey", "whenUnsatisfiable"), "topologyKey", MERGE),
        ),
        Merges(core_v1.Container, "ports", Merge("map", ("containerPort", "protocol"), "containerPort", MERGE)),
        Merges(core_v1.EphemeralContainer, "volume_mounts", Merge("map", ("mountPath",), "mountPath", MERGE)),
        Merges(core_v1.PodStatus, "host_ips", Merge("atomic", patch_key="ip", patch_strategies=MERGE)),
        Merges(core_v1.ResourceRequirements, "claims", Merge("map", ("name",))),
        Merges(core_v1.NodeSpec, "taints", None),
        Merges(core_v1.NodeSpec, "pod_cidrs", Merge("set", patch_strategies=MERGE)),
        Merges(core_v1.NodeStatus, "conditions", Merge("map", ("type",), "type", MERGE)),
        Merges(core_v1.PersistentVolumeClaimSpec, "selector", Merge("atomic")),
        Merges(core_v1.PersistentVolumeSpec, "claim_ref", Merge("granular")),
        Merges(core_v1.Binding, "target", Merge("atomic")),
        Merges(core_v1.Pod, "spec", None),
        Merges(core_v1.EndpointSubset, "addresses", None),
        Merges(meta_v1.ObjectMeta, "owner_references", Merge("map", ("uid",), "uid", MERGE)),
        Merges(meta_v1.ObjectMeta, "finalizers", Merge("set", patch_strategies=MERGE)),
        Merges(meta_v1.ObjectMeta, "managed_fields", None),
        Merges(meta_v1.ObjectMeta, "labels", None),
    ],
    ids=lambda case: f"{case.cls.__name__}.{case.attribute}",
)
def test_merge(case: Merges) -> None:
    field = next(field for field in msgspec.structs.fields(case.cls) if field.name == case.attribute)
    assert merge_of(field) == case.merge


def test_required_fields_are_known() -> None:
    fields = msgspec.structs.fields(core_v1.TopologySpreadConstraint)
    assert [field.encode_name for field in fields if is_required(field)] == [
        *("maxSkew", "topologyKey", "whenUnsatisfiable")
    ]


def test_descriptions_come_in_the_order_of_the_fields_and_include_inherited_ones() -> None:
    described = descriptions(core_v1.Event)
    assert tuple(described) == core_v1.Event.__struct_fields__
    assert described["kind"] == "The kind of the object, in CamelCase."
    assert described["metadata"] == "Name, namespace and everything else that all objects have."
