"""Eviction, simulated nodes and garbage collection as people see them: a whole control plane and the real kubectl."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from eventually import eventually
from kubectl_caller import KUBECTL, Kubectl
from running_up import RunningUp, running_up

pytestmark = [pytest.mark.req("S.4"), pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    with running_up("--data-dir", str(tmp_path_factory.mktemp("up")), "--nodes", "3", "--single-process") as running:
        yield running


@pytest.fixture
def kubectl(plane: RunningUp) -> Kubectl:
    return Kubectl(plane.kubeconfig)


def pod(name: str, node: str, *tolerations: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return a pod that is put on a node by hand, so that only the controllers matter."""
    metadata = {
        "name": name,
        "annotations": {f"simulation.mooring.dev/{key}": value for key, value in annotations.items()},
    }
    spec = {"nodeName": node, "tolerations": list(tolerations), "containers": [{"name": "c", "image": "app:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.req("5471.7")
@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=pytest.mark.slow, id="30, as the proposal has it")])
def test_story_2_in_real_time(kubectl: Kubectl, seconds: int) -> None:
    """At 960 the pod has its seconds; when the value drops to 940 a pod that wanted more than 950 goes at once."""
    more_than_950 = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
    kubectl.apply(
        pod("patient", "node-0", {**more_than_950, "tolerationSeconds": seconds}),
        pod("faithful", "node-1", {**more_than_950, "tolerationSeconds": 300}),
    )
    kubectl("wait", "--for=condition=Ready", "pod/patient", "pod/faithful", "--timeout=30s")
    began = time.monotonic()
    kubectl("taint", "node", "node-0", "sla=960:NoExecute")
    eventually(lambda: "patient" not in kubectl("get", "pods", "-o", "name"), seconds=seconds + 15)
    assert time.monotonic() - began > seconds - 1.1, "timeAdded is cut to the second"
    evictions = ("get", "events", "--field-selector", "reason=TaintManagerEviction")
    eventually(lambda: "Marking for deletion Pod default/patient" in kubectl(*evictions))
    kubectl("taint", "node", "node-1", "sla=960:NoExecute")
    kubectl("taint", "node", "node-1", "sla=940:NoExecute", "--overwrite")
    eventually(lambda: "faithful" not in kubectl("get", "pods", "-o", "name"))  # long before its 300 seconds are over
    kubectl("taint", "node", "node-0", "node-1", "sla-")


def test_a_drained_node_is_empty_and_back_in_service(kubectl: Kubectl) -> None:
    kubectl.apply(pod("moving", "node-2"))
    kubectl("wait", "--for=condition=Ready", "pod/moving", "--timeout=30s")
    kubectl("drain", "node-2", "--force", "--ignore-daemonsets", "--timeout=30s")
    assert "moving" not in kubectl("get", "pods", "-o", "name")
    assert "SchedulingDisabled" in kubectl("get", "node", "node-2")
    taints = "jsonpath={.spec.taints[*].key}"
    eventually(lambda: kubectl("get", "node", "node-2", "-o", taints) == "node.kubernetes.io/unschedulable")
    kubectl("uncordon", "node-2")
    eventually(lambda: kubectl("get", "node", "node-2", "-o", taints) == "")


def test_get_pods_shows_what_a_real_cluster_would(kubectl: Kubectl) -> None:
    crashing = pod("crashing", "node-0", **{"run-seconds": "0.1", "failure-probability": "1"})
    done = pod("done", "node-0", **{"run-seconds": "0.1"})
    done["spec"]["restartPolicy"] = "Never"
    slow = pod("slow", "node-0", **{"start-seconds": "3600"})
    kubectl.apply(crashing, done, slow, pod("plain", "node-0"))
    statuses = {"crashing": "CrashLoopBackOff", "done": "Completed", "slow": "ContainerCreating", "plain": "Running"}
    eventually(lambda: _statuses(kubectl, statuses) == statuses)
    described = kubectl("describe", "pod", "plain")
    assert "Container started: c" in described
    assert "kubelet" in described
    kubectl("delete", "pod", "crashing", "done", "slow", "plain")


def _statuses(kubectl: Kubectl, names: Iterable[str]) -> dict[str, str]:
    lines = [line.split() for line in kubectl("get", "pods", *names, "--no-headers").splitlines()]
    return {line[0]: line[2] for line in lines}


def test_a_deployment_goes_with_its_pods_in_the_foreground(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=app:1", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=30s")
    assert kubectl("get", "pods,replicasets", "-l", "app=web", "-o", "name") == ""


def test_a_deployment_leaves_its_pods_on_request(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "left", "--image=app:1", "--replicas=2")
    kubectl("rollout", "status", "deployment/left", "--timeout=30s")
    kubectl("delete", "deployment", "left", "--cascade=orphan", "--timeout=30s")
    assert len(kubectl("get", "pods", "-l", "app=left", "-o", "name").split()) == 2
    kubectl("delete", "replicaset", "-l", "app=left")
    eventually(lambda: kubectl("get", "pods", "-l", "app=left", "-o", "name") == "")


def test_a_namespace_goes_with_what_runs_in_it(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team")
    eventually(lambda: "default" in kubectl("-n", "team", "get", "serviceaccounts", "-o", "name"))
    kubectl("-n", "team", "create", "deployment", "web", "--image=app:1", "--replicas=2")
    kubectl("-n", "team", "rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("delete", "namespace", "team", "--timeout=40s")
    assert "team" not in kubectl("get", "namespaces", "-o", "name")


def test_a_service_shows_the_endpoints_behind_it(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "shop", "--image=app:1", "--replicas=2", "--port=8080")
    kubectl("expose", "deployment", "shop", "--port=80", "--target-port=8080")
    kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    addresses = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"
    slices = ("get", "endpointslices", "-l", "kubernetes.io/service-name=shop", "-o")
    eventually(lambda: len(kubectl(*slices, addresses).split()) == 2)
    kubectl("delete", "service,deployment", "shop")
    eventually(lambda: kubectl(*slices, "name") == "")


def test_a_budget_keeps_a_drain_waiting(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "kept", "--image=app:1", "--replicas=2")
    kubectl("create", "poddisruptionbudget", "kept", "--selector=app=kept", "--min-available=2")
    kubectl("rollout", "status", "deployment/kept", "--timeout=30s")
    shown = "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}"
    eventually(lambda: kubectl("get", "pdb", "kept", "-o", shown) == "2 0")
    name = kubectl("get", "pods", "-l", "app=kept", "-o", "jsonpath={.items[0].spec.nodeName}")
    assert "would violate" in kubectl("drain", name, "--force", "--timeout=3s", code=1)
    kubectl("uncordon", name)
    kubectl("delete", "pdb,deployment", "kept")


def test_a_claim_is_bound_to_a_volume_out_of_thin_air(kubectl: Kubectl) -> None:
    kubectl.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "simulated"},
            "provisioner": "simulation.mooring.dev/volumes",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "simulated",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=30s")
    kubectl("delete", "pvc", "data", "--timeout=30s")
    eventually(lambda: kubectl("get", "pv", "-o", "name") == "")
