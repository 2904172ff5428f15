"""What nodes read: pods and volumes in words that their kubelets know, while nothing else changes."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import stock_rules
from api_caller import MERGE_PATCH, PODS, STRATEGIC, ApiCaller, api_caller, pod
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import Pod
from mooring.apiserver.registry.storage import lowering_for_nodes as node_reading
from mooring.constraints.lowering import for_node

NODES = "/api/v1/nodes"
VOLUMES = "/api/v1/persistentvolumes"
GATES = ["TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators", "TaintTolerationNodeAffinityCEL"]

GT = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute", "tolerationSeconds": 30}
CEL = {"expression": "taint.key == 'cni'"}
NEWER = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]}
WEST = {"matchCELExpressions": ["node.labels['rack'].startsWith('west')"]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [*terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def constrained(name: str = "web", node: str = "n1", **spec: Any) -> dict[str, Any]:
    wanted = {"nodeName": node, "tolerations": [GT, CEL], "affinity": affinity(NEWER, WEST), **spec}
    return pod(name, **wanted)


async def add_node(api: ApiCaller, name: str, sla: str = "960", kernel: str = "6.1.0", rack: str = "west-7") -> None:
    taints = [{"key": "sla", "value": sla, "effect": "NoExecute"}, {"key": "cni", "value": "x", "effect": "NoSchedule"}]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kernel": kernel, "rack": rack}},
        "spec": {"taints": taints},
    }
    assert (await api.post(NODES, node)).code == 201


def new_words(tree: Any) -> list[str]:
    """Return what in an object stock Kubernetes does not know."""
    text = json.dumps(tree["spec"])
    return [word for word in ("Gt", "Semver", 'expression"', "matchCELExpressions") if word in text]


EQUAL_SLA = {"key": "sla", "operator": "Equal", "value": "960", "effect": "NoExecute", "tolerationSeconds": 30}
EQUAL_CNI = {"key": "cni", "operator": "Equal", "value": "x", "effect": "NoSchedule"}


@pytest.mark.req("N.1")
async def test_a_node_gets_a_pod_in_words_that_it_knows(api: ApiCaller) -> None:
    await add_node(api, "n1")
    await api.post(PODS, constrained())
    read = (await api.as_node("n1").get(f"{PODS}/web")).body
    assert [entry for entry in read["spec"]["tolerations"] if entry["operator"] == "Equal"] == [EQUAL_SLA, EQUAL_CNI]
    assert new_words(read) == []
    assert stock_rules.meets_required(read["spec"], {"kernel": "6.1.0", "rack": "west-7"}, "n1")


@dataclass
class Node:
    name: str
    sla: str
    kernel: str
    rack: str
    tolerated: bool
    met: bool


@pytest.mark.req("N.1")
@pytest.mark.parametrize(
    "case",
    [
        Node("both terms hold", "960", "6.1.0", "west-7", True, True),
        Node("one term holds", "960", "5.4", "west-7", True, True),
        Node("no term holds", "960", "5.4", "east-1", True, False),
        Node("a label is no version", "960", "new", "east-1", True, False),
        Node("the taint's value is too low", "940", "6.1.0", "west-7", False, True),
        Node("the taint's value is no number", "many", "6.1.0", "west-7", False, True),
    ],
    ids=lambda case: case.name,
)
async def test_stock_rules_on_what_a_node_reads_decide_as_the_new_rules(api: ApiCaller, case: Node) -> None:
    await add_node(api, "n1", case.sla, case.kernel, case.rack)
    await api.post(PODS, constrained())
    spec = (await api.as_node("n1").get(f"{PODS}/web")).body["spec"]
    taints = [{"key": "sla", "value": case.sla, "effect": "NoExecute"}]
    assert (stock_rules.untolerated(taints, spec["tolerations"], "NoExecute") is None) is case.tolerated
    assert stock_rules.meets_required(spec, {"kernel": case.kernel, "rack": case.rack}, "n1") is case.met


@pytest.mark.req("N.1", "N.2")
async def test_get_list_and_watch_say_the_same_to_a_node_and_the_original_to_others(api: ApiCaller) -> None:
    await add_node(api, "n1")
    created = await api.post(PODS, constrained())
    await api.post(PODS, pod("plain", nodeName="n1"))
    for name, caller in (("n1", api.as_node("n1")), ("", api)):
        got = (await caller.get(f"{PODS}/web")).body
        listed = (await caller.get("/api/v1/pods?fieldSelector=spec.nodeName=n1")).body["items"]
        watched = [event["object"] for event in await caller.watch("/api/v1/pods?fieldSelector=spec.nodeName=n1", 2)]
        later = await caller.watch(f"{PODS}?resourceVersion={int(created.version) - 1}", 1)
        for other in (listed[1], watched[1], later[0]["object"]):
            assert other["spec"] == got["spec"]
            assert other["metadata"] == got["metadata"]
        assert bool(new_words(got)) is not bool(name)
        assert got["metadata"]["resourceVersion"] == created.version
        assert listed[0]["spec"] == watched[0]["spec"] == (await api.get(f"{PODS}/plain")).body["spec"]


@pytest.mark.req("N.1")
async def test_a_node_gets_the_deletion_of_a_pod_in_its_lowered_form(api: ApiCaller) -> None:
    await add_node(api, "n1")
    created = await api.post(PODS, constrained())
    await api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    [event] = await api.as_node("n1").watch(f"{PODS}?resourceVersion={created.version}", 1)
    assert event["type"] == "DELETED"
    assert new_words(event["object"]) == []


@pytest.mark.req("N.1")
async def test_yaml_and_tables_are_in_the_same_words(api: ApiCaller) -> None:
    await add_node(api, "n1")
    await api.post(PODS, constrained())
    node = api.as_node("n1")
    assert b"SemverGt" not in (await node.get(f"{PODS}/web", accept="application/yaml")).text
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert b"SemverGt" not in (await node.get(f"{PODS}?includeObject=Object", accept=table)).text
    assert b"SemverGt" in (await api.get(f"{PODS}?includeObject=Object", accept=table)).text


@pytest.mark.req("N.1")
async def test_what_a_node_reads_follows_its_taints_and_labels(api: ApiCaller) -> None:
    """A pod that did not change is not sent again: a kubelet admits pods as they arrive, or lists when it starts."""
    await add_node(api, "n1")
    created = await api.post(PODS, constrained())
    node = api.as_node("n1")
    assert EQUAL_SLA in (await node.get(f"{PODS}/web")).body["spec"]["tolerations"]
    taints = [{"key": "sla", "value": "970", "effect": "NoExecute"}]
    await api.patch(f"{NODES}/n1", {"spec": {"taints": taints}, "metadata": {"labels": {"kernel": "5", "rack": ""}}})
    read = (await node.get(f"{PODS}/web")).body
    assert {**EQUAL_SLA, "value": "970"} in read["spec"]["tolerations"]
    assert EQUAL_SLA not in read["spec"]["tolerations"]
    assert not stock_rules.meets_required(read["spec"], {"kernel": "5", "rack": ""}, "n1")
    assert read["metadata"]["resourceVersion"] == created.version
    await api.post(PODS, pod("next", nodeName="n1"))
    [event] = await node.watch(f"{PODS}?resourceVersion={created.version}", 1)
    assert event["object"]["metadata"]["name"] == "next"


@pytest.mark.req("N.1")
async def test_a_node_that_has_not_registered_tolerates_and_meets_nothing_new(api: ApiCaller) -> None:
    await api.post(PODS, constrained())
    read = (await api.as_node("n1").get(f"{PODS}/web")).body
    assert new_words(read) == []
    assert not stock_rules.meets_required(read["spec"], {"kernel": "6.1.0", "rack": "west-7"}, "n1")


@pytest.mark.req("N.1")
@pytest.mark.parametrize(("kernel", "usable"), [("6.1.0", True), ("5.4", False)])
async def test_a_volume_says_whether_it_can_be_mounted_there(api: ApiCaller, kernel: str, usable: bool) -> None:
    await add_node(api, "n1", kernel=kernel)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [NEWER]}},
        },
    }
    assert (await api.post(VOLUMES, volume)).code == 201
    read = (await api.as_node("n1").get(f"{VOLUMES}/disk")).body["spec"]["nodeAffinity"]["required"]
    assert stock_rules.meets_selector(read, {"kernel": kernel}, "n1") is usable


@pytest.mark.req("N.3")
async def test_a_node_that_declares_a_feature_reads_its_words(api: ApiCaller) -> None:
    await add_node(api, "n1")
    await api.post(PODS, constrained())
    node = api.as_node("n1")
    for count in range(len(GATES) + 1):
        status = {"status": {"declaredFeatures": sorted(GATES[:count])}}
        assert (await api.patch(f"{NODES}/n1/status", status)).code == 200
        read = (await node.get(f"{PODS}/web")).body
        expected = [[], ["Gt"], ["Gt", "Semver"], ["Gt", "Semver", 'expression"', "matchCELExpressions"]][count]
        assert new_words(read) == expected
    assert (await node.get(f"{PODS}/web")).body == (await api.get(f"{PODS}/web")).body


@pytest.mark.req("N.3", "5471.3c", "5721.6", "5500.9")
async def test_words_whose_gate_is_off_never_match_on_any_node(api: ApiCaller) -> None:
    await add_node(api, "n1")
    await api.patch(f"{NODES}/n1/status", {"status": {"declaredFeatures": sorted(GATES)}})
    await api.post(PODS, constrained())
    off = AdmissionOptions(comparison_operators=False, semver_operators=False, cel=False)
    async with api_caller(options=off, store=api.store) as later:
        spec = (await later.as_node("n1").get(f"{PODS}/web")).body["spec"]
    assert [entry["operator"] for entry in spec["tolerations"]] == ["Exists", "Exists"]  # those that every pod gets
    assert not stock_rules.meets_required(spec, {"kernel": "6.1.0", "rack": "west-7"}, "n1")


STATUS = {"phase": "Running", "podIP": "10.0.0.7"}


@pytest.mark.req("N.2")
@pytest.mark.parametrize("media_type", [STRATEGIC, MERGE_PATCH])
async def test_a_node_patches_the_status_of_what_it_read(api: ApiCaller, media_type: str) -> None:
    await add_node(api, "n1")
    created = (await api.post(PODS, constrained())).body
    patch = {"metadata": {"uid": created["metadata"]["uid"]}, "status": STATUS}
    answer = await api.as_node("n1").patch(f"{PODS}/web/status", patch, media_type)
    assert answer.code == 200
    assert new_words(answer.body) == []
    stored = (await api.get(f"{PODS}/web")).body
    assert stored["spec"] == created["spec"]
    assert stored["status"]["podIP"] == "10.0.0.7"


@pytest.mark.req("N.2")
async def test_a_status_that_a_node_writes_as_a_whole_leaves_the_stored_spec_alone(api: ApiCaller) -> None:
    await add_node(api, "n1")
    created = (await api.post(PODS, constrained())).body
    node = api.as_node("n1")
    read = (await node.get(f"{PODS}/web")).body
    answer = await node.put(f"{PODS}/web/status", {**read, "status": {**read["status"], **STATUS}})
    assert answer.code == 200, answer.message
    stored = (await api.get(f"{PODS}/web")).body
    assert stored["spec"] == created["spec"]
    assert stored["status"]["phase"] == "Running"
    owners = [entry["manager"] for entry in stored["metadata"]["managedFields"] if "f:tolerations" in str(entry)]
    assert owners == [entry["manager"] for entry in created["metadata"]["managedFields"]]


@pytest.mark.req("N.2")
async def test_a_dry_run_by_a_node_leaves_no_trace_in_what_others_read(api: ApiCaller) -> None:
    await add_node(api, "n1")
    await api.post(PODS, constrained())
    node = api.as_node("n1")
    patch = {"status": {"podIP": "10.9.9.9"}}
    shown = await node.patch(f"{PODS}/web/status?dryRun=All", patch)
    assert shown.body["status"]["podIP"] == "10.9.9.9"
    assert "podIP" not in (await node.get(f"{PODS}/web")).body["status"]


@pytest.mark.req("N.4")
async def test_a_pod_is_lowered_once_for_a_node_and_plain_pods_are_never_decoded(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await add_node(api, f"n{number}")
    await api.post(PODS, constrained("web"))
    for number in range(5):
        await api.post(PODS, pod(f"plain-{number}"))
    asked: list[str] = []
    lower_pod = for_node.lower_pod

    def counted(read: Pod, words: Any, options: Any) -> Pod:
        asked.append(read.metadata.name)
        return lower_pod(read, words, options)

    monkeypatch.setattr(for_node, "lower_pod", counted)
    monkeypatch.setattr(node_reading, "_decode", _counting(asked, node_reading._decode))
    for number in range(3):
        node = api.as_node(f"n{number}")
        assert (await node.get(PODS)).code == 200
        await node.get(f"{PODS}/web")
    assert asked == ["web", "web"] * 3  # decoded and lowered, once for each node


@pytest.mark.req("N.1", "S.7")
async def test_pods_that_share_a_revision_are_lowered_each_for_itself(api: ApiCaller) -> None:
    """In etcd, pods that are written together with the quotas of their namespace have the same revision."""
    await add_node(api, "n1")
    for name in ("web", "db"):
        await api.post(PODS, constrained(name))
    await api.post(PODS, pod("plain"))
    context = api.resources.context
    stored = context.kinds.find_by_type(Pod)
    kept = [replace(kv, mod_revision=7) for kv in context.store.peek_all(stored.prefix_of("default"))]
    lowering = node_reading.NodeLowering(context.store, context.options, context.decoded)
    shown = [json.loads(kv.value) for kv in lowering.lower_all(stored, "n1", kept)]
    assert [each["metadata"]["name"] for each in shown] == ["db", "plain", "web"]
    assert [new_words(each) for each in shown] == [[], [], []]


def _counting(asked: list[str], decode: Any) -> Any:
    def decoded(*args: Any) -> Any:
        found = decode(*args)
        asked.append(found.metadata.name)
        return found

    return decoded
