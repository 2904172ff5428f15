"""`mooring explain` on a running control plane: its first suggestion is typed into a shell, and the pod gets a node."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from eventually import eventually
from kubectl_caller import KUBECTL, Kubectl
from mooring.cli.commands.explain import explain
from mooring.cli.main import mooring
from running_up import RunningUp, running_up

pytestmark = [pytest.mark.req("S.5"), pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")]

EXPLAIN = [sys.executable, "-m", "mooring", "explain"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    with running_up("--data-dir", str(tmp_path_factory.mktemp("up")), "--nodes", "3", "--single-process") as running:
        taints = partial(Kubectl(running.kubeconfig), "get", "nodes", "-o", "jsonpath={..taints}")
        eventually(lambda: taints() == "")  # right after the start they are not ready, and no one change helps a pod
        yield running


@pytest.fixture
def kubectl(plane: RunningUp) -> Kubectl:
    return Kubectl(plane.kubeconfig)


def explained(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(explain, [*words, "-o", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pod(name: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", **(container or {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def deployment(name: str, container: dict[str, Any] | None = None, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, container, **spec)["spec"]}
    made = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": made}


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
}
GENERATION = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["5"]}]}]
        }
    }
}


TOKENS = (
    "kubectl get nodes -o name | while read n; do kubectl patch $n --subresource=status --type=merge -p"
    """ '{"status":{"capacity":{"example.com/tokens":"9"},"allocatable":{"example.com/tokens":"9"}}}'; done"""
)


@dataclass(frozen=True)
class Case:
    name: str
    subject: str
    objects: list[dict[str, Any]]
    suggestion: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


CASES = [
    Case(
        "a pod that wants a label gets a node with it",
        "pod/labelled",
        [pod("labelled", nodeSelector={"disk": "ssd"})],
        "label node node-",
    ),
    Case(
        "a gated pod is let through",
        "pod/gated",
        [pod("gated", schedulingGates=[{"name": "example.com/quota"}])],
        "remove the scheduling gate example.com/quota",
    ),
    Case(
        "a pod that asks for too much is made again with less",
        "pod/hungry",
        [pod("hungry", {"resources": {"requests": {"memory": "900Gi"}}})],
        "lower container main's request for memory from 900Gi to",
    ),
    Case(
        "a deployment lowers its bound",
        "deployment/young",
        [deployment("young", affinity=GENERATION)],
        "lower the bound of `gen Gt 5` to 3",
        before=["kubectl label nodes --all gen=4"],
        after=["kubectl label nodes --all gen-"],
    ),
    Case(
        "a claim without a volume gets one",
        "pod/stateful",
        [CLAIM, pod("stateful", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])],
        "create a PersistentVolume of 1Gi for claim default/data",
    ),
    Case(
        "a cordoned node is uncordoned",
        "pod/patient",
        [pod("patient")],
        "uncordon node node-",
        before=["kubectl cordon node-0 node-1 node-2"],
        after=["kubectl uncordon node-0 node-1 node-2"],
    ),
    Case(
        "a misspelled label is corrected for all replicas",
        "deployment/typo",
        [deployment("typo", nodeSelector={"kubernetes.io/oss": "linux"}, replicas=3)],
        "correct `kubernetes.io/oss=linux` to `kubernetes.io/os=linux`",
    ),
    Case(
        "a quota is raised",
        "deployment/counted",
        [
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "few"},
                "spec": {"hard": {"count/replicasets.apps": "99", "requests.example.com/tokens": "2"}},
            },
            deployment(
                "counted",
                {"resources": {"requests": {"example.com/tokens": "1"}, "limits": {"example.com/tokens": "1"}}},
                replicas=3,
            ),
        ],
        "raise quota few: requests.example.com/tokens from 2 to 3",
        before=[TOKENS],
        after=["kubectl delete resourcequota few"],
    ),
    Case(
        "a taint is tolerated",
        "pod/tolerant",
        [pod("tolerant", tolerations=[{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}])],
        "lower the bound of the toleration `sla Gt 950` to 939",
        before=["kubectl taint nodes --all sla=940:NoSchedule"],
        after=["kubectl taint nodes --all sla-"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_first_suggestion_gets_the_pod_scheduled(plane: RunningUp, kubectl: Kubectl, case: Case) -> None:
    for line in case.before:
        kubectl.shell(line)
    try:
        kubectl.apply(*case.objects)
        first = waiting(plane, case.subject, case.suggestion)["suggestions"][0]
        for change in first["changes"]:
            kubectl.shell(change["command"])
        eventually(lambda: is_scheduled(kubectl, case.subject))
        assert explained(case.subject, "--kubeconfig", str(plane.kubeconfig))["state"] in ("Scheduled", "Schedulable")
    finally:
        for line in case.after:
            kubectl.shell(line)
        delete(kubectl, case.subject)


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**head, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def claim_of(name: str, of_class: str, mode: str = "ReadWriteOnce") -> dict[str, Any]:
    spec = {"accessModes": [mode], "storageClassName": of_class, "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def using(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
GPU_TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}
WITH_GPU: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
SIMULATED = "simulation.mooring.dev/volumes"

PROVIDER_CASES = [
    Case(
        "an image with a misspelled registry",
        "deployment/misspelled",
        [
            pod("right", {"image": "team/shop:1"}),
            deployment("misspelled", {"image": "shop.invalid/shop:1"}, replicas=2),
        ],
        "correct image shop.invalid/shop:1 to team/shop:1",
    ),
    Case(
        "a rollout to an image that does not exist",
        "deployment/rolled",
        [deployment("rolled", {"image": "rolled:1"}, replicas=3)],
        "roll deployment rolled back to the revision before",
        before=["kubectl rollout status deployment/rolled", "kubectl set image deployment/rolled main=rolled:404"],
    ),
    Case(
        "a driver without devices on simulated nodes",
        "deployment/devices",
        [GPU_CLASS, GPU_TEMPLATE, deployment("devices", replicas=2, **WITH_GPU)],
        "publish 2 devices of driver gpu.example.com on the simulated node node-",
    ),
    Case(
        "a misspelled provisioner",
        "deployment/stored",
        [storage_class("fast", f"{SIMULATED}s"), claim_of("stored", "fast"), deployment("stored", **using("stored"))],
        f"correct provisioner {SIMULATED}s of StorageClass fast to {SIMULATED}",
    ),
    Case(
        "a claim that the old pod of a rollout uses",
        "deployment/single",
        [
            storage_class("single", SIMULATED),
            claim_of("single", "single", "ReadWriteOncePod"),
            deployment("single", **using("single")),
        ],
        "let deployment single replace its pods at once (strategy: Recreate)",
        before=["kubectl rollout status deployment/single", "kubectl set image deployment/single main=single:2"],
    ),
]


@pytest.mark.parametrize("case", PROVIDER_CASES, ids=lambda case: case.name)
def test_what_is_missing_beside_the_api_is_replaced_and_no_other_pod_suffers(
    plane: RunningUp, kubectl: Kubectl, case: Case
) -> None:
    kubectl.apply(*case.objects)
    name = case.subject.partition("/")[2]
    try:
        for line in case.before:
            kubectl.shell(line)
        before = pods_that_run(kubectl, name)
        first = waiting(plane, case.subject, case.suggestion)["suggestions"][0]
        for change in first["changes"]:
            kubectl.shell(change["command"])
        kubectl("rollout", "status", case.subject, "--timeout=40s")
        assert before <= pods_that_run(kubectl, name)
    finally:
        delete(kubectl, case.subject)


def pods_that_run(kubectl: Kubectl, without: str) -> set[str]:
    """Return the names of pods that run, except for those of one workload."""
    found = kubectl("get", "pods", "-A", "--field-selector=status.phase=Running", "-o", "name").split()
    return {each for each in found if f"/{without}-" not in each}


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_the_template_of_a_workload_is_changed(plane: RunningUp, kubectl: Kubectl, kind: str) -> None:
    name = f"some-{kind.lower()}"
    labels = {"app": name}
    spec = {**pod(name)["spec"], "nodeSelector": {"nowhere": "yes"}}
    if kind == "DaemonSet":  # its pods are made where they fit, and then keep waiting for room
        spec = pod(name, {"resources": {"requests": {"memory": "900Gi"}}})["spec"]
    made: dict[str, Any] = {"template": {"metadata": {"labels": labels}, "spec": spec}}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
    else:
        made["selector"] = {"matchLabels": labels}
    api = "batch/v1" if kind == "Job" else "apps/v1"
    subject = f"{kind.lower()}/{name}"
    kubectl.apply({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": made})
    try:
        found = waiting(plane, subject)
        words = "lower container main's request" if kind == "DaemonSet" else "drop the nodeSelector nowhere"
        chosen = next(each for each in found["suggestions"] if each["summary"].startswith(words))
        printed = [kubectl.shell(change["command"]) for change in chosen["changes"]]
        eventually(lambda: is_scheduled(kubectl, subject), 40)
        assert printed
    finally:
        delete(kubectl, subject)


def delete(kubectl: Kubectl, subject: str) -> None:
    """Also the pods of a workload: with a lowered request they take all that their nodes have."""
    kubectl("delete", subject, "--cascade=foreground", "--timeout=40s")


def waiting(plane: RunningUp, subject: str, suggestion: str = "") -> dict[str, Any]:
    """Return the explanation, once controllers and scheduler have seen what it is about.

    A workload whose pods are being created is explained by lists of different moments, so its first suggestion may
    be another one for a while.
    """
    found: dict[str, Any] = {}

    def is_waiting() -> bool:
        found.update(explained(subject, "--kubeconfig", str(plane.kubeconfig)))
        first = next((each["summary"] for each in found["suggestions"]), "")
        is_problem = found["state"] in ("Unschedulable", "NotAttempted", "NotCreated", "NotRunning")
        return is_problem and first.startswith(suggestion)

    eventually(is_waiting)
    return found


def is_scheduled(kubectl: Kubectl, subject: str) -> bool:
    kind, _, name = subject.partition("/")
    which = [name] if kind == "pod" else ["-l", f"app={name}"]
    return "node-" in kubectl("get", "pods", *which, "-o", "jsonpath={..nodeName}", code=None)


def test_watching_ends_when_the_pod_has_a_node(plane: RunningUp, kubectl: Kubectl) -> None:
    kubectl.apply(pod("watched", nodeSelector={"watched": "yes"}))
    command = [*EXPLAIN, "pod", "default/watched", "--watch", "--kubeconfig", str(plane.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert (
            watching.stdout.readline()
            == "pod default/watched: no node has the label `watched` that the pod selects (watched=yes)\n"
        )
        kubectl("label", "node", "node-1", "watched=yes")
        rest = watching.stdout.read()
        assert watching.wait(30) == 0
    assert "pod default/watched: the pod runs on node node-1, the only one that fits" in rest


def test_dumps_and_data_directories_give_the_same_answer(plane: RunningUp, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(pod("dumped", nodeSelector={"there": "not"}))
    dump = tmp_path / "cluster.yaml"
    dump.write_text(kubectl("get", "nodes,pods,namespaces,priorityclasses", "-A", "-o", "yaml"))
    live = explained("pod", "default/dumped", "--kubeconfig", str(plane.kubeconfig))
    dumped = explained("pod", "default/dumped", "--from", str(dump))
    stored = explained("pod", "default/dumped", "--data-dir", str(plane.kubeconfig.parent))
    assert live["summary"] == "no node has the label `there` that the pod selects (there=not)"
    for key in ("summary", "message", "refusals", "suggestions"):
        assert live[key] == dumped[key] == stored[key]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["explain", "pod", "web"], 1, "could not be read (not allowed: pods is forbidden"),
        (["simulate", "--fail-if", "pending"], 1, "could not be read (not allowed: nodes is forbidden"),
        (["audit", "--to-emulation-version", "1.36"], 1, "can be read: not allowed"),
        (["explain", "-A"], 1, "could not be read (not allowed: pods is forbidden"),
        (["lint", "--cluster", "pod.json"], 0, "Note: you may not read nodes, "),
    ],
    ids=["explain", "simulate", "audit", "explain all", "lint, which does without"],
)
def test_a_user_who_may_read_nothing_does_not_read_that_all_is_well(
    plane: RunningUp, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "jane"
    (tmp_path / "jane").write_text(yaml.safe_dump(config))
    (tmp_path / "pod.json").write_text(json.dumps(pod("web")))
    command = [sys.executable, "-m", "mooring", *words, "--kubeconfig", "jane"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_a_namespace_that_a_flag_names_is_read_with_rights_there_alone(
    plane: RunningUp, kubectl: Kubectl, tmp_path: Path
) -> None:
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "mary"
    (tmp_path / "mary").write_text(yaml.safe_dump(config))
    kubectl("create", "namespace", "hers")
    kubectl("create", "rolebinding", "mary", "-n", "hers", "--clusterrole=view", "--user=mary")
    selector = json.dumps({"spec": {"nodeSelector": {"there": "not"}}})
    kubectl("run", "waits", "-n", "hers", "--image=app:1", f"--overrides={selector}")
    words = ("pod", "waits", "-n", "hers", "--kubeconfig", str(tmp_path / "mary"))
    report = "the scheduler reports: 0/3 nodes are available"
    assert eventually(lambda: explained(*words)["summary"].startswith(report))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("namespaces/default/schedulingexplanations/..%2f..%2fsecrets", "NotFound"),
        ("namespaces/default/schedulingexplanations/a%00b", "NotFound"),
        ("namespaces/default/schedulingexplanations/%ff", "NotFound"),
        ("namespaces/default/schedulingexplanations/%1b[31m", "NotFound"),
        ("namespaces/default/schedulingexplanations/x?kind=%1b[31m", "NotFound"),
        ("audits/cluster?disableGate=%3Cscript%3E", "BadRequest"),
        ("audits/cluster?toRuntimeConfig=%00", "BadRequest"),
        ("audits/cluster?toMinCompatibilityVersion=-1.-2", "BadRequest"),
        ("simulations/x", "MethodNotAllowed"),
    ],
)
def test_raw_questions_that_mean_harm_are_refused(kubectl: Kubectl, path: str, reason: str) -> None:
    said = kubectl("get", "--raw", f"/apis/advisor.mooring.dev/v1/{path}", code=1)
    assert said.startswith(f"Error from server ({reason})")
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pod", "default/dumpd"], 'there is no pod "dumpd" in the namespace default of the cluster at'),
        (["gadget", "web"], '"gadget" is no kind that makes pods: write pod, deployment'),
        (["pod", "a", "b"], "too many words"),
        (["web", "-A"], "exclude a name and -f"),
    ],
    ids=["a name that is nearly right", "an unknown kind", "too many words", "a name among all namespaces"],
)
def test_what_is_wrong_is_reported_in_a_sentence(plane: RunningUp, words: list[str], message: str) -> None:
    command = [*EXPLAIN, *words, "--kubeconfig", str(plane.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_reported(plane: RunningUp, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = plane.kubeconfig.read_text()
    server = next(line.strip() for line in text.splitlines() if line.strip().startswith("server:"))
    config.write_text(text.replace(server, "server: https://127.0.0.1:1"))
    command = [*EXPLAIN, "pod", "web", "--kubeconfig", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "cannot read the cluster at https://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    ("cpu", "flags", "code"), [("1", ("--fail-if", "pending"), 0), ("999", ("--fail-if", "pending"), 3), ("999", (), 0)]
)
def test_the_exit_code_says_on_request_that_no_node_fits(
    plane: RunningUp, tmp_path: Path, cpu: str, flags: tuple[str, ...], code: int
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod("asked", {"resources": {"requests": {"cpu": cpu}}})))
    done = CliRunner().invoke(explain, ["-f", str(file), "--kubeconfig", str(plane.kubeconfig), *flags])
    assert done.exit_code == code, done.output


def test_a_dump_is_one_file_that_answers_the_same_questions(plane: RunningUp, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(pod("asked", {"resources": {"requests": {"cpu": "999"}}})))

    def agree() -> bool:
        """Whether both say the same; nodes that have just come may change in between."""
        done = CliRunner().invoke(mooring, ["dump", str(file), "--kubeconfig", str(plane.kubeconfig)])
        assert done.exit_code == 0, done.output
        offline = explained("-f", str(manifest), "--from", str(file))
        return bool(
            offline["refusals"] == explained("-f", str(manifest), "--kubeconfig", str(plane.kubeconfig))["refusals"]
        )

    assert eventually(agree)
    head = json.loads(file.read_bytes())
    assert (head["missing"], head["server"]["version"]["gitVersion"]) == ({}, "v1.37.0")


def test_a_dump_that_cannot_be_written_is_reported(plane: RunningUp, tmp_path: Path) -> None:
    file = tmp_path / "none" / "cluster.json"
    done = CliRunner().invoke(mooring, ["dump", str(file), "--kubeconfig", str(plane.kubeconfig)])
    assert done.exit_code == 1
    assert "No such file or directory" in done.output
