"""The stories with devices on a real node: a driver beside an unmodified kubelet prepares what the scheduler allocated.

They need what `test_real_node.py` needs. The device's file in the container is passed to the container runtime in a
form (CDI) that containerd reads from 1.7 on: that test needs one in the folder `containerd` of MOORING_REAL.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import real_node
from device_driver import DeviceDriver, device_driver
from kubectl_caller import Kubectl
from real_node import RealNode, Setup, eventually_true
from real_stories import ERROR_BUDGET, GPU_CLAIMS, all_of, one_of, resemble, runnable_pod
from running_up import running_up
from stories import Story

pytestmark = [
    pytest.mark.req("5471.8", "5471.9", "N.1", "N.6", "N.12"),
    pytest.mark.skipif(bool(real_node.missing()), reason=f"no real node: {real_node.missing()}"),
]

NAME = "gpu-node-01"  # as the stories call it
NEWER = Path(os.environ.get("MOORING_REAL", "")) / "containerd"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("up")
    with running_up("--data-dir", str(folder), "--nodes", "0", "--without", "nodes") as plane:
        yield Kubectl(plane.kubeconfig, "default")


@pytest.fixture(scope="module")
def node(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    setup = Setup(containerd=NEWER if NEWER.is_dir() else None)
    with real_node.real_node(tmp_path_factory.mktemp("n"), kubectl.kubeconfig, NAME, setup) as joined:
        eventually_true(lambda: NAME in kubectl("get", "nodes", "-o", "name"))
        kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"node/{NAME}")
        yield joined


@contextmanager
def stage(kubectl: Kubectl, node: RealNode, driver: str) -> Iterator[tuple[Story, DeviceDriver]]:
    """Yield a namespace of its own and a driver, without which the kubelet could not end the pods in it."""
    with device_driver(driver, node) as running:
        kubectl("create", "namespace", "devices")
        yield Story(Kubectl(kubectl.kubeconfig, "devices")), running
        kubectl("delete", "namespace", "devices", "--timeout=60s")
        kubectl("delete", "devicetaintrules,deviceclasses", "--all")
        eventually_true(lambda: running.prepared == {})


def play(story: Story, driver: DeviceDriver, folder: str, *files: str) -> None:
    """Apply the files of a story; devices are published by their driver, and pods have an image that is here."""
    for tree in all_of(folder, *files):
        match tree["kind"]:
            case "Node":
                resemble(story.kubectl, NAME, tree)
            case "ResourceSlice":
                driver.publish(tree)
            case "Pod":
                story.kubectl.apply(runnable_pod(tree))
            case _:
                story.kubectl.apply(tree)


def device_of(story: Story, claim: str) -> str:
    path = "{.status.allocation.devices.results[*].device}"
    return story.kubectl("get", "resourceclaim", claim, "-o", f"jsonpath={path}")


def test_a_claim_gets_the_reliable_device_and_its_pod_runs(kubectl: Kubectl, node: RealNode) -> None:
    with stage(kubectl, node, "gpu.nvidia.com") as (story, driver):
        play(story, driver, GPU_CLAIMS, "nodes", "story")
        story.runs("dra-workload", on=NAME)
        assert device_of(story, "gpu-claim-high-sla") == "gpu-node-01-device-0"
        assert driver.prepared == {"gpu-claim-high-sla": ["gpu-node-01-device-0"]}
        play(story, driver, GPU_CLAIMS, "negative")
        story.waits("unallocated", "cannot allocate all claims")
        assert device_of(story, "gpu-claim-highest-sla") == ""
        story.kubectl("delete", "pod", "dra-workload", "--timeout=30s")
        eventually_true(lambda: driver.prepared == {})


@pytest.mark.skipif(not NEWER.is_dir(), reason=f"no containerd that knows CDI in {NEWER}")
def test_the_device_is_in_the_container_and_no_other_is(kubectl: Kubectl, node: RealNode) -> None:
    with stage(kubectl, node, "gpu.nvidia.com") as (story, driver):
        play(story, driver, GPU_CLAIMS, "nodes", "story")
        story.runs("dra-workload", on=NAME)
        inside = story.kubectl("exec", "dra-workload", "--", "ls", "/dev").split()
        assert [name for name in inside if name.startswith("gpu-node-01-")] == ["gpu-node-01-device-0"]


def test_devices_are_given_out_by_their_error_budget(kubectl: Kubectl, node: RealNode) -> None:
    with stage(kubectl, node, "device.example.com") as (story, driver):
        play(story, driver, ERROR_BUDGET, "nodes", "story")
        story.runs("training", on=NAME)
        assert device_of(story, "training-gpu-claim") == "gpu-node-01-device-0"
        story.waits("inference", "cannot allocate all claims")
        play(story, driver, ERROR_BUDGET, "negative")
        story.waits("second-training", "cannot allocate all claims")
        play(story, driver, ERROR_BUDGET, "later")
        story.runs("inference", on=NAME)
        assert device_of(story, "second-training-gpu-claim") == ""
        assert driver.prepared == {
            "training-gpu-claim": ["gpu-node-01-device-0"],
            "inference-gpu-claim": ["gpu-node-01-device-2"],
        }


def test_a_device_that_is_worn_out_loses_its_pod_and_is_given_back(kubectl: Kubectl, node: RealNode) -> None:
    with stage(kubectl, node, "device.example.com") as (story, driver):
        play(story, driver, ERROR_BUDGET, "nodes", "story")
        story.runs("training", on=NAME)
        play(story, driver, ERROR_BUDGET, "worn-out")
        story.kubectl("wait", "--for=delete", "--timeout=30s", "pod/training")
        eventually_true(lambda: driver.prepared == {})


def test_a_taint_of_the_driver_evicts_when_its_value_drops(kubectl: Kubectl, node: RealNode) -> None:
    """As the driver of the story would do it: the device's hours run down, for pods that run there too."""
    with stage(kubectl, node, "device.example.com") as (story, driver):
        [published] = [tree for tree in all_of(ERROR_BUDGET) if tree["kind"] == "ResourceSlice"]
        [claim] = [one_of(all_of(ERROR_BUDGET), "training-gpu-claim", "ResourceClaim")]
        play(story, driver, ERROR_BUDGET, "nodes")
        del claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0]["effect"]
        story.kubectl.apply(claim)
        age(driver, published, "8")
        story.kubectl.apply(runnable_pod(one_of(all_of(ERROR_BUDGET), "training", "Pod")))
        story.runs("training", on=NAME)
        uid = story.kubectl("get", "pod", "training", "-o", "jsonpath={.metadata.uid}")
        age(driver, published, "2")
        assert (
            story.kubectl("get", "pod", "training", "-o", "jsonpath={.metadata.uid}{.status.phase}") == f"{uid}Running"
        )
        age(driver, published, "1")
        story.kubectl("wait", "--for=delete", "--timeout=30s", "pod/training")


def age(driver: DeviceDriver, tree: dict[str, Any], hours: str) -> None:
    """Publish how many hours are left of the driver's first device, also to pods that run."""
    tree["spec"]["pool"]["generation"] += 1
    tree["spec"]["devices"][0]["taints"][0] |= {"value": hours, "effect": "NoExecute"}
    driver.publish(tree)
