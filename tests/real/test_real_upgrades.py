"""The stories about versions on a real node: kubelet and containers do not notice that the control plane changes.

They need what `test_real_node.py` needs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import real_node
from free_ports import free_port
from kubectl_caller import Kubectl
from real_node import IMAGE, Setup, eventually_true
from real_stories import CAUTIOUS_UPGRADE, NEWEST_FEATURES, all_of, one_of, resemble, runnable_pod
from running_up import running_up
from stories import Story

pytestmark = [
    pytest.mark.req("4330.11", "N.12"),
    pytest.mark.skipif(bool(real_node.missing()), reason=f"no real node: {real_node.missing()}"),
]

BESIDE_OTHERS = Setup(kubelet={"port": 20252})


@contextmanager
def control_plane(folder: Path, port: int, *flags: str) -> Iterator[Story]:
    """Yield the same data at the same address, with other flags."""
    always = ("--data-dir", str(folder), "--port", str(port), "--nodes", "0", "--without", "nodes")
    with running_up(*always, *flags) as plane:
        yield Story(Kubectl(plane.kubeconfig))


@contextmanager
def joined(folder: Path, story: Story, name: str) -> Iterator[None]:
    with real_node.real_node(folder, story.kubectl.kubeconfig, name, BESIDE_OTHERS):
        is_ready(story, name)
        yield


def is_ready(story: Story, name: str) -> None:
    eventually_true(lambda: name in story.kubectl("get", "nodes", "-o", "name"))
    story.kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"node/{name}")


def containers(story: Story) -> list[str]:
    """Return the containers that a Deployment's pods run in, by their ids in containerd."""
    path = "jsonpath={range .items[*]}{.status.containerStatuses[0].containerID}{'\\n'}{end}"
    return sorted(story.kubectl("get", "pods", "-l", "app=web", "-o", path).split())


def test_a_cautious_upgrade_leaves_containers_alone_and_brings_its_feature(tmp_path: Path) -> None:
    node, port, trees = "rated-node", free_port(), all_of(CAUTIOUS_UPGRADE, "nodes", "workload", "new-feature")
    new = runnable_pod(one_of(trees, "reliable", "Pod"))
    web = one_of(trees, "web", "Deployment")
    web["spec"]["template"]["spec"]["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "Never"}
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    with ExitStack() as node_runs:
        with control_plane(tmp_path / "up", port, "--emulation-version", "1.36") as old:
            node_runs.enter_context(joined(tmp_path / "n", old, node))
            old.kubectl.apply(web)
            old.kubectl("rollout", "status", "deployment/web", "--timeout=50s")
            before = containers(old)
            resemble(old.kubectl, node, one_of(trees, node, "Node"))
            assert 'Unsupported value: "Gt"' in old.refused(new)
        with control_plane(tmp_path / "up", port) as upgraded:
            is_ready(upgraded, node)
            upgraded.kubectl.apply(new)
            upgraded.runs("reliable", on=node)
            assert containers(upgraded) == before


def test_a_cluster_that_never_goes_back_runs_what_is_new_in_its_release(tmp_path: Path) -> None:
    node, trees = "large-node", all_of(NEWEST_FEATURES, "nodes", "pod")
    with (
        control_plane(tmp_path / "up", free_port(), "--min-compatibility-version", "1.37") as story,
        joined(tmp_path / "n", story, node),
    ):
        resemble(story.kubectl, node, one_of(trees, node, "Node"))
        story.kubectl.apply(runnable_pod(one_of(trees, "large-job", "Pod")))
        story.runs("large-job", on=node)
