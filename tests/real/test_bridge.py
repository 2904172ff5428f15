"""The bridge on real Kubernetes: kube-apiserver keeps, kube-scheduler decides, kube-controller-manager evicts.

Runs where MOORING_REAL names the folder of Kubernetes' binaries; elsewhere it is skipped and says so. The webhooks are
configured by URL, since there is no network for Services.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import real_cluster
from eventually import eventually, never
from free_ports import free_port
from kubectl_caller import Kubectl
from mooring.constraints import annotations

pytestmark = pytest.mark.skipif(bool(real_cluster.missing()), reason=f"no real cluster: {real_cluster.missing()}")

SHIPPED = Path(__file__).parents[2] / "deploy" / "bridge" / "webhooks.yaml"
SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
LAG_SECONDS, LAGGING_NODES, LAGGING_ROUNDS = 1.0, 10, 20
_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@contextmanager
def bridged(folder: Path, *, pod_watch_lag: float = 0.0) -> Iterator[Kubectl]:
    """Yield a cluster with the shipped webhooks, by URL, and a bridge that is ready."""
    with real_cluster.real_cluster(folder, pod_watch_lag=pod_watch_lag) as admin:
        port = free_port()
        for configuration in yaml.safe_load_all(SHIPPED.read_text()):
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}"}
            admin("create", "-f", "-", stdin=json.dumps(configuration))
        command = [sys.executable, "-m", "mooring", "bridge", "--kubeconfig", str(admin.kubeconfig), "--port", "-1"]
        command += ["--namespace", "default", "--webhook-port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "The bridge is ready\n"
            try:
                yield admin
            finally:
                process.terminate()
            assert process.wait(20) == 0


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with bridged(tmp_path_factory.mktemp("real")) as admin:
        yield admin


@pytest.fixture
def cluster(kubectl: Kubectl) -> Iterator[Kubectl]:
    yield kubectl
    kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    kubectl("delete", "nodes", "--all")


def node(kubectl: Kubectl, name: str, labels: dict[str, str], *taints: str) -> None:
    kubectl(
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}),
    )
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": _ROOM, "allocatable": _ROOM}
    kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": ready}))
    for each in taints:
        kubectl("taint", "node", name, each)
    kubectl("taint", "node", name, "node.kubernetes.io/not-ready-", code=None)


def pod(kubectl: Kubectl, name: str, given: dict[str, Any], **spec: Any) -> None:
    """Create a pod with constraints; the webhook brings the gate."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {key: json.dumps(value) for key, value in given.items()}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}], **spec},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(tree))


def place(kubectl: Kubectl, name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def required(term: dict[str, Any]) -> dict[str, Any]:
    return {
        annotations.NODE_AFFINITY: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }


@pytest.mark.req("B.3", "B.4")
def test_a_version_is_asked_for_and_a_node_is_upgraded(cluster: Kubectl) -> None:
    node(cluster, "old", {"kernel": "5.4.0"})
    newer = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]}
    pod(cluster, "web", required(newer))
    eventually(lambda: not cluster("get", "pod", "web", "-o", "jsonpath={.spec.schedulingGates}"))
    never(lambda: place(cluster, "web"))
    cluster("label", "node", "old", "--overwrite", "kernel=6.1.0")
    assert eventually(lambda: place(cluster, "web")) == "old"


@pytest.mark.req("B.3", "B.4")
def test_an_expression_decides_between_nodes(cluster: Kubectl) -> None:
    node(cluster, "far", {"rack": "r9", "zone": "z"})
    node(cluster, "near", {"rack": "r1", "zone": "z"})
    pod(
        cluster, "web", required({"matchCELExpressions": ["node.labels['rack'] == 'r1' && node.labels['zone'] == 'z'"]})
    )
    assert eventually(lambda: place(cluster, "web")) == "near"


@pytest.mark.req("B.2", "B.5")
def test_a_pod_stays_while_the_sla_is_tolerated_and_leaves_when_it_drops(cluster: Kubectl) -> None:
    node(cluster, "spot", {}, "sla=960:NoExecute")
    pod(
        cluster,
        "web",
        {annotations.TOLERATIONS: [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}]},
    )
    assert eventually(lambda: place(cluster, "web")) == "spot"
    leaving = ("get", "pod", "web", "--ignore-not-found", "-o", "jsonpath={.metadata.deletionTimestamp}")
    for value in ("970", "980", "965"):
        cluster("taint", "node", "spot", "--overwrite", f"sla={value}:NoExecute")
        never(lambda: cluster(*leaving), 1.0)
    cluster("taint", "node", "spot", "--overwrite", "sla=940:NoExecute")
    eventually(lambda: cluster(*leaving) or not cluster("get", "pod", "web", "--ignore-not-found"))


@pytest.mark.req("B.2", "B.5")
def test_a_pod_leaves_when_its_seconds_are_over(cluster: Kubectl) -> None:
    """The taint has no `timeAdded`, so the webhook refuses the taint manager, and the bridge evicts."""
    node(cluster, "spot", {}, "sla=960:NoExecute")
    pod(cluster, "web", {annotations.TOLERATIONS: [{**SLA, "tolerationSeconds": 2}]})
    assert eventually(lambda: place(cluster, "web")) == "spot"
    reason = 'jsonpath={.status.conditions[?(@.type=="DisruptionTarget")].reason}'
    eventually(lambda: cluster("get", "pod", "web", "-o", "jsonpath={.metadata.deletionTimestamp}"))
    assert cluster("get", "pod", "web", "-o", reason) == "DeletionByMooringBridge"


@pytest.mark.req("B.2", "B.5")
def test_no_pod_that_tolerates_is_evicted_however_late_its_tolerations_are_seen(tmp_path: Path) -> None:
    """200 changes of a value, while kube-controller-manager learns of pods a second later than of nodes."""
    names = [f"n{number}" for number in range(LAGGING_NODES)]
    with bridged(tmp_path, pod_watch_lag=LAG_SECONDS) as kubectl:
        for name in names:
            node(kubectl, name, {"name": name}, "sla=1000:NoExecute")
            pod(kubectl, name, {annotations.TOLERATIONS: [SLA]}, nodeSelector={"name": name})
        eventually(lambda: all(place(kubectl, name) == name for name in names), 60)
        wanted = ("get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.metadata.deletionTimestamp};{end}")
        before = kubectl(*wanted)
        for number in range(LAGGING_ROUNDS):
            for index, name in enumerate(names):
                value = 1001 + number * LAGGING_NODES + index
                kubectl("taint", "node", name, "--overwrite", f"sla={value}:NoExecute")
            never(lambda: kubectl(*wanted) != before, LAG_SECONDS)
        log = (tmp_path / "kube-controller-manager.log").read_text()
        assert log.count("the constraints of the pod tolerate the taints") > LAGGING_NODES * LAGGING_ROUNDS / 2
        kubectl("taint", "node", names[0], "--overwrite", "sla=940:NoExecute")
        after = eventually(lambda: (now := kubectl(*wanted)) != before and now)
        remove = [{"op": "remove", "path": "/webhooks/1"}]
        kubectl("patch", "validatingwebhookconfiguration", "mooring-bridge", "--type=json", "-p", json.dumps(remove))
        kubectl("taint", "node", names[1], "--overwrite", "sla=5000:NoExecute")
        eventually(lambda: kubectl(*wanted) != after)


@pytest.mark.req("B.1", "B.6")
def test_the_webhook_refuses_what_is_not_valid_and_what_comes_too_late(cluster: Kubectl) -> None:
    bad = {annotations.TOLERATIONS: [{"key": "sla", "operator": "Gt", "value": "0950"}]}
    with pytest.raises(AssertionError, match=r"\[constraints.mooring.dev/tolerations\]\[0\].value: Invalid value"):
        pod(cluster, "bad", bad)
    node(cluster, "spot", {}, "sla=960:NoSchedule")
    pod(cluster, "web", {annotations.TOLERATIONS: [{"key": "sla", "operator": "Gt", "value": "950"}]})
    eventually(lambda: place(cluster, "web"))
    assert "cannot be changed once it is released" in cluster(
        "annotate", "pod", "web", f"{annotations.TOLERATIONS}-", code=1
    )
