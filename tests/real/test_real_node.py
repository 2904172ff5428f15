"""The stories of the proposals on a real node: an unmodified kubelet with containerd, which joined with a token.

They run where MOORING_REAL names the folder of Kubernetes' binaries, as root, with containerd on the machine; elsewhere
they are skipped and say so. Stories with devices, and those about versions, are in files of their own beside this one.
"""

import faulthandler
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import real_node
from kubectl_caller import Kubectl
from real_node import IMAGE, RealNode, Setup, eventually_true
from real_stories import STORIES, Story, all_of, one_of, pod_of, resemble
from running_up import running_up

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


@pytest.fixture
def volumes(tmp_path: Path, kubectl: Kubectl) -> Iterator[Any]:
    """Create the volumes of a story, as folders of this machine, and takes them away again."""
    made: list[dict[str, Any]] = []

    def create(story: Story) -> None:
        for tree in all_of(story.folder):
            if tree["kind"] in {"StorageClass", "PersistentVolume", "PersistentVolumeClaim"}:
                if tree["kind"] == "PersistentVolume":
                    tree["spec"].pop("csi", None)
                    tree["spec"]["hostPath"] = {"path": str(tmp_path)}
                kubectl.apply(tree)
                made.append(tree)

    yield create
    for tree in reversed(made):
        kubectl("delete", tree["kind"].lower(), tree["metadata"]["name"], "--wait=false")


def be_like(kubectl: Kubectl, story: Story, name: str) -> None:
    resemble(kubectl, NAME, one_of(all_of(story.folder), name, "Node"), story.taint)


def gone(kubectl: Kubectl, pod: str) -> bool:
    return pod not in kubectl("get", "pods", "-o", "name")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.folder)
def test_a_story_runs_on_a_real_node(kubectl: Kubectl, node: RealNode, volumes: Any, story: Story) -> None:
    be_like(kubectl, story, story.like)
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
    be_like(kubectl, story, story.unlike)
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
    be_like(kubectl, story, story.like)
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
    own = node.state / "kubeconfig"
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
    faulthandler.cancel_dump_traceback_later()  # or all tests end after two minutes, and leave this node behind
    flags = ("--nodes", "0", "--without", "nodes", "--cluster-signing-duration", "2m")
    with running_up("--data-dir", str(tmp_path / "up"), *flags) as plane:
        kubectl = Kubectl(plane.kubeconfig, "default")
        beside_the_other = Setup(kubelet={"port": 20251})
        with real_node.real_node(tmp_path / "node", plane.kubeconfig, NAME, beside_the_other) as renewing:
            own = renewing.state / "pki"

            def certificates() -> int:
                return len([*own.glob("kubelet-client-2*.pem")])

            eventually_true(lambda: certificates() > 2, seconds=240)
            asked = [each["spec"]["username"] for each in kubectl.get("csr")["items"]]
            assert asked.count(f"system:node:{NAME}") >= 2
            kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"node/{NAME}")
