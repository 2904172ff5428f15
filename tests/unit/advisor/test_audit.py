"""What an audit says about one object at a time, and how questions, steps and reports are put."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.advisor.audit import Audit, Effect, Finding, QuestionError, ask, audit, reports
from mooring.advisor.audit.admission_checks import GatedUseFinder
from mooring.advisor.audit.options import component_of_dump, component_of_server
from mooring.advisor.snapshot import Snapshot, dump
from mooring.api.apps_v1 import Deployment, ReplicaSet
from mooring.base import component
from mooring.base.known_gates import (
    CEL,
    COMPARISON_OPERATORS,
    LABEL_KEYS_IN_POD_AFFINITY,
    POD_LEVEL_RESOURCES,
    SEMVER_OPERATORS,
)
from mooring.cli.main import mooring
from mooring.scheduler.running.options import read as read_scheduler_config
from mooring.testing import builders

pytestmark = [pytest.mark.req("S.5"), pytest.mark.req("5471.12")]
RECORDED = Path(__file__).parents[2] / "conformance" / "data" / "api"
Tree = dict[str, Any]
LABELS = {"app": "x"}


def snapshot_of(*trees: Tree, folder: Path) -> Snapshot:
    (folder / "objects.yaml").write_text("---\n".join(map(yaml.safe_dump, trees)))
    return dump([folder / "objects.yaml"])


def thing(api_version: str, kind: str, *, stored: bool = True, namespace: str = "shop", **parts: Any) -> Tree:
    metadata: Tree = {"name": "it", **parts.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    if stored:
        metadata |= {"uid": "uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def spec(**parts: Any) -> Tree:
    return {"containers": [{"name": "c", "image": "c"}], **parts}


def template(**parts: Any) -> Tree:
    return {"metadata": {"labels": LABELS}, "spec": spec(**parts)}


def deployment(*, stored: bool = True, kind: str = "Deployment", replicas: int = 1, **parts: Any) -> Tree:
    body = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(**parts)}
    return thing("apps/v1", kind, stored=stored, spec=body)


def node(name: str, taint: str = "", effect: str = "NoSchedule", **labels: str) -> Tree:
    key, _, value = taint.partition("=")
    taints = [{"key": key, "value": value, "effect": effect}] if taint else []
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return thing("v1", "Node", namespace="", metadata=metadata, spec={"taints": taints})


def required(**term: Any) -> Tree:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


GT = {"key": "sla", "operator": "Gt", "value": "900"}
KEYS = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": LABELS}, "matchLabelKeys": ["rev"]}
        ]
    }
}
CLAIM = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [GT]}}]}}


def volume(**term: Any) -> Tree:
    body = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return thing("v1", "PersistentVolume", namespace="", spec=body)


@dataclass(frozen=True)
class Case:
    id: str
    objects: tuple[Tree, ...]
    question: dict[str, Any]
    effect: Effect | None
    message: str = ""
    current: dict[str, Any] = field(default_factory=dict)


OFF: dict[str, Any] = {"disable": [COMPARISON_OPERATORS]}
AT_132: dict[str, Any] = {"emulation": "1.32"}
VAC = thing("storage.k8s.io/v1beta1", "VolumeAttributesClass", namespace="", driverName="d")
CASES = (
    Case(
        "a template", (deployment(tolerations=[GT]),), OFF, Effect.CREATE_REJECTED, "new pods are refused: spec.toler"
    ),
    Case(
        "a manifest of a template",
        (deployment(stored=False, tolerations=[GT]),),
        OFF,
        Effect.CREATE_REJECTED,
        "it is refused: spec.template.spec.tolerations[0].operator",
    ),
    Case(
        "an old revision",
        (
            {
                **(old := deployment(kind="ReplicaSet", replicas=0, tolerations=[GT])),
                "metadata": {
                    **old["metadata"],
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
                    ],
                },
            },
        ),
        OFF,
        Effect.FINISHED,
        "an old revision of Deployment d",
    ),
    Case(
        "a Job that has ended",
        (
            thing(
                "batch/v1",
                "Job",
                spec={"template": {"spec": spec(tolerations=[GT], restartPolicy="Never")}},
                status={"conditions": [{"type": "Complete", "status": "True"}]},
            ),
        ),
        OFF,
        Effect.FINISHED,
        "the Job has ended",
    ),
    Case(
        "a CronJob",
        (
            thing(
                "batch/v1",
                "CronJob",
                spec={
                    "schedule": "0 3 * * *",
                    "jobTemplate": {"spec": {"template": {"spec": spec(tolerations=[GT], restartPolicy="Never")}}},
                },
            ),
        ),
        OFF,
        Effect.CREATE_REJECTED,
        "new Jobs are refused",
    ),
    Case("a claim", (thing("resource.k8s.io/v1", "ResourceClaim", spec=CLAIM),), OFF, Effect.KEPT, "may be updated"),
    Case(
        "a claim template",
        (thing("resource.k8s.io/v1", "ResourceClaimTemplate", spec={"spec": CLAIM}),),
        OFF,
        Effect.CREATE_REJECTED,
        "new claims are refused",
    ),
    Case(
        "a volume that no node matches any more",
        (volume(matchCELExpressions=["'gpu' in node.labels"]), node("a", gpu="")),
        {"disable": [CEL]},
        Effect.NEVER_MATCHES,
        "1 nodes can use the volume now, and then none",
    ),
    Case(
        "a volume that no node matches now",
        (volume(matchCELExpressions=["'gpu' in node.labels"]), node("a")),
        {"disable": [CEL]},
        Effect.KEPT,
    ),
    Case(
        "label keys of a template",
        (deployment(affinity=KEYS),),
        {"disable": [LABEL_KEYS_IN_POD_AFFINITY]},
        Effect.FIELD_DROPPED,
        "new pods are accepted without this field",
        AT_132,
    ),
    Case(
        "what is off already",
        (deployment(tolerations=[GT]),),
        {"to_emulation": "1.35"},
        Effect.ALREADY_OFF,
        "refused now as well",
        {"emulation": "1.36"},
    ),
    Case(
        "a function that came later",
        (deployment(tolerations=[{"expression": "[1].includes(int(taint.value))"}]),),
        {"to_min_compatibility": "1.36"},
        Effect.CREATE_REJECTED,
        "undeclared reference to 'includes'",
        {"min_compatibility": "1.37"},
    ),
    Case(
        "a field that came later",
        (deployment(hostnameOverride="x"),),
        {"to_min_compatibility": "1.33"},
        Effect.CREATE_REJECTED,
        "may not be set while the minimum compatibility version",
    ),
    Case(
        "an API version that is removed on the way up",
        (VAC,),
        {"to_emulation": "1.37", "runtime_config": {"storage.k8s.io/v1beta1": True}, "to_runtime_config": {}},
        Effect.NOT_SERVED,
        "can be reached as storage.k8s.io/v1",
        {"emulation": "1.36"},
    ),
    Case(
        "an API version that an older release does not have",
        (thing("storage.k8s.io/v1", "VolumeAttributesClass", namespace="", driverName="d"),),
        {"to_emulation": "1.33"},
        Effect.NOT_SERVED,
        "unless --runtime-config switches storage.k8s.io/v1beta1 on",
    ),
    Case(
        "a stored version that an older release cannot read",
        (thing("resource.k8s.io/v1", "DeviceClass", namespace=""),),
        {"to_min_compatibility": "1.33"},
        Effect.STORED_UNREADABLE,
        "stored as resource.k8s.io/v1, which 1.33 cannot read; written again, it is stored as resource.k8s.io/v1beta1",
    ),
    Case(
        "a kind that an older release does not know",
        (thing("resource.k8s.io/v1", "DeviceClass", namespace=""),),
        {"to_min_compatibility": "1.31"},
        Effect.STORED_UNREADABLE,
        "no version of the kind is known there",
    ),
    Case(
        "a kind that only Kubernetes has and removes",
        (thing("storage.k8s.io/v1alpha1", "VolumeAttributesClass", namespace="", driverName="d.example"),),
        {"to_emulation": "1.35"},
        Effect.NOT_SERVED,
        "is removed in 1.35; use storage.k8s.io/v1",
        {"emulation": "1.34"},
    ),
    Case(
        "a gate that is forced on below the version that one could go back to",
        (deployment(tolerations=[GT]),),
        {"to_min_compatibility": "1.34", "enable": [COMPARISON_OPERATORS]},
        Effect.STORED_UNREADABLE,
        "the gate is forced on: servers of 1.34 cannot read this",
    ),
    Case("what nobody decides about", (deployment(),), OFF, None),
    Case("a kind that Mooring does not have", (thing("example.com/v1", "Widget", spec={"operator": "Gt"}),), OFF, None),
)


def evaluated(case: Case, folder: Path) -> list[Finding]:
    question = ask(component.resolve(**case.current), **case.question)
    found = audit(snapshot_of(*case.objects, folder=folder), question).findings
    return [finding for finding in found if finding.effect is not Effect.UNAFFECTED]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_happens_to_an_object(case: Case, tmp_path: Path) -> None:
    found = evaluated(case, tmp_path)
    assert {finding.effect for finding in found} == ({case.effect} if case.effect else set())
    assert all(case.message in finding.message for finding in found)


def test_of_a_daemon_set_it_is_not_said_that_its_controller_tries_again(tmp_path: Path) -> None:
    tolerations = [{"key": "sla", "operator": "Gt", "value": "950"}]
    daemon_set = deployment(kind="DaemonSet", tolerations=tolerations)
    question = ask(component.resolve(), disable=["TaintTolerationComparisonOperators"])
    (found,) = audit(snapshot_of(daemon_set, folder=tmp_path), question).findings
    assert found.message.startswith("no pods are made where its tolerations no longer match")
    assert "again and again" not in found.message


def test_the_manifest_that_was_applied_counts(tmp_path: Path) -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"apiVersion": "storage.k8s.io/v1beta1"})}
    tree = thing(
        "storage.k8s.io/v1", "VolumeAttributesClass", namespace="", driverName="d", metadata={"annotations": applied}
    )
    question = ask(
        component.resolve(emulation="1.36"),
        to_emulation="1.37",
        runtime_config={"storage.k8s.io/v1beta1": True},
        to_runtime_config={},
    )
    (finding,) = audit(snapshot_of(tree, folder=tmp_path), question).findings
    assert finding.effect is Effect.NOT_SERVED
    assert finding.value == "storage.k8s.io/v1beta1"


# -- devices


def test_pods_are_evicted_from_devices_too(tmp_path: Path) -> None:
    device = {"name": "gpu-0", "taints": [{"key": "sla", "value": "950", "effect": "NoExecute"}]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slices = thing(
        "resource.k8s.io/v1",
        "ResourceSlice",
        namespace="",
        spec={"driver": "d.example", "pool": pool, "nodeName": "gpu-node", "devices": [device]},
    )
    result = {"request": "a", "driver": "d.example", "pool": "p", "device": "gpu-0", "tolerations": [GT]}
    claim = thing(
        "resource.k8s.io/v1",
        "ResourceClaim",
        spec=CLAIM,
        status={
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "it", "uid": "uid"}],
        },
    )
    pod = thing(
        "v1",
        "Pod",
        spec=spec(nodeName="gpu-node", resourceClaims=[{"name": "a", "resourceClaimName": "it"}]),
        status={"phase": "Running"},
    )
    found = audit(
        snapshot_of(pod, claim, slices, node("gpu-node"), folder=tmp_path), ask(component.resolve(), **OFF)
    ).findings
    effects = {(finding.object.kind, finding.effect) for finding in found if finding.effect is not Effect.UNAFFECTED}
    assert effects == {("ResourceClaim", Effect.KEPT), ("Pod", Effect.EVICTED)}


# -- scheduler configuration

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: special
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchCELExpressions: ["'gpu' in node.labels"]
"""


@pytest.mark.req("5500.14")
def test_added_affinity_is_audited(tmp_path: Path) -> None:
    profiles = read_scheduler_config(CONFIG).profiles
    snapshot = snapshot_of(node("a", gpu=""), node("b"), folder=tmp_path)
    (finding,) = audit(snapshot, ask(component.resolve(), disable=[CEL]), profiles=profiles).findings
    assert finding.effect is Effect.NEVER_MATCHES
    assert finding.object.name == "special"
    assert finding.field.startswith("profiles[0].pluginConfig[NodeAffinity].args.addedAffinity.required")
    assert "1 of 2 nodes are left to all pods of the profile now, and then 0" in finding.message


# -- questions


def test_nothing_asked_is_an_inventory() -> None:
    assert ask(component.resolve()).target is None


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"disable": ["Nothing"]}, "unrecognized feature gate: Nothing"),
        ({"disable": [LABEL_KEYS_IN_POD_AFFINITY]}, "feature is locked to true"),
        ({"to_emulation": "1.20"}, "1.27 to 1.37"),
        ({"to_emulation": "soon"}, "is not a version"),
        ({"to_min_compatibility": "1.38"}, "out of range"),
        ({"disable": ["MatchLabelKeysInPodTopologySpread"]}, "depends on features that are disabled"),
    ],
    ids=["no gate", "a locked gate", "too old", "no version", "too new", "a gate that another needs"],
)
def test_an_impossible_question_is_refused(question: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        ask(component.resolve(), **question)


def test_a_gate_that_cannot_stay_is_reported() -> None:
    current = component.resolve(gates="MutablePVNodeAffinity=true")
    question = ask(current, to_emulation="1.36")
    assert "--feature-gates=MutablePVNodeAffinity=true has to go" in question.notes[0]
    assert question.target is not None
    assert not question.target.gates.enabled("MutablePVNodeAffinity")


def test_a_gate_that_does_not_exist_there_is_off_anyway() -> None:
    question = ask(component.resolve(), to_emulation="1.34", disable=[COMPARISON_OPERATORS])
    assert "does not exist at 1.34" in question.notes[0]


def test_a_chosen_compatibility_is_kept_and_a_default_follows() -> None:
    followed = ask(component.resolve(), to_emulation="1.35").target
    assert followed is not None
    assert str(followed.versions.min_compatibility) == "1.34"
    kept = ask(component.resolve(min_compatibility="1.33"), to_emulation="1.35").target
    assert kept is not None
    assert str(kept.versions.min_compatibility) == "1.33"


def test_a_server_of_another_version_is_taken_as_the_nearest() -> None:
    found, notes = component_of_server({"major": "1", "minor": "26+"}, {})
    assert str(found.versions.emulation) == "1.27"
    assert "1.26; it is treated as 1.27" in notes[0]
    assert "does not show its feature gates" in notes[1]


def test_gates_that_a_server_shows_count() -> None:
    shown = {name: state.enabled for name, state in component.resolve().gates.states.items()}
    found, notes = component_of_server(
        {"major": "1", "minor": "37"}, {**shown, COMPARISON_OPERATORS: False, "Unknown": True}
    )
    assert not found.gates.enabled(COMPARISON_OPERATORS)
    assert found.gates.enabled(SEMVER_OPERATORS)
    assert notes == ()


@pytest.mark.req("U.4")
def test_a_gate_that_a_server_does_not_show_is_off_unless_it_is_locked() -> None:
    """Kubernetes 1.37 shows KEP-5471's gate, off, and knows nothing of KEP-5721 and KEP-5500."""
    stock = {COMPARISON_OPERATORS: False, POD_LEVEL_RESOURCES: True}
    found, notes = component_of_server({"major": "1", "minor": "37", "goVersion": "go1.26.0"}, stock)
    states = found.gates.states
    assert states[LABEL_KEYS_IN_POD_AFFINITY].locked
    on = {name for name, state in states.items() if state.enabled}
    assert on == {POD_LEVEL_RESOURCES} | {name for name, state in states.items() if state.locked}
    assert len(notes) == 1
    assert SEMVER_OPERATORS in notes[0]
    assert CEL in notes[0]
    assert "not shown, so they count as off" in notes[0]


@pytest.mark.req("U.4")
@pytest.mark.parametrize(
    ("language", "on"), [("go1.26.0", False), ("python3.13.1", True)], ids=["Kubernetes", "Mooring"]
)
def test_without_metrics_the_defaults_of_the_server_s_make_count(language: str, on: bool) -> None:
    found, notes = component_of_server({"major": "1", "minor": "37", "goVersion": language}, {})
    assert [found.gates.enabled(name) for name in (COMPARISON_OPERATORS, SEMVER_OPERATORS, CEL)] == [on] * 3
    assert found.gates.enabled(POD_LEVEL_RESOURCES)
    assert "does not show its feature gates" in notes[0]


@pytest.mark.req("U.4")
def test_a_dump_is_taken_as_kubernetes_of_its_newest_kubelet() -> None:
    found, notes = component_of_dump(["v1.34.1+k3s1", "v1.35.0", "", "odd"])
    assert str(found.versions.emulation) == "1.35"
    assert "taken as Kubernetes 1.35" in notes[0]
    found, notes = component_of_dump([])
    assert str(found.versions.emulation) == "1.37"
    assert not found.gates.enabled(SEMVER_OPERATORS)
    assert not found.gates.enabled(CEL)


# -- steps


def steps_of(*objects: Tree, folder: Path, current: dict[str, Any] | None = None, **question: Any) -> Audit:
    return audit(snapshot_of(*objects, folder=folder), ask(component.resolve(**current or {}), **question))


def patched(found: Audit) -> list[dict[str, Any]]:
    """Return the operations of the first patch that is advised."""
    command = next(c.run for step in found.steps for c in step.commands if " patch " in c.run)
    operations: list[dict[str, Any]] = json.loads(shlex.split(command)[-1])
    return operations


def test_a_number_becomes_the_values_that_there_are(tmp_path: Path) -> None:
    nodes = (node("a", "sla=950"), node("b", "sla=990"), node("c", "sla=800"), node("d", "sla=high"))
    found = steps_of(deployment(tolerations=[GT, {"operator": "Exists", "key": "k"}]), *nodes, folder=tmp_path, **OFF)
    check, change = patched(found)
    assert check["op"] == "test"
    assert change["path"] == "/spec/template/spec/tolerations"
    assert change["value"] == [
        {"key": "sla", "operator": "Equal", "value": "950"},
        {"key": "sla", "operator": "Equal", "value": "990"},
        {"key": "k", "operator": "Exists"},
    ]


def test_an_expression_becomes_the_taints_that_it_tolerates(tmp_path: Path) -> None:
    toleration = {"expression": "taint.key == 'sla' && int(taint.value) > 900", "tolerationSeconds": 9}
    nodes = (node("a", "sla=950", "NoExecute"), node("b", "sla=960"), node("c", "sla=800"))
    found = steps_of(deployment(tolerations=[toleration]), *nodes, folder=tmp_path, disable=[CEL])
    assert patched(found)[1]["value"] == [
        {"key": "sla", "operator": "Equal", "value": "950", "effect": "NoExecute", "tolerationSeconds": 9},
        {"key": "sla", "operator": "Equal", "value": "960", "effect": "NoSchedule"},
    ]


def test_a_version_becomes_the_labels_that_there_are(tmp_path: Path) -> None:
    term = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
    nodes = (node("a", kernel="6.1.0"), node("b", kernel="5.4.0"), node("c", kernel="custom"))
    found = steps_of(deployment(affinity=required(**term)), *nodes, folder=tmp_path, disable=[SEMVER_OPERATORS])
    change = patched(found)[1]["value"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    assert change == {"matchExpressions": [{"key": "kernel", "operator": "In", "values": ["6.1.0"]}]}


@pytest.mark.parametrize(
    ("nodes", "names"),
    [((node("a", gpu=""), node("b")), ["a"]), ((node("b"),), ["no-node-matched"])],
    ids=["the nodes that it chooses", "none is not every"],
)
def test_an_expression_becomes_names_of_nodes(nodes: tuple[Tree, ...], names: list[str], tmp_path: Path) -> None:
    affinity = required(matchCELExpressions=["'gpu' in node.labels"])
    found = steps_of(deployment(affinity=affinity), *nodes, folder=tmp_path, disable=[CEL])
    change = patched(found)[1]["value"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    assert change == {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}


@pytest.mark.parametrize(
    ("tree", "question", "current", "why"),
    [
        (
            thing("batch/v1", "Job", spec={"template": {"spec": spec(tolerations=[GT], restartPolicy="Never")}}),
            OFF,
            {},
            "the template of a Job cannot be changed",
        ),
        (deployment(affinity=KEYS), {"disable": [LABEL_KEYS_IN_POD_AFFINITY]}, AT_132, "no patch says the same"),
        (deployment(hostnameOverride="x"), {"to_min_compatibility": "1.33"}, {}, "no patch says the same"),
        (
            thing("resource.k8s.io/v1", "ResourceClaimTemplate", spec={"spec": CLAIM}),
            OFF,
            {},
            "its spec cannot be changed",
        ),
    ],
    ids=["a Job", "label keys", "a newer field", "a claim template"],
)
def test_what_no_patch_can_do_is_left_to_people(
    tree: Tree, question: dict[str, Any], current: dict[str, Any], why: str, tmp_path: Path
) -> None:
    found = steps_of(tree, folder=tmp_path, current=current, **question)
    commands = [command for step in found.steps for command in step.commands if not command.ready]
    assert [why in command.why for command in commands] == [True]


@pytest.mark.req("4330.13")
@pytest.mark.parametrize(
    ("question", "current", "order", "because"),
    [
        (OFF, {}, ["scheduler", "controllers", "apiserver"], "Disable feature gate in kube-scheduler first"),
        (
            {"enable": [COMPARISON_OPERATORS]},
            {"gates": f"{COMPARISON_OPERATORS}=false"},
            ["apiserver", "controllers", "scheduler"],
            "Enable the feature gate in kube-apiserver first then kube-scheduler",
        ),
        (
            {"to_emulation": "1.37"},
            {"emulation": "1.36"},
            ["apiserver", "controllers", "scheduler"],
            "Enable the feature gate in kube-apiserver first",
        ),
        (
            {"disable": [LABEL_KEYS_IN_POD_AFFINITY]},
            AT_132,
            ["apiserver"],
            "by restarting kube-apiserver the feature-gate off",
        ),
        (
            {"to_emulation": "1.35"},
            {"emulation": "1.36"},
            ["scheduler", "controllers", "apiserver"],
            "For each control plane component",
        ),
    ],
    ids=["off", "on", "up", "only the server", "down without a gate of a proposal"],
)
def test_components_are_restarted_in_the_proposals_order(
    question: dict[str, Any], current: dict[str, Any], order: list[str], because: str, tmp_path: Path
) -> None:
    found = steps_of(node("a"), folder=tmp_path, current=current, **question)
    restarts = [step for step in found.steps if step.title.startswith("Restart")]
    assert [step.commands[0].run.split()[1] for step in restarts] == order
    assert because in restarts[0].because


def test_what_is_stored_is_written_again_after_the_restart(tmp_path: Path) -> None:
    tree = thing("resource.k8s.io/v1", "DeviceClass", namespace="")
    found = steps_of(tree, folder=tmp_path, to_min_compatibility="1.33")
    assert found.steps[-1].commands[0].run == (
        "kubectl get deviceclasses.resource.k8s.io -o json | kubectl replace -f -"
    )


# -- reports and the command


def run(*words: str) -> Result:
    return CliRunner().invoke(mooring, ["audit", *words])


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    snapshot_of(deployment(tolerations=[GT]), node("a", "sla=950"), folder=tmp_path)
    return str(tmp_path / "objects.yaml")


def test_sarif_names_the_rule_and_the_place(cluster: str) -> None:
    result = run("--from", cluster, "--disable-gate", COMPARISON_OPERATORS, "-o", "sarif")
    assert result.exit_code == 1
    (one,) = json.loads(result.stdout)["runs"]
    assert one["tool"]["driver"]["name"] == "mooring audit"
    (found,) = one["results"]
    assert (found["ruleId"], found["level"]) == ("A001", "error")
    assert one["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "A001"
    location = found["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"].endswith("objects.yaml")
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "Deployment shop/it"


def test_json_and_yaml_are_the_same_result(cluster: str) -> None:
    asked = ("--from", cluster, "--to-emulation-version", "1.36")
    as_json = json.loads(run(*asked, "-o", "json").stdout)
    assert as_json == yaml.safe_load(run(*asked, "-o", "yaml").stdout)
    assert (as_json["apiVersion"], as_json["kind"]) == ("advisor.mooring.dev/v1", "Audit")
    assert as_json["findings"][0]["effect"] == "CreateRejected"


WRONG = {
    "an unknown gate": (("--disable-gate", "X"), 2, "unrecognized feature gate: X"),
    "a version out of range": (("--to-emulation-version", "1.20"), 2, "out of range"),
    "a rehearsal of nothing": (("--rehearse",), 2, "needs a change"),
    "a wrong runtime configuration": (("--to-runtime-config", "=x"), 2, "names no API"),
    "an unknown API": (("--to-runtime-config", "nothing/v1=true"), 2, "nothing/v1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_reported_in_a_sentence(name: str, cluster: str) -> None:
    words, code, text = WRONG[name]
    result = run("--from", cluster, *words)
    assert (result.exit_code, text in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_exit_codes(cluster: str) -> None:
    assert run("--from", cluster).exit_code == 0
    assert run("--from", cluster, "--disable-gate", CEL).exit_code == 0
    assert run("--from", cluster, "--disable-gate", COMPARISON_OPERATORS).exit_code == 1
    assert run("--from", "/nowhere").exit_code == 2


def test_control_characters_are_shown(tmp_path: Path) -> None:
    tree = deployment(tolerations=[{"expression": "taint.key == '\x1b[31m'"}])
    snapshot = snapshot_of(tree, folder=tmp_path)
    text = "\n".join(reports.format_lines(audit(snapshot, ask(component.resolve())), lambda word, _: word, wide=True))
    assert "\x1b" not in text
    assert "\\x1b" in text


# -- a dump of a real cluster


def test_a_dump_of_recorded_answers_is_audited(tmp_path: Path) -> None:
    """What a real API server answered to creations, put together as `kubectl get -A -o json` does."""
    items: list[Tree] = []
    for file in sorted(RECORDED.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            recorded = json.loads(line)
            body = recorded.get("response", {}).get("body")
            if recorded.get("response", {}).get("code") == 201 and isinstance(body, dict) and body.get("metadata"):
                name = f"{body['metadata'].get('name', 'x')[:40]}-{len(items)}"
                items.append({**body, "metadata": {**body["metadata"], "name": name, "uid": f"uid-{len(items)}"}})
    assert len(items) > 70
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = dump([tmp_path / "cluster.json"])
    using = {
        n for n, item in enumerate(items) if '"operator": "Gt"' in json.dumps(item.get("spec", {}).get("tolerations"))
    }
    found = audit(snapshot, ask(component.resolve(), to_emulation="1.33"))
    assert found.objects == len(items)
    names = {f.object.name for f in found.findings if f.feature == COMPARISON_OPERATORS}
    assert {items[n]["metadata"]["name"] for n in using if items[n]["kind"] == "Pod"} <= names


def test_an_object_that_mooring_fails_on_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = GatedUseFinder.find

    def find(self: GatedUseFinder, obj: Any) -> Any:
        if obj.metadata.name == "bad":
            raise RuntimeError("a mistake of ours")
        return real(self, obj)

    monkeypatch.setattr(GatedUseFinder, "find", find)
    good, bad = deployment(tolerations=[GT]), deployment()
    bad["metadata"] = {**bad["metadata"], "name": "bad"}
    found = audit(snapshot_of(bad, good, folder=tmp_path), ask(component.resolve()))
    assert [finding.object.name for finding in found.findings] == ["it"]
    assert found.notes == [
        "Deployment shop/bad: not checked: Mooring failed: RuntimeError: a mistake of ours; please report it"
    ]


def test_what_may_not_be_read_is_not_said_to_be_well() -> None:
    closed = Snapshot("a test", missing={"pods": "not allowed: by nobody", "jobs": "the server does not serve them"})
    inventory = audit(closed, ask(component.resolve()))
    found = audit(closed, ask(component.resolve(), disable=[COMPARISON_OPERATORS]))
    assert inventory.unread == found.unread == ["pods"]
    assert reports.format_summary(inventory) == "0 uses in 0 of 0 objects; not looked at, for want of rights: pods"
    assert reports.format_summary(found).startswith("nothing breaks of what could be read; 0 use")


@pytest.mark.req("X.10")
@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        pytest.param("2", [], id="what is there may come again where nothing is left"),
        pytest.param("1", ["a", "b"], id="a limit that was lowered keeps out what goes"),
    ],
)
def test_what_a_quota_would_not_let_come_again_is_noted(limit: str, refused: list[str], tmp_path: Path) -> None:
    pods = [thing("v1", "Pod", metadata={"name": name}, spec=spec()) for name in ("a", "b")]
    elsewhere = thing("v1", "Pod", namespace="other", spec=spec())
    status = {"hard": {"pods": limit}, "used": {"pods": "2"}}
    quota = thing("v1", "ResourceQuota", spec={"hard": {"pods": limit}}, status=status)
    notes = audit(snapshot_of(*pods, elsewhere, quota, folder=tmp_path), ask(component.resolve())).notes
    why = f"exceeded quota: it, requested: pods=1, used: pods=1, limited: pods={limit}"
    reported = [note for note in notes if "would be refused if it were created again" in note]
    assert [name for name in ("a", "b") if any(f"shop/{name}" in note and why in note for note in reported)] == refused
    assert len(reported) == len(refused)


def test_pods_that_the_rollout_of_a_patched_workload_replaces_are_not_patched() -> None:
    """`sh -e` would stop at a pod that the step before has replaced."""
    toleration = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
    body = {"tolerations": [toleration], "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": body}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    owners = {
        kind: [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]
        for kind, name in (("Deployment", "web"), ("ReplicaSet", "web-1"))
    }
    meta = {"name": "web-1", "namespace": "default", "uid": "uid-web-1", "ownerReferences": owners["Deployment"]}
    objects = [
        builders.node("a", taints=["sla=950:NoExecute"]),
        builders.made(
            Deployment, {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": spec}
        ),
        builders.made(ReplicaSet, {"metadata": meta, "spec": spec}),
        builders.pod("web-1-a", on="a", spec=body, metadata={"ownerReferences": owners["ReplicaSet"]}),
        builders.pod("alone", on="a", spec=body),
    ]
    question = ask(component.resolve(), disable=["TaintTolerationComparisonOperators"])
    commands = [each.run for step in audit(Snapshot("the test", objects), question).steps for each in step.commands]
    patched = [run.split()[4:6] for run in commands if run.startswith("kubectl patch")]
    assert patched == [["deployment", "web"], ["pod", "alone"]]
