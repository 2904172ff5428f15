"""The stories of the proposals as a real node can play them: which pod, which node of the story, and how it is done.

`tests/real/` plays them; `tests/unit/test_every_story_runs_on_a_real_node.py` compares what is played with `examples/`.
"""

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kubectl_caller import Kubectl
from real_node import IMAGE
from stories import EXAMPLES, documents

GPU_CLAIMS, ERROR_BUDGET = "kep-5471/4-gpu-claims", "kep-5471/5-error-budget"
CAUTIOUS_UPGRADE, NEWEST_FEATURES = "kep-4330/1-cautious-upgrade", "kep-4330/3-newest-features"


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


PLAYED = {story.folder for story in STORIES} | {GPU_CLAIMS, ERROR_BUDGET, CAUTIOUS_UPGRADE, NEWEST_FEATURES}
"""All of them: those of the table, and those that have tests of their own in `tests/real/`."""


def all_of(folder: str, *files: str) -> list[dict[str, Any]]:
    """Return the objects of an example."""
    return [tree for name in files or ("nodes", "story") for tree in documents(EXAMPLES / folder / f"{name}.yaml")]


def one_of(trees: Iterable[dict[str, Any]], name: str, *kinds: str) -> dict[str, Any]:
    [found] = [tree for tree in trees if tree["kind"] in kinds and tree["metadata"]["name"] == name]
    return found


def pod_of(story: Story) -> dict[str, Any]:
    return runnable_pod(one_of(all_of(story.folder), story.pod, "Pod", "Deployment"))


def runnable_pod(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a pod, or a workload's pod template as one, with a local image and no requests except claims."""
    template = copy.deepcopy(tree if tree["kind"] == "Pod" else tree["spec"]["template"])
    spec = {"terminationGracePeriodSeconds": 0, **template["spec"]}
    spec.pop("hostUsers", None)  # which Debian's containerd is too old for, as its story says
    for container in spec["containers"]:
        claims = container.pop("resources", {}).get("claims", [])
        container |= {"image": IMAGE, "imagePullPolicy": "Never", "resources": {"claims": claims}}
        container.pop("command", None)
    metadata = {**template.get("metadata", {}), "name": tree["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resemble(kubectl: Kubectl, real: str, tree: dict[str, Any], taint: str = "") -> None:
    """Give the real node the labels and taints of a node of a story, and no others."""
    taints = tree.get("spec", {}).get("taints", [])
    if taint:
        taints[0]["value"] = taint
    before = kubectl.get("node", real)["metadata"]["labels"]
    kept = {key for key in before if "kubernetes.io/" in key and "example" not in key}
    labels = {**dict.fromkeys(set(before) - kept), **tree["metadata"].get("labels", {})}
    patch = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
    kubectl("patch", "node", real, "--type=merge", "-p", json.dumps(patch))
