"""`mooring scheduler` beside a real kube-apiserver, with the account of `examples/second-scheduler`.

Runs where MOORING_REAL names the folder of Kubernetes' binaries; elsewhere it is skipped and says so.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import real_cluster
from eventually import eventually

pytestmark = pytest.mark.skipif(bool(real_cluster.missing()), reason=f"no real cluster: {real_cluster.missing()}")

RIGHTS = Path(__file__).parents[2] / "examples" / "second-scheduler" / "rbac.yaml"
_PODS, _NODES = 200, 4


def node(name: str) -> dict[str, Any]:
    room = {"cpu": "50", "memory": "50Gi", "pods": str(_PODS // _NODES)}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}]
    spec = {"schedulerName": "mooring", "containers": containers, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_rush_of_pods_is_bound_one_by_one_and_no_more_than_nodes_take(tmp_path: Path) -> None:
    with real_cluster.real_server(
        tmp_path, "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"
    ) as kubectl:
        kubectl("apply", "-n", "kube-system", "-f", str(RIGHTS))
        token = kubectl("create", "token", "mooring-scheduler", "-n", "kube-system").strip()
        config = tmp_path / "scheduler.kubeconfig"
        config.write_text(kubectl.kubeconfig.read_text().replace("admintoken", token))
        kubectl("create", "-f", "-", stdin=_documents(*(node(f"n{index}") for index in range(_NODES))))
        kubectl("create", "-f", "-", stdin=_documents(*(pod(f"p{index}") for index in range(_PODS))))
        command = [sys.executable, "-m", "mooring", "scheduler", "--kubeconfig", str(config), "--port", "-1"]
        with subprocess.Popen([*command, "--scheduler-name", "mooring"], stdout=subprocess.DEVNULL) as scheduler:
            try:
                placed = eventually(lambda: _placed(kubectl.get("pods")), 60)
            finally:
                scheduler.terminate()
        assert placed == {f"n{index}": _PODS // _NODES for index in range(_NODES)}


def _documents(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _placed(listed: dict[str, Any]) -> Counter[str]:
    """How many pods each node has, once all have one."""
    nodes = [item["spec"].get("nodeName", "") for item in listed["items"]]
    return Counter() if "" in nodes else Counter(nodes)
