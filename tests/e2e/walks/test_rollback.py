"""The rollback that the proposals recommend, with processes that are restarted one by one, and kubectl as the operator.

The proposals: update workloads that use the feature, delete pending pods that do, switch the gate off in the scheduler
and then in the API server. All three gates go off at once here; ``test_gate_walks.py`` has them one by one.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventually import eventually, never
from gate_uses import EXPRESSIONS_IN_TOLERATIONS, NUMBERS, VERSIONS_IN_TOLERATIONS
from kubectl_caller import KUBECTL, Kubectl
from running_cluster import CONTROLLERS, SCHEDULER, SERVER, RunningCluster, running_cluster

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
USES = (NUMBERS, VERSIONS_IN_TOLERATIONS, EXPRESSIONS_IN_TOLERATIONS)
OFF = ("--feature-gates", ",".join(f"{use.gate}=false" for use in USES))
FIND_NUMBERS = (
    """kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.name}{": "}"""
    """{.spec.tolerations[?(@.operator=="Gt")]}{"\\n"}{end}' | grep -v "^[^:]*: *$\""""
)
"""As the proposal writes it."""


def named(number: int, tree: dict[str, Any]) -> dict[str, Any]:
    """Return the same with names of its own, so that all uses fit into one cluster."""
    text = re.sub(r"""(["'])(now|walk)\1""", rf"\1\2-{number}\1", json.dumps(tree))
    renamed: dict[str, Any] = json.loads(text)
    return renamed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path) as running:
        yield running


@pytest.fixture
def kubectl(cluster: RunningCluster) -> Kubectl:
    """Return a cluster in which every use has a node, a Deployment that runs there, and a pod that waits."""
    kubectl = Kubectl(cluster.kubeconfig)
    for number, use in enumerate(USES):
        kubectl.apply(
            named(number, use.node("now")),
            named(number, use.deployment(f"owned-{number}")),
            named(number, use.pod(f"pending-{number}", use.later)),
        )
    for number in range(len(USES)):
        kubectl("rollout", "status", f"deployment/owned-{number}", "--timeout=20s")
        kubectl("wait", "--for=condition=PodScheduled=false", "--timeout=20s", f"pod/pending-{number}")
    return kubectl


def failures(kubectl: Kubectl) -> str:
    return kubectl("get", "events", "--field-selector", "reason=FailedCreate", "-o", "name")


def running(kubectl: Kubectl) -> set[str]:
    pods = kubectl.get("pods")["items"]
    return {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}


def switch_off(cluster: RunningCluster) -> None:
    """Scheduler first, then the API server; the controllers, which evict by taints, with the scheduler."""
    for name in (SCHEDULER, CONTROLLERS, SERVER):
        cluster.restart(name, *OFF)


@pytest.mark.req("5471.12", "4330.13")
def test_the_recommended_rollback_leaves_nothing_behind(cluster: RunningCluster, kubectl: Kubectl) -> None:
    assert "pending-0" in kubectl.shell(FIND_NUMBERS)
    for number, use in enumerate(USES):
        plain = {"key": "walk", "operator": "Equal", "value": use.values[0], "effect": "NoSchedule"}
        patch = json.dumps({"spec": {"template": {"spec": {"tolerations": [named(number, plain)]}}}})
        kubectl("patch", "deployment", f"owned-{number}", "--type=merge", "-p", patch)
        kubectl("rollout", "status", f"deployment/owned-{number}", "--timeout=20s")
        kubectl("delete", "pod", f"pending-{number}")
    eventually(lambda: len(running(kubectl)) == len(USES))
    assert kubectl.shell(FIND_NUMBERS) == ""
    before = running(kubectl)
    switch_off(cluster)
    kubectl("scale", "deployment", *(f"owned-{number}" for number in range(len(USES))), "--replicas=2")
    for number in range(len(USES)):
        kubectl("rollout", "status", f"deployment/owned-{number}", "--timeout=20s")
    assert before < running(kubectl)
    kubectl("delete", "pods", "--all")
    eventually(lambda: len(running(kubectl) - before) == 2 * len(USES))
    assert failures(kubectl) == "", "controllers could replace all of them"


@pytest.mark.req("5471.12", "4330.13", "5471.3c", "5721.6", "5500.9")
def test_a_rollback_without_preparation_can_be_taken_back(cluster: RunningCluster, kubectl: Kubectl) -> None:
    before = running(kubectl)
    switch_off(cluster)
    assert before == running(kubectl)  # what runs, runs on
    kubectl("scale", "deployment", *(f"owned-{number}" for number in range(len(USES))), "--replicas=2")
    eventually(lambda: len(failures(kubectl).split()) >= len(USES))
    for number, use in enumerate(USES):
        kubectl.apply(
            named(
                number, {**use.node("later"), "metadata": {**use.node("later")["metadata"], "name": f"later-{number}"}}
            )
        )
        kubectl("wait", "--for=condition=Ready", "--timeout=20s", f"node/later-{number}")
    pending = [f"pod/pending-{number}" for number in range(len(USES))]
    never(lambda: kubectl("get", *pending, "-o", "jsonpath={.items[*].spec.nodeName}"), seconds=1.0)
    for name in (SERVER, CONTROLLERS, SCHEDULER):  # up again: the API server first
        cluster.restart(name)
    for number in range(len(USES)):
        kubectl("wait", f"--for=jsonpath={{.spec.nodeName}}=later-{number}", "--timeout=20s", f"pod/pending-{number}")
        kubectl("rollout", "status", f"deployment/owned-{number}", "--timeout=30s")
    assert before < running(kubectl)
