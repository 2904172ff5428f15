"""The examples of the proposals, applied with kubectl, and what came of them.

story.apply("kep-5471/1-spot-nodes", "nodes", "story")
story.runs("critical-workload", on="reliable-node-1")
story.waits("unaware-workload", "untolerated taint {node.kubernetes.io/sla: 800}")
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from eventually import eventually
from kubectl_caller import Kubectl

EXAMPLES = Path(__file__).parent.parent / "examples"
_TIMEOUT = "--timeout=45s"


@dataclass(frozen=True)
class Story:
    """One example in a namespace of its own."""

    kubectl: Kubectl

    def apply(self, folder: str, *files: str) -> None:
        """`kubectl apply` of some files of an example; nodes are ready before anything else is applied."""
        for name in files:
            path = EXAMPLES / folder / f"{name}.yaml"
            self.kubectl("apply", "-f", str(path))
            nodes = [tree["metadata"]["name"] for tree in documents(path) if tree["kind"] == "Node"]
            if nodes:
                self.kubectl("wait", "--for=condition=Ready", _TIMEOUT, "node", *nodes)

    def taint(self, node: str, taint: str) -> None:
        self.kubectl("taint", "node", node, taint, "--overwrite")

    def runs(self, pod: str, *, on: str) -> None:
        """Wait until a pod runs on a node."""
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Running", _TIMEOUT, f"pod/{pod}")
        assert self.node_of(pod) == on

    def waits(self, pod: str, *reasons: str) -> None:
        """Wait until the scheduler finds no node for a pod, and check the reason."""
        self.kubectl("wait", "--for=condition=PodScheduled=false", _TIMEOUT, f"pod/{pod}")
        assert self.node_of(pod) == ""
        said = self.reason_of(pod)
        for reason in reasons:
            assert reason in said

    def node_of(self, pod: str) -> str:
        return self.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")

    def reason_of(self, pod: str) -> str:
        """Why a pod is not scheduled, as its condition and its event say it."""
        path = '{.status.conditions[?(@.type=="PodScheduled")].message}'
        said = self.kubectl("get", "pod", pod, "-o", f"jsonpath={path}")
        warnings = ("events", "--for", f"pod/{pod}", "--types=Warning")  # which come a moment after the condition
        eventually(lambda: re.search(r"\bFailedScheduling\b", self.kubectl(*warnings)))
        return said

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """Return the pods that a label selects, without terminating ones."""
        found = self.kubectl.get("pods", "-l", selector)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def refused(self, *changes: dict[str, Any]) -> str:
        """Return what kubectl prints when objects are not accepted."""
        return self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(changes), code=1)


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
