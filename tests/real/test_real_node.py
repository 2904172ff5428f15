"""The stories of the proposals on a real node: an unmodified kubelet with containerd, which joined with a token.

They run where MOORING_REAL names the folder of Kubernetes' binaries, as root, with containerd on the machine; elsewhere
they are skipped and say so. Stories with devices are not among them: they need a driver that answers the kubelet.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import real_node
from kubectl_caller import Kubectl
from real_node import IMAGE, RealNode, Setup, eventually_true
from running_up import running_up
from stories import EXAMPLES, documents

pytestmark = [
    pytest.mark.req("N.1", "N.5", "N.6", "N.12"),
    pytest.mark.skipif(bool(real_node.missing()), reason=f"no real node: {real_node.missing()}"),
]

NAME = "real-1"
SLA = "node.kubernetes.io/sla"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("up")
    with running_up("--data-dir", str(folder), "--nodes", "0", "--without", "nodes") as plane:
        yield Kubectl(plane.kubeconfig, "default")


@pytest.fixture(scope="module")
def node(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with real_node.real_node(tmp_path_factory.mktemp("node"), kubectl.kubeconfig, NAME) as joined:
        eventually_true(lambda: NAME in kubectl("get", "nodes", "-o", "name"))
        kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"node/{NAME}")
        yield joined


@dataclass
class Story:
    """A pod of a story, the node of the story that the real one is made to resemble, and one that it is not."""

    folder: str
    pod: str
    like: str
    unlike: str = ""
    taint: str = ""
    """The value that the story gives to the first taint."""


STORIES = [
    Story("kep-5471/1-spot-nodes", "flexible-sla-workload", "reserved-node-1"),
    Story("kep-5471/2-evict-when-sla-drops", "inference-service", "ondemand-node-1", taint="960"),
    Story("kep-5471/3-training-on-spot", "training-worker", "spot-gpu-1"),
    Story("kep-5721/1-kubelet-version", "modern-app", "upgraded-node", "old-node"),
    Story("kep-5721/2-older-cni", "tolerant-pod", "old-cni-node-1"),
    Story("kep-5721/3-container-runtime", "modern-app", "containerd-2", "containerd-1"),
    Story("kep-5721/4-volume-needs-kernel", "database", "new-kernel"),
    Story("kep-5500/1-either-maintenance", "monitoring-agent", "patched-node"),
    Story("kep-5500/2-cni-version-in-cel", "compatible-workload", "node-1"),
    Story("kep-5500/3-rack-prefix", "regional-app", "west-node", "east-node"),
    Story("kep-5500/4-kubelet-version-in-cel", "modern-app", "new-node", "old-node"),
    Story("kep-5500/5-volume-with-cel", "database", "storage-node"),
    Story("kep-3633/1-affinity-within-a-revision", "application-server", "zone-a-node"),
    Story("kep-3633/2-tenant-per-pool", "tenant-a-1", "pool-1-node-1"),
    Story("kep-3633/3-rolling-update-in-a-full-cluster", "web", "node-1"),
]


def all_of(story: Story) -> list[dict[str, Any]]:
    return [tree for name in ("nodes", "story") for tree in documents(EXAMPLES / story.folder / f"{name}.yaml")]


def pod_of(story: Story) -> dict[str, Any]:
    """The pod, or what a workload would make of its template, with an image that is here and no wish for devices."""
    [tree] = [
        tree
        for tree in all_of(story)
        if tree["kind"] in {"Pod", "Deployment"} and tree["metadata"]["name"] == story.pod
    ]
    template = copy.deepcopy(tree if tree["kind"] == "Pod" else tree["spec"]["template"])
    spec = {"terminationGracePeriodSeconds": 0, **template["spec"]}
    spec.pop("hostUsers", None)  # which Debian's containerd is too old for, as its story says
    for container in spec["containers"]:
        container |= {"image": IMAGE, "imagePullPolicy": "Never"}
        container.pop("resources", None)
        container.pop("command", None)
    metadata = {**template.get("metadata", {}), "name": story.pod}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resemble(kubectl: Kubectl, story: Story, name: str) -> None:
    """Give the real node the labels and taints of a node of the story, and no others."""
    [tree] = [tree for tree in all_of(story) if tree["kind"] == "Node" and tree["metadata"]["name"] == name]
    taints = tree.get("spec", {}).get("taints", [])
    if story.taint:
        taints[0]["value"] = story.taint
    before = kubectl.get("node", NAME)["metadata"]["labels"]
    kept = {key for key in before if "kubernetes.io/" in key and "example" not in key}
    labels = {**dict.fromkeys(set(before) - kept), **tree["metadata"].get("labels", {})}
    patch = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
    kubectl("patch", "node", NAME, "--type=merge", "-p", json.dumps(patch))


@pytest.fixture
def volumes(tmp_path: Path, kubectl: Kubectl) -> Iterator[Any]:
    """Creates the volumes of a story, as folders of this machine, and takes them away again."""
    made: list[dict[str, Any]] = []

    def create(story: Story) -> None:
        for tree in all_of(story):
            if tree["kind"] in {"StorageClass", "PersistentVolume", "PersistentVolumeClaim"}:
                if tree["kind"] == "PersistentVolume":
                    tree["spec"].pop("csi", None)
                    tree["spec"]["hostPath"] = {"path": str(tmp_path)}
                kubectl.apply(tree)
                made.append(tree)

    yield create
    for tree in reversed(made):
        kubectl("delete", tree["kind"].lower(), tree["metadata"]["name"], "--wait=false")


def gone(kubectl: Kubectl, pod: str) -> bool:
    return pod not in kubectl("get", "pods", "-o", "name")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.folder)
def test_a_story_runs_on_a_real_node(kubectl: Kubectl, node: RealNode, volumes: Any, story: Story) -> None:
    resemble(kubectl, story, story.like)
    volumes(story)
    kubectl.apply(pod_of(story))
    try:
        kubectl("wait", "--for=condition=Ready", "--timeout=50s", f"pod/{story.pod}")
        assert kubectl("get", "pod", story.pod, "-o", "jsonpath={.spec.nodeName}") == node.name
    finally:
        kubectl("delete", "pod", story.pod, "--timeout=30s")


@pytest.mark.parametrize("story", [story for story in STORIES if story.unlike], ids=lambda story: story.folder)
def test_a_pod_that_is_forced_upon_the_wrong_node_is_refused_there(
    kubectl: Kubectl, node: RealNode, story: Story
) -> None:
    resemble(kubectl, story, story.unlike)
    pod = pod_of(story)
    pod["spec"]["nodeName"] = node.name
    kubectl.apply(pod)
    try:
        kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "--timeout=30s", f"pod/{story.pod}")
        assert kubectl("get", "pod", story.pod, "-o", "jsonpath={.status.reason}") == "NodeAffinity"
    finally:
        kubectl("delete", "pod", story.pod, "--timeout=30s")


def test_a_running_pod_stays_while_its_taint_is_tolerated_and_goes_when_the_value_drops(
    kubectl: Kubectl, node: RealNode
) -> None:
    story = STORIES[1]
    resemble(kubectl, story, story.like)
    pod = pod_of(story)
    del pod["spec"]["tolerations"][0]["tolerationSeconds"]
    kubectl.apply(pod)
    kubectl("wait", "--for=condition=Ready", "--timeout=50s", f"pod/{story.pod}")
    kubectl("taint", "node", node.name, f"{SLA}=970:NoExecute", "--overwrite")
    uid = kubectl("get", "pod", story.pod, "-o", "jsonpath={.metadata.uid}")
    kubectl("taint", "node", node.name, f"{SLA}=955:NoExecute", "--overwrite")
    assert kubectl("get", "pod", story.pod, "-o", "jsonpath={.metadata.uid}{.status.phase}") == f"{uid}Running"
    kubectl("taint", "node", node.name, f"{SLA}=940:NoExecute", "--overwrite")
    eventually_true(lambda: gone(kubectl, story.pod), seconds=30)


def test_the_certificate_of_the_node_is_good_for_its_own_pods_alone(kubectl: Kubectl, node: RealNode) -> None:
    """It is the one that the kubelet has got for itself by its token."""
    kubectl("create", "secret", "generic", "somebody-elses", "--from-literal=a=b")
    [own] = (node.folder / NAME / "state").glob("kubeconfig")
    as_node = Kubectl(own, "default")
    assert "system:node:real-1" in as_node("auth", "whoami")
    assert NAME in as_node("get", "node", NAME)
    for words in (
        ["get", "secret", "somebody-elses"],
        ["get", "secrets", "-A"],
        ["get", "pods", "-A"],
        ["get", "nodes"],
    ):
        assert "is forbidden" in as_node(*words, code=1)


def test_logs_and_commands_come_from_the_container(kubectl: Kubectl, node: RealNode) -> None:
    kubectl("patch", "node", node.name, "--type=merge", "-p", '{"spec": {"taints": null}}')
    command = ["sh", "-c", "echo from the container; sleep 100000"]
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": command}
    spec = {"terminationGracePeriodSeconds": 0, "nodeName": NAME, "containers": [container]}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talks"}, "spec": spec})
    kubectl("wait", "--for=condition=Ready", "--timeout=50s", "pod/talks")
    assert "from the container" in kubectl("logs", "talks")
    assert "inside" in kubectl("exec", "talks", "--", "echo", "inside")
    kubectl("delete", "pod", "talks", "--timeout=30s")


def test_a_kubelet_renews_its_certificate_before_it_ends(tmp_path: Path) -> None:
    """Nodes' certificates last two minutes here, so that the kubelet asks for another within little more than one."""
    flags = ("--nodes", "0", "--without", "nodes", "--cluster-signing-duration", "2m")
    with running_up("--data-dir", str(tmp_path / "up"), *flags) as plane:
        kubectl = Kubectl(plane.kubeconfig, "default")
        beside_the_other = Setup(kubelet={"port": 20251})
        with real_node.real_node(tmp_path / "node", plane.kubeconfig, NAME, beside_the_other) as renewing:
            own = renewing.folder / NAME / "state" / "pki"

            def certificates() -> int:
                return len([*own.glob("kubelet-client-2*.pem")])

            eventually_true(lambda: certificates() > 2, seconds=240)
            asked = [each["spec"]["username"] for each in kubectl.get("csr")["items"]]
            assert asked.count(f"system:node:{NAME}") >= 2
            kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"node/{NAME}")
