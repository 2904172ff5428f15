"""Explanations beyond single plugins: states of pods, workloads, combinations, preemption, points, dumps, speed."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.advisor.explain import NotThereError, explain, find_subject, text
from mooring.advisor.explain.patches import diff_json
from mooring.advisor.explain.subject import subject_of
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot, dump, engine
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaimTemplate, ResourceSlice
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass
from mooring.apiserver.registry.patch.json_patch import apply
from mooring.cli.commands.explain import explain as command
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.framework import SchedulerFeatures
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.5")

RECORDED = Path(__file__).parents[2] / "conformance" / "data" / "api" / "requests.jsonl"


def cluster(*objects: Resource) -> Snapshot:
    return Snapshot("the test", objects)


def owned_by(kind: str, name: str, **more: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [owner], **more}


# -- what state a pod is in


@dataclass(frozen=True)
class State:
    name: str
    pod: dict[str, Any]
    state: str
    summary: str
    suggestions: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    "case",
    [
        State(
            "a pod that has ended", {"status": {"phase": "Succeeded"}}, "NotAttempted", "the pod has ended (Succeeded)"
        ),
        State(
            "a pod that is being deleted",
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "NotAttempted",
            "the pod is being deleted: the scheduler leaves it alone",
        ),
        State(
            "a pod of another scheduler",
            {"spec": {"schedulerName": "batch"}},
            "NotAttempted",
            "the pod waits for the scheduler batch: no such scheduler runs in this cluster",
            ["leave the pod to default-scheduler (spec.schedulerName)"],
        ),
        State(
            "a gated pod",
            {"spec": {"schedulingGates": [{"name": "a/b"}]}},
            "NotAttempted",
            "the pod waits for its scheduling gate a/b, which the controller of a removes",
            ["remove the scheduling gate a/b"],
        ),
        State(
            "a pod that fits",
            {"metadata": {"uid": "u"}},
            "Schedulable",
            "the pod can be scheduled: 1 of 1 nodes fit, a is the best",
        ),
        State(
            "a pod whose node is gone",
            {"on": "gone"},
            "NotAttempted",
            "node gone does not exist (any more), and no scheduler tries the pod again",
            ["let the scheduler choose: drop spec.nodeName gone"],
        ),
        State("a pod that runs", {"on": "a"}, "Scheduled", "the pod runs on node a, the only one that fits"),
    ],
    ids=lambda case: case.name,
)
def test_a_state_is_explained_plainly(case: State) -> None:
    wanted = pod("web", **case.pod)
    found = explain(cluster(node("a"), wanted), wanted)
    assert (found.state, found.summary[: len(case.summary)]) == (case.state, case.summary)
    assert [each.summary for each in found.suggestions] == case.suggestions


def test_without_nodes_that_is_what_is_said() -> None:
    found = explain(cluster(), pod("web"))
    assert (found.state, found.summary, found.suggestions) == ("Unschedulable", "there are no nodes", [])
    assert (found.message, found.preemption) == ("no nodes available to schedule pods", None)


@pytest.mark.parametrize("wide", [False, True])
def test_names_cannot_command_a_terminal(wide: bool) -> None:
    """A dump may have anything in it. Colours are added by us."""
    evil = "\x1b[2J\r\n\x9b5m\u202e"
    wanted = pod("web", spec={"nodeSelector": {evil: evil}})
    found = explain(cluster(node(f"a{evil}", taints=[f"{evil}={evil}:NoSchedule"]), wanted), wanted)
    said = list(text.format_lines(found, wide=wide))
    assert any("[2J" in line for line in said)
    assert all(line.isprintable() for line in said)


def test_nodes_that_may_not_be_read_are_reported() -> None:
    forbidden = Snapshot("the test", missing={"nodes": "not allowed: nodes is forbidden"})
    found = explain(forbidden, pod("web"))
    assert (found.cause, found.summary.partition(",")[0]) == ("Unknown", "the pod has no node")
    note = "you may not read nodes: the answer may be incomplete; `mooring rights` prints what to grant"
    assert found.facts == [note]


def test_a_pod_that_may_not_be_read_is_not_said_to_be_absent() -> None:
    forbidden = Snapshot("the test", [node("a")], missing={"pods": "not allowed: pods is forbidden"})
    with pytest.raises(NotThereError, match=r"pods of the test could not be read \(not allowed: pods is forbidden\)"):
        find_subject(forbidden, "pod", "default", "web")


def test_a_pod_that_is_made_for_a_node_is_about_that_node_first() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]
    terms = [{"matchFields": fields}]
    spec = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }
    nodes = [node(f"n{number}", taints=["full:NoSchedule"] if number == 3 else []) for number in range(5)]
    found = explain(cluster(*nodes), pod("agent", spec=spec))
    assert [(each.count, each.plugin, each.nodes[0]) for each in found.refusals] == [
        (1, "TaintToleration", "n3"),
        (4, "NodeAffinity", "n0"),
    ]


@pytest.mark.parametrize(
    ("expression", "label"),
    [
        ("semver.compare(node.labels['kernel'], '>=6.0')", "kernel=6.0.0"),
        ("semver.compare(node.labels['kernel'], '>6.1')", "kernel=6.1.1"),
        ("semver.compare(node.labels['kernel'], '<5.0')", "kernel=4.0.0"),
        ("semver.compare(node.labels['kernel'], '>=6.1 <6.2')", "kernel=6.1.0"),
        ("semver(node.labels['kernel']).isLessThan(semver('1.0.0'))", "kernel=0.0.0"),
        ("int(node.labels['gpus']) > 5", "gpus=6"),
        ("node.labels['disk'] == 'ssd'", "disk=ssd"),
    ],
)
def test_a_label_for_an_expression_is_spelled_as_people_would(expression: str, label: str) -> None:
    terms = {"nodeSelectorTerms": [{"matchCELExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found = explain(cluster(node("a", labels={"kernel": "5.4.0"})), pod("web", spec={"affinity": affinity}))
    assert f"label node a with {label}" in [each.summary for each in found.suggestions]


# -- several reasons at once


def test_two_changes_are_combined_where_one_is_not_enough() -> None:
    wanted = pod("web", cpu="2", spec={"nodeSelector": {"disk": "ssd"}})
    found = explain(cluster(node("a", unschedulable=True, taints=["team=blue:NoSchedule"])), wanted)
    first = found.suggestions[0]
    assert first.summary == (
        "uncordon node a, and tolerate the taint team=blue:NoSchedule, and label node a with disk=ssd"
    )
    assert [change.target.kind for change in first.changes] == ["Pod", "Node", "Node"]
    assert found.nodes[0].also_refused_by == ["TaintToleration", "NodeAffinity"]


def test_single_changes_leave_out_pairs() -> None:
    wanted = pod("web", spec={"nodeSelector": {"disk": "ssd"}})
    found = explain(cluster(node("a"), node("b", unschedulable=True)), wanted)
    assert {len(each.plugins) for each in found.suggestions} == {1}


def test_four_things_at_once_are_too_many() -> None:
    wanted = pod("web", cpu="8", spec={"nodeSelector": {"disk": "ssd"}})
    found = explain(cluster(node("a", unschedulable=True, taints=["team=blue:NoSchedule"])), wanted)
    assert found.suggestions == []
    against = (
        "nearest is node a, and this is against it: NodeUnschedulable: cordoned: spec.unschedulable is true;"
        " TaintToleration: taint team=blue:NoSchedule is not tolerated;"
        " NodeAffinity: `disk=ssd` does not hold: there is no such label;"
        " NodeResourcesFit: asks for cpu 8, and the node has 4"
    )
    assert found.facts == [against]
    assert "No change of up to three steps was found that would help." in list(text.format_lines(found))


def test_a_number_that_is_near_comes_before_one_that_is_far() -> None:
    nodes = [node(f"n{value}", taints=[f"sla={value}:NoSchedule"]) for value in (100, 940, 500)]
    wanted = pod("web", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}]})
    found = explain(cluster(*nodes), wanted)
    assert found.suggestions[0].summary == "lower the bound of the toleration `sla Gt 950` to 939"
    assert [each.count for each in found.refusals] == [1, 1, 1]


def test_equal_reasons_are_one_group() -> None:
    nodes = [node(f"n{number}", taints=["sla=940:NoSchedule"]) for number in range(3)]
    found = explain(cluster(*nodes), pod("web"))
    assert [(each.count, each.nodes) for each in found.refusals] == [(3, ["n0", "n1", "n2"])]


def test_preemption_is_reported_with_its_victims() -> None:
    low = pod("low", on="a", cpu="4", priority=1)
    found = explain(cluster(node("a"), low), pod("web", cpu="2", priority=5))
    assert found.summary == (
        "not enough cpu: the pod asks for 2 cpu, at most 0 cpu is free (a);"
        " the scheduler makes room on a by deleting default/low"
    )
    assert found.preemption is not None
    assert [(each.name, each.priority) for each in found.preemption.victims] == [("low", 1)]


def test_a_gate_that_is_off_is_named() -> None:
    wanted = pod("web", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}]})
    snapshot = cluster(node("a", taints=["sla=940:NoSchedule"]))
    assert engine(snapshot).schedule(wanted).node == "a"
    features = SchedulerFeatures(constraints=ConstraintOptions(numeric_tolerations=False))
    found = explain(snapshot, wanted, Settings(features=features))
    off = "`Gt 900` does not count while the gate TaintTolerationComparisonOperators is off"
    assert found.refusals[0].detail == f"taint sla=940:NoSchedule is not tolerated: {off}"


# -- why this node


def test_points_are_compared_with_the_runner_up() -> None:
    running = pod("web", on="a", spec={"tolerations": []})
    nodes = [node("a"), node("b", taints=["old:PreferNoSchedule"]), node("c", unschedulable=True)]
    found = explain(cluster(*nodes, running), running)
    assert [each.node for each in found.scores] == ["a", "b"]
    assert found.scores[0].scores["TaintToleration"] == 300
    assert "more than b, most of them for TaintToleration (+300)" in found.summary


def test_a_node_that_would_not_do_today_is_reported() -> None:
    running = pod("web", on="a")
    found = explain(cluster(node("a", taints=["sla=1:NoSchedule"]), node("b"), running), running)
    assert "today it would not be put there: taint sla=1:NoSchedule is not tolerated" in found.facts


# -- workloads


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "app:1"}]},
}
SPEC = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}


@dataclass(frozen=True)
class Workload:
    kind: type[Resource]
    word: str
    path: str
    spec: dict[str, Any] = field(default_factory=lambda: SPEC)


@pytest.mark.parametrize(
    "case",
    [
        Workload(Deployment, "deploy", "/spec/template/spec/nodeSelector"),
        Workload(ReplicaSet, "replicaset", "/spec/template/spec/nodeSelector"),
        Workload(StatefulSet, "sts", "/spec/template/spec/nodeSelector"),
        Workload(DaemonSet, "daemonsets", "/spec/template/spec/nodeSelector"),
        Workload(Job, "job", "/spec/template/spec/nodeSelector", {"template": TEMPLATE}),
        Workload(
            CronJob,
            "cj",
            "/spec/jobTemplate/spec/template/spec/nodeSelector",
            {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
        ),
    ],
    ids=lambda case: case.word,
)
def test_the_template_of_a_workload_is_what_is_changed(case: Workload) -> None:
    tree = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": case.spec}
    snapshot = cluster(node("a"), made(case.kind, tree))
    found = explain(snapshot, find_subject(snapshot, case.word, "default", "web"))
    dropped = next(each for each in found.suggestions if each.summary == "drop the nodeSelector disk")
    change = dropped.changes[0]
    assert (change.target.kind, change.patch[0]["op"], change.patch[0]["path"]) == (
        case.kind.__name__,
        "remove",
        case.path,
    )


def test_a_waiting_pod_of_a_deployment_leads_to_its_template() -> None:
    owner = made(Deployment, {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": SPEC})
    metadata = {"name": "web-1", "namespace": "default", **owned_by("Deployment", "web")}
    middle = made(ReplicaSet, {"metadata": metadata, "spec": SPEC})
    waiting = pod("web-1-x", spec={"nodeSelector": {"disk": "ssd"}}, metadata=owned_by("ReplicaSet", "web-1"))
    snapshot = cluster(node("a"), owner, middle, waiting)
    by_pod = explain(snapshot, waiting)
    by_name = explain(snapshot, find_subject(snapshot, "deployment", "default", "web"))
    assert by_pod.suggestions == by_name.suggestions
    assert by_pod.subject.name == "web-1-x"
    commands = [change.command for each in by_pod.suggestions for change in each.changes]
    assert any(each.startswith("kubectl patch -n default deployment web --type=json") for each in commands)


def test_a_pod_of_the_template_before_is_not_what_a_deployment_waits_for() -> None:
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    owner = made(Deployment, {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": spec})
    owned = {"namespace": "default", **owned_by("Deployment", "web")}
    old = made(ReplicaSet, {"metadata": {"name": "web-1", **owned}, "spec": SPEC})
    new = made(ReplicaSet, {"metadata": {"name": "web-2", **owned}, "spec": spec})
    waiting = pod("web-1-x", spec={"nodeSelector": {"disk": "ssd"}}, metadata=owned_by("ReplicaSet", "web-1"))
    running = pod("web-2-x", on="a", metadata=owned_by("ReplicaSet", "web-2"))
    snapshot = cluster(node("a"), owner, old, new, waiting, running)
    assert explain(snapshot, find_subject(snapshot, "deployment", "default", "web")).state == "Schedulable"


def test_a_service_makes_no_pods() -> None:
    with pytest.raises(NotThereError, match="is no kind that makes pods"):
        find_subject(cluster(), "service", "default", "web")


def test_a_pod_of_a_manifest_gets_its_priority() -> None:
    high = made(PriorityClass, {"metadata": {"name": "high"}, "value": 9})
    low = pod("low", on="a", cpu="4", priority=1)
    wanted = pod("web", cpu="2", spec={"priorityClassName": "high"}, metadata={"uid": ""})
    found = explain(cluster(node("a"), high, low), wanted)
    assert found.preemption is not None
    assert found.preemption.node == "a"


# -- what controllers make together with a pod


def gpu_cluster(*more: Resource) -> Snapshot:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    requests = [{"name": "gpu", "exactly": exactly}]
    template = {
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    slice_ = {
        "driver": "gpu.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0"}],
    }
    return cluster(
        node("a"),
        made(DeviceClass, {"metadata": {"name": "gpu"}}),
        made(ResourceClaimTemplate, template),
        made(ResourceSlice, {"metadata": {"name": "a-gpus"}, "spec": slice_}),
        *more,
    )


def test_claims_that_a_controller_would_create_are_considered_and_changed_in_their_template() -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
    wanted = pod("web", spec=spec, metadata={"uid": ""})
    found = explain(gpu_cluster(), subject_of(gpu_cluster(), wanted, file="pod.yaml"))
    assert found.refusals[0].detail.endswith("asks for 2 of gpu; of 1 that fit 1 are free")
    first = found.suggestions[0]
    assert [(change.target.kind, change.patch[0]["path"]) for change in first.changes] == [
        ("ResourceClaimTemplate", "/spec/spec/devices/requests/0/exactly/count")
    ]


def test_a_stateful_set_brings_its_claims() -> None:
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    spec = {**SPEC, "template": template, "volumeClaimTemplates": claims, "serviceName": "web"}
    owner = made(StatefulSet, {"metadata": {"name": "db", "namespace": "default", "uid": "u"}, "spec": spec})
    fast = {"metadata": {"name": "fast"}, "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    snapshot = cluster(node("a"), owner, made(StorageClass, fast))
    assert explain(snapshot, find_subject(snapshot, "sts", "default", "db")).state == "Schedulable"


@pytest.mark.parametrize(
    ("other_nodes", "is_offered"),
    [
        pytest.param([node("b", cpu="2", taints=["team=blue:NoSchedule"])], True, id="the victim runs elsewhere then"),
        pytest.param([], False, id="the victim would be pending"),
    ],
)
def test_a_higher_priority_is_suggested_where_its_victims_find_another_node(
    other_nodes: list[Resource], is_offered: bool
) -> None:
    tolerant = {"tolerations": [{"key": "team", "operator": "Exists"}]}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "low"}},
        "template": {
            "metadata": {"labels": {"app": "low"}},
            "spec": {**tolerant, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
        },
    }
    owner = made(ReplicaSet, {"metadata": {"name": "low", "namespace": "default", "uid": "uid-low"}, "spec": spec})
    low = pod(
        "low-1",
        on="a",
        cpu="2",
        priority=0,
        metadata={**owned_by("ReplicaSet", "low"), "labels": {"app": "low"}},
        spec=tolerant,
    )
    classes = [
        made(PriorityClass, {"metadata": {"name": name}, "value": value})
        for name, value in (("x", 9), ("y", 5), ("system-cluster-critical", 2))
    ]
    found = explain(
        cluster(node("a"), owner, low, *other_nodes, *classes), pod("web", cpu="3", priority=0), suggestions=9
    )
    offered = [each for each in found.suggestions if "priority class" in each.summary]
    assert [each.summary for each in offered] == (["give it the priority class y (5)"] if is_offered else [])
    if not is_offered:
        return
    last = offered[0]
    assert last.caveat == "it displaces default/low-1"
    assert last.changes[0].patch == [
        {"op": "add", "path": "/spec/priorityClassName", "value": "y"},
        {"op": "replace", "path": "/spec/priority", "value": 5},
    ]


# -- the command


def invoke(*words: str) -> Any:
    return CliRunner().invoke(command, words)


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {capacity: {cpu: '4', pods: '9'}}}\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default, uid: u},"
        " spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: i}]}}\n"
        "- {apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}}\n"
    )
    return file


def test_a_table_is_for_people(dumped: Path) -> None:
    done = invoke("pod", "default/web", "--from", str(dumped))
    operation = '[{"op":"remove","path":"/spec/nodeSelector"}]'
    edit = f"kubectl patch --local -f - --type=json -p '{operation}' -o yaml"
    assert done.stdout.splitlines() == [
        "pod default/web: no node has the label `disk` that the pod selects (disk=ssd)",
        "",
        "Why not",
        "  1 node  NodeAffinity  `disk=ssd` does not hold: there is no such label [a]",
        "",
        "What would help (each was tried)",
        "  1. label node a with disk=ssd",
        "     helps 1 of 1; a pod goes to a",
        "     $ kubectl label node a disk=ssd",
        "  2. drop the nodeSelector disk",
        "     helps 1 of 1; a pod goes to a",
        f"     $ kubectl get -n default pod web -o yaml | {edit} | kubectl replace --force -f -",
        "  (by the rules of Kubernetes 1.37; --emulation-version chooses others)",
    ]
    assert "Mooring does not know example.com/v1 Gadget" in done.stderr


def test_json_has_every_field(dumped: Path) -> None:
    found = json.loads(invoke("web", "--from", str(dumped), "-o", "json").stdout)
    assert (found["apiVersion"], found["kind"]) == ("advisor.mooring.dev/v1", "SchedulingExplanation")
    assert found["suggestions"][0]["changes"][0]["patch"] == [
        {"op": "add", "path": "/metadata/labels", "value": {"disk": "ssd"}}
    ]
    assert found["nodes"] == [
        {
            "node": "a",
            "feasible": False,
            "plugin": "NodeAffinity",
            "detail": "`disk=ssd` does not hold: there is no such label",
            "alsoRefusedBy": [],
        }
    ]


def test_a_file_is_explained_as_it_would_be_created(dumped: Path, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: c, image: i}]}\n")
    assert "the pod can be scheduled: 1 of 1 nodes fit" in invoke("-f", str(file), "--from", str(dumped)).stdout
    file.write_text(file.read_text().replace("{containers", "{nodeSelector: {disk: ssd}, containers"))
    done = invoke("-f", str(file), "--from", str(dumped))
    assert f"kubectl patch --local -f {file} --type=json" in done.stdout


def test_the_rest_of_a_file_is_there_too(dumped: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {priorityClassName: high,"
        " containers: [{name: c, image: i}], volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}\n"
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
        "spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
        "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n"
        "provisioner: x.example.com\nvolumeBindingMode: WaitForFirstConsumer\n"
        "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n"
    )
    done = invoke("-f", str(file), "--from", str(dumped), "-n", "shop")
    assert done.stdout.startswith("pod shop/new: the pod can be scheduled: 1 of 1 nodes fit")


def test_a_file_without_a_pod_is_reported(dumped: Path, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 5}\n")
    done = invoke("-f", str(file), "--from", str(dumped))
    assert done.exit_code == 1
    assert "two.yaml has no pod or workload that can be read" in done.stderr
    assert "two.yaml:1: not read: spec.containers: expected an array, got the number 5" in done.stderr
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: '', wrong: 1, containers: []}\n")
    assert 'unknown field "spec.wrong" is ignored' in invoke("-f", str(file), "--from", str(dumped)).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pod", "default/wed"], "did you mean web?"),
        (["pod", "other/web"], "there is one in default"),
        (["web", "--watch"], "--watch needs a live cluster"),
        (["pod", "a/web", "-n", "b"], "the namespace is a or b, not both"),
        (["web", "--data-dir", "/nowhere"], "--from and --data-dir name different clusters: choose one"),
        (["web", "--scheduler-config", "/nowhere"], "does not exist"),
    ],
    ids=["a near name", "another namespace", "watching a dump", "two namespaces", "two sources", "no such file"],
)
def test_a_wrong_call_is_reported_in_a_sentence(dumped: Path, words: list[str], message: str) -> None:
    done = invoke(*words, "--from", str(dumped))
    assert done.exit_code in (1, 2)
    assert message in done.stderr


def test_a_scheduler_of_another_configuration_decides(dumped: Path, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}\n"
    )
    done = invoke("web", "--from", str(dumped), "--scheduler-config", str(config))
    assert "the pod can be scheduled" in done.stdout


@pytest.mark.req("5500.14")
def test_a_scheduler_that_would_not_start_decides_nothing(dumped: Path, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {preferredDuringScheduling"
        "IgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Like}]}}]}}}]}]"
    )
    done = invoke("web", "--from", str(dumped), "--scheduler-config", str(config))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {config}: arguments of the scheduler plugin NodeAffinity: addedAffinity.")
    assert 'Invalid value: "Like": not a valid selector operator' in done.stderr


# -- a dump of a real cluster


def test_a_dump_of_recorded_objects_is_explained(tmp_path: Path) -> None:
    """The answers of a real API server, put together as `kubectl get -A -o json` does."""
    items: list[dict[str, Any]] = []
    for line in RECORDED.read_text().splitlines():
        answer = json.loads(line)["response"]
        body = answer.get("body")
        if answer.get("code") == 201 and isinstance(body, dict) and body.get("kind"):
            name = f"{body['metadata'].get('name', 'x')}-{len(items)}"
            items.append({**body, "metadata": {**body["metadata"], "name": name, "uid": f"uid-{len(items)}"}})
    nodes = [each for each in items if each["kind"] == "Node"]
    assert len(nodes) == 2
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = dump([file])
    assert len(snapshot.raw()) == len(items)
    waiting = [each for each in items if each["kind"] == "Pod" and not each["spec"].get("nodeName")]
    assert len(waiting) > 40
    for each in waiting:
        metadata = each["metadata"]
        found = explain(snapshot, find_subject(snapshot, "pod", metadata["namespace"], metadata["name"]), suggestions=1)
        assert found.total_nodes == 2
        assert found.state in ("Unschedulable", "NotAttempted", "Schedulable")
        assert found.state == "Schedulable" or found.refusals or found.summary


# -- parts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2, 3]}}),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}),
        ({"a": [1, 2]}, {"a": [3]}),
        ({"a/b~c": 1}, {"d": None}),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 5}]}),
        ({"a": [1, 2, 3, 4]}, {"a": [2]}),
    ],
)
def test_a_patch_makes_one_tree_of_the_other(before: Any, after: Any) -> None:
    assert apply(diff_json(before, after), before) == after


def test_five_thousand_nodes_take_seconds() -> None:
    nodes = [node(f"n{number}", taints=[f"sla={number % 50}:NoSchedule"]) for number in range(5000)]
    pods = [pod(f"p{number}", on=f"n{number}", cpu="3") for number in range(5000)]
    wanted = pod("web", cpu="2", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "60"}]})
    snapshot = cluster(*nodes, *pods)
    began = time.process_time()
    found = explain(snapshot, wanted)
    assert time.process_time() - began < 5  # half a second where nothing else runs
    assert sum(each.count for each in found.refusals) == 5000
    assert len(found.refusals) == 50
    assert found.suggestions[0].summary.startswith("lower the bound of the toleration `sla Gt 60` to 48, and")
