"""Workloads through the real kubectl on a whole control plane with simulated nodes: rollouts above all."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.req("S.4")
_numbers = itertools.count()
_SECONDS = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    with running_cluster(tmp_path_factory.mktemp("workloads")) as running:
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"node-{number}", "annotations": {"simulation.mooring.dev/node": "true"}},
            }
            for number in range(3)
        ]
        Kubectl(running.kubeconfig).apply(*nodes)
        Kubectl(running.kubeconfig)("wait", "--for=condition=Ready", "node", "--all", "--timeout=30s")
        yield running


@pytest.fixture
def kubectl(cluster: RunningCluster) -> Iterator[Kubectl]:
    namespace = f"workloads-{next(_numbers)}"
    assert cluster.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}) == 201
    yield Kubectl(cluster.kubeconfig, namespace)
    assert cluster.server.request("DELETE", f"/api/v1/namespaces/{namespace}") == 200


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + _SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)
    return found


def images(kubectl: Kubectl) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in kubectl.get("pods")["items"]}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1"}], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def test_rollout_status_history_undo_pause_and_restart_of_a_deployment(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    kubectl("set", "image", "deploy/web", "nginx=nginx:2")
    kubectl("annotate", "deploy/web", "kubernetes.io/change-cause=second image")
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:2"}
    history = until(
        lambda: "second image" in (text := kubectl("rollout", "history", "deploy/web")) and text, "the change cause"
    )
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "nginx:1" in kubectl("rollout", "history", "deploy/web", "--revision=1")

    assert "rolled back" in kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:1"}
    lines = kubectl("rollout", "history", "deploy/web").splitlines()[2:]
    assert [line.split()[0] for line in lines if line] == ["2", "3"]

    assert "paused" in kubectl("rollout", "pause", "deploy/web")
    kubectl("set", "image", "deploy/web", "nginx=nginx:3")
    time.sleep(0.5)
    assert images(kubectl) == {"nginx:1"}
    assert "resumed" in kubectl("rollout", "resume", "deploy/web")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:3"}

    before = {pod["metadata"]["name"] for pod in kubectl.get("pods")["items"]}
    assert "restarted" in kubectl("rollout", "restart", "deploy/web")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    after = {pod["metadata"]["name"] for pod in kubectl.get("pods")["items"]}
    assert not before & after


def test_scale_and_describe(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=1")
    kubectl("scale", "deploy/web", "--replicas=4")
    kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert "4/4" in kubectl("get", "deploy", "web")
    reported = kubectl("describe", "deploy", "web")
    assert "from 1 to 4" in reported
    assert "NewReplicaSetAvailable" in reported


def test_rollouts_of_a_stateful_set(kubectl: Kubectl) -> None:
    kubectl.apply(workload("StatefulSet", replicas=3, serviceName="web"))
    assert "complete" in kubectl("rollout", "status", "sts/web", "--timeout=30s")
    assert kubectl("get", "pods", "-o", "name").split() == ["pod/web-0", "pod/web-1", "pod/web-2"]
    kubectl("set", "image", "sts/web", "web=nginx:2")
    kubectl("rollout", "status", "sts/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:2"}
    assert "rolled back" in kubectl("rollout", "undo", "sts/web")
    kubectl("rollout", "status", "sts/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:1"}
    lines = kubectl("rollout", "history", "sts/web").splitlines()[2:]
    assert [line.split()[0] for line in lines if line] == ["2", "3"]


def test_rollouts_of_a_daemon_set(kubectl: Kubectl) -> None:
    kubectl.apply(workload("DaemonSet"))
    assert "successfully rolled out" in kubectl("rollout", "status", "ds/web", "--timeout=30s")
    nodes = {pod["spec"]["nodeName"] for pod in kubectl.get("pods")["items"]}
    assert nodes == {"node-0", "node-1", "node-2"}
    kubectl("set", "image", "ds/web", "web=nginx:2")
    kubectl("rollout", "status", "ds/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:2"}
    kubectl("rollout", "undo", "ds/web", "--to-revision=1")
    kubectl("rollout", "status", "ds/web", "--timeout=30s")
    assert images(kubectl) == {"nginx:1"}


def test_jobs_complete_and_cron_jobs_can_be_started_by_hand(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox", "--", "true")
    kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=30s")
    assert "1/1" in kubectl("get", "job", "once")
    kubectl("create", "cronjob", "cron", "--image=busybox", "--schedule=@yearly", "--", "true")
    kubectl("create", "job", "by-hand", "--from=cronjob/cron")
    kubectl("wait", "--for=condition=Complete", "job/by-hand", "--timeout=30s")


def test_deleting_a_deployment_takes_its_pods_along_unless_they_shall_stay(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    kubectl("delete", "deploy", "web", "--cascade=orphan")
    assert len(json.loads(kubectl("get", "rs,pods", "-o", "json"))["items"]) == 3
    kubectl("delete", "rs", "--all")
    until(lambda: not kubectl.get("pods")["items"], "the pods to go")
