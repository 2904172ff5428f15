"""KEP-5471's recommended rollback, step by step, on a whole control plane: nothing fails, and nothing loops."""

import time
from pathlib import Path
from typing import Any

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_cluster import CONTROLLERS, SCHEDULER, SERVER, running_cluster

pytestmark = pytest.mark.req("5471.12")
OFF = "--feature-gates=TaintTolerationComparisonOperators=false"
TOLERATION = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}


def manifest(kind: str, name: str, pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, **pod}},
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def using_it(kubectl: Kubectl) -> set[str]:
    """The workloads whose templates use the operators."""
    found = kubectl.get("deploy,sts,ds,jobs")["items"]
    return {
        each["metadata"]["name"]
        for each in found
        if any(one.get("operator") in ("Lt", "Gt") for one in each["spec"]["template"]["spec"].get("tolerations", []))
    }


def test_the_recommended_order(tmp_path: Path) -> None:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    containers = [{"name": "c", "image": "nginx:1"}]
    with running_cluster(tmp_path) as cluster:
        kubectl = Kubectl(cluster.kubeconfig)
        annotations = {"simulation.mooring.dev/node": "true"}
        kubectl.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain", "annotations": annotations}},
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "gold", "annotations": annotations},
                "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]},
            },
        )
        kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=30s")
        demanding = {"containers": containers, "tolerations": [TOLERATION]}
        kubectl.apply(
            manifest("Deployment", "numeric", demanding), manifest("Deployment", "other", {"containers": containers})
        )
        waiting = {"containers": containers, "tolerations": [TOLERATION], "nodeSelector": {"disk": "none"}}
        kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting"}, "spec": waiting})
        kubectl("rollout", "status", "deploy/numeric", "--timeout=30s")

        # 1. Update identified workloads.
        assert using_it(kubectl) == {"numeric"}
        patch = '[{"op": "replace", "path": "/spec/template/spec/tolerations/0/operator", "value": "Exists"},'
        patch += '{"op": "remove", "path": "/spec/template/spec/tolerations/0/value"}]'
        kubectl("patch", "deploy", "numeric", "--type=json", "-p", patch)
        kubectl("rollout", "status", "deploy/numeric", "--timeout=30s")
        assert using_it(kubectl) == set()
        # 2. Delete pending pods that use the operators.
        kubectl("delete", "pod", "waiting", "--force", "--grace-period=0")
        # 3. Disable the gate in the scheduler first, then in the API server.
        cluster.restart(SCHEDULER, OFF)
        cluster.restart(SERVER, OFF)
        cluster.restart(CONTROLLERS, OFF)

        kubectl("delete", "pods", "--all", "--wait=false")
        time.sleep(0.5)
        for name in ("numeric", "other"):
            kubectl("rollout", "status", f"deploy/{name}", "--timeout=30s")
        reasons = {event["reason"] for event in kubectl.get("events")["items"]}
        assert "FailedCreate" not in reasons
