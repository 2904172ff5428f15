"""Real kubectl against a real server, command by command."""

import json
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_server import RunningServer

pytestmark = pytest.mark.req("S.1")


def deployment(name: str = "web", replicas: int = 2, image: str = "img:1") -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "img"}], **spec},
    }


@dataclass(frozen=True)
class Prints:
    """A command on a cluster with the deployment `web`, and what it prints."""

    id: str
    command: str
    printed: str


PRINTS = [
    Prints(
        "get as a table", "get deploy", "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/2     0            0"
    ),
    Prints("get as a wide table", "get deploy -o wide", "CONTAINERS   IMAGES   SELECTOR\n"),
    Prints("get names", "get deploy -o name", "deployment.apps/web\n"),
    Prints("get as yaml", "get deploy web -o yaml", "kind: Deployment\n"),
    Prints("get as json", "get deploy web -o json", '"kind": "Deployment"'),
    Prints("get by jsonpath", "get deploy web -o jsonpath={.spec.replicas}", "2"),
    Prints("get columns", "get deploy -o custom-columns=N:.metadata.name,R:.spec.replicas", "N     R\nweb   2\n"),
    Prints("get sorted", "get deploy --sort-by=.metadata.name", "web    0/2"),
    Prints("get by label", "get deploy -l app=web", "web    0/2"),
    Prints("get by another label", "get deploy -l app=other", "No resources found in"),
    Prints("get with labels", "get deploy --show-labels", "LABELS\nweb "),
    Prints("get everywhere", "get deploy -A", "NAMESPACE"),
    Prints("get all", "get all", "deployment.apps/web"),
    Prints("describe", "describe deploy web", "Replicas:               2 desired | 0 updated | 0 total"),
    Prints("label", "label deploy web tier=front", "deployment.apps/web labeled"),
    Prints("annotate", "annotate deploy web note=this", "deployment.apps/web annotated"),
    Prints("scale", "scale deploy web --replicas=5", "deployment.apps/web scaled"),
    Prints("set image", "set image deploy/web c=img:2", "deployment.apps/web image updated"),
    Prints("set env", "set env deploy/web A=b", "deployment.apps/web env updated"),
    Prints(
        "set resources",
        "set resources deploy/web --requests=cpu=100m",
        "deployment.apps/web resource requirements updated",
    ),
    Prints("expose", "expose deploy web --port=80", "service/web exposed"),
    Prints("rollout history", "rollout history deploy/web", "deployment.apps/web \n"),
    Prints("rollout pause", "rollout pause deploy/web", "deployment.apps/web paused"),
    Prints("rollout restart", "rollout restart deploy/web", "deployment.apps/web restarted"),
    Prints("patch strategically", 'patch deploy web -p {"spec":{"replicas":1}}', "deployment.apps/web patched"),
    Prints(
        "patch by merging", 'patch deploy web --type=merge -p {"spec":{"replicas":1}}', "deployment.apps/web patched"
    ),
    Prints(
        "patch by operations",
        'patch deploy web --type=json -p [{"op":"replace","path":"/spec/replicas","value":4}]',
        "deployment.apps/web patched",
    ),
    Prints(
        "patch a subresource",
        'patch deploy web --subresource=scale --type=merge -p {"spec":{"replicas":3}}',
        "scale.autoscaling/web patched",
    ),
    Prints("run", "run one --image=nginx", "pod/one created"),
    Prints("create a configmap", "create configmap cm --from-literal=a=b", "configmap/cm created"),
    Prints("create a secret", "create secret generic s --from-literal=a=b", "secret/s created"),
    Prints("create a deployment", "create deployment d --image=nginx --replicas=2", "deployment.apps/d created"),
    Prints("create a job", "create job j --image=nginx", "job.batch/j created"),
    Prints("create a cronjob", "create cronjob c --image=nginx --schedule=@daily", "cronjob.batch/c created"),
    Prints(
        "create a budget", "create pdb b --selector=app=web --min-available=1", "poddisruptionbudget.policy/b created"
    ),
    Prints("create a service", "create service clusterip s --tcp=80:80", "service/s created"),
    Prints("create a service account", "create serviceaccount sa", "serviceaccount/sa created"),
    Prints("create a role", "create role r --verb=get --resource=pods", "role.rbac.authorization.k8s.io/r created"),
    Prints("create a quota", "create quota q --hard=pods=3", "resourcequota/q created"),
    Prints("explain", "explain pod.spec.tolerations.operator", "FIELD: operator <string>"),
    Prints("explain all below", "explain pod.spec.affinity --recursive", "nodeSelectorTerms"),
    Prints("list resources", "api-resources --namespaced=true", "deployments"),
    Prints("list versions", "api-versions", "apps/v1\n"),
    Prints("list events", "events", "No events found in"),
    Prints(
        "wait for a value",
        "wait --for=jsonpath={.spec.replicas}=2 deploy/web --timeout=5s",
        "deployment.apps/web condition met",
    ),
    Prints("ask what may be done", "auth can-i create pods", "yes"),
    Prints("ask who one is", "auth whoami", "Username"),
    Prints("tell the version", "version", "Server Version: v1.37"),
    Prints("delete", "delete deploy web", 'deployment.apps "web" deleted'),
    Prints("delete and wait for dependents", "delete deploy web --cascade=background", 'deployment.apps "web" deleted'),
    Prints("delete by label", "delete deploy -l app=web", 'deployment.apps "web" deleted'),
]


@pytest.mark.parametrize("case", PRINTS, ids=lambda case: case.id)
def test_kubectl_can(kubectl: Kubectl, case: Prints) -> None:
    kubectl.apply(deployment())
    assert case.printed in kubectl(*case.command.split(" "))


def test_apply_creates_then_configures_then_leaves_alone(kubectl: Kubectl) -> None:
    assert "created" in kubectl.apply(deployment())
    assert "unchanged" in kubectl.apply(deployment())
    assert "configured" in kubectl.apply(deployment(replicas=4))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "4"


def test_apply_removes_what_is_no_longer_there(kubectl: Kubectl) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    kubectl.apply({**data, "data": {"a": "1", "b": "2"}})
    kubectl("patch", "cm", "c", "--type=merge", "-p", '{"data":{"own":"3"}}')
    kubectl.apply({**data, "data": {"a": "1"}})
    assert kubectl.get("cm", "c")["data"] == {"a": "1", "own": "3"}


def test_server_side_apply_reports_conflicts_and_can_force(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(), flags=("--server-side",))
    kubectl("scale", "deploy", "web", "--replicas=7")
    conflict = kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(deployment()), code=1)
    assert (
        'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas'
        in conflict
    )
    forced = kubectl.apply(deployment(), flags=("--server-side", "--force-conflicts"))
    assert "serverside-applied" in forced
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_apply_moves_from_the_client_to_the_server(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    assert "serverside-applied" in kubectl.apply(deployment(), flags=("--server-side",))
    assert "serverside-applied" in kubectl.apply(deployment(replicas=3), flags=("--server-side",))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_diff_shows_what_would_change(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    assert kubectl("diff", "-f", "-", stdin=json.dumps(deployment())) == ""
    changed = kubectl("diff", "-f", "-", stdin=json.dumps(deployment(replicas=9)), code=1)
    assert "-  replicas: 2\n+  replicas: 9\n" in changed


def test_replace(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    assert "replaced" in kubectl("replace", "-f", "-", stdin=json.dumps(deployment(replicas=8)))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "8"


def test_a_dry_run_on_the_server(kubectl: Kubectl) -> None:
    assert "created (server dry run)" in kubectl.apply(deployment(), flags=("--dry-run=server",))
    assert "NotFound" in kubectl("get", "deploy", "web", code=1)


def test_a_wrong_manifest_is_refused_by_name(kubectl: Kubectl) -> None:
    wrong = deployment()
    wrong["spec"]["replica"] = 2
    printed = kubectl("apply", "-f", "-", stdin=json.dumps(wrong), code=1)
    assert 'strict decoding error: unknown field "spec.replica"' in printed
    del wrong["spec"]["replica"]
    wrong["spec"]["template"]["spec"]["containers"] = []
    printed = kubectl("apply", "-f", "-", stdin=json.dumps(wrong), code=1)
    assert "spec.template.spec.containers: Required value" in printed


def test_sorting_is_by_the_field_that_is_named(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("a", 3), deployment("b", 1), deployment("c", 2))
    assert kubectl("get", "deploy", "--sort-by=.spec.replicas", "-o", "name").split() == [
        "deployment.apps/b",
        "deployment.apps/c",
        "deployment.apps/a",
    ]


def test_commands_change_what_they_say(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    kubectl("set", "image", "deploy/web", "c=img:2")
    kubectl("label", "deploy", "web", "tier=front")
    kubectl("annotate", "deploy", "web", "note=this")
    kubectl("scale", "deploy", "web", "--replicas=5", "--current-replicas=2")
    kubectl("expose", "deploy", "web", "--port=80", "--target-port=8080")
    found = kubectl.get("deploy", "web")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "img:2"
    assert found["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert found["metadata"]["annotations"]["note"] == "this"
    assert found["spec"]["replicas"] == 5
    [port] = kubectl.get("service", "web")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, 8080)


def test_delete_takes_what_a_label_selects_and_nothing_else(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"), deployment("other"), pod("web"))
    kubectl("delete", "deploy,pod", "-l", "app=web")
    assert kubectl("get", "deploy,pod", "-o", "name").split() == ["deployment.apps/other"]


def test_what_no_user_may_do_is_reported(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "pods", "--as=nobody", code=1).strip() == "no"
    printed = kubectl("get", "pods", "--as=nobody", code=1)
    assert 'pods is forbidden: User "nobody" cannot list resource "pods" in API group ""' in printed


def test_edit_with_an_editor(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl.apply(deployment())
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/replicas:.2/replicas:\\ 6/")
    assert "edited" in kubectl("edit", "deploy", "web")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "6"


def test_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    kubectl.apply(deployment())
    assert KUBECTL is not None
    command = [KUBECTL, "--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace, "get", "deploy", "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        first = [watch.stdout.readline() for _ in range(2)]
        kubectl("scale", "deploy", "web", "--replicas=5")
        changed = watch.stdout.readline()
        watch.kill()
    assert first[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert first[1].split()[:2] == ["web", "0/2"]
    assert changed.split()[:2] == ["web", "0/5"]


def test_wait_sees_a_deletion(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    assert KUBECTL is not None
    command = [
        KUBECTL,
        "--kubeconfig",
        str(kubectl.kubeconfig),
        "-n",
        kubectl.namespace,
        "wait",
        "--for=delete",
        "pod/p",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        time.sleep(0.5)
        kubectl("delete", "pod", "p")
        printed, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert "condition met" in printed


def test_wait_for_a_condition_of_the_status(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    condition = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", json.dumps(condition))
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=5s")


@pytest.fixture
def node(kubectl: Kubectl) -> Any:
    name = f"node-{kubectl.namespace}"
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}}
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
    kubectl("taint", "node", name, "node.kubernetes.io/not-ready-")
    kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    yield name
    kubectl("delete", "node", name)


def test_taint_and_untaint(kubectl: Kubectl, node: str) -> None:
    assert "tainted" in kubectl("taint", "node", node, "disk=slow:NoExecute")
    [taint] = kubectl.get("node", node)["spec"]["taints"]
    assert (taint["key"], taint["value"], taint["effect"]) == ("disk", "slow", "NoExecute")
    assert taint["timeAdded"]
    assert "untainted" in kubectl("taint", "node", node, "disk-")
    assert "taints" not in kubectl.get("node", node)["spec"]


def test_cordon_and_uncordon(kubectl: Kubectl, node: str) -> None:
    assert "cordoned" in kubectl("cordon", node)
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
    assert "uncordoned" in kubectl("uncordon", node)


def test_describe_a_node_with_its_pods(kubectl: Kubectl, node: str) -> None:
    kubectl.apply(pod(nodeName=node))
    printed = kubectl("describe", "node", node)
    assert "Non-terminated Pods:          (1 in total)" in printed


def test_drain_evicts_what_a_budget_allows(kubectl: Kubectl, node: str) -> None:
    kubectl.apply(pod("free", nodeName=node), pod("kept", nodeName=node))
    for name in ("free", "kept"):
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(running))
    kubectl("create", "pdb", "keep", "--selector=app=kept", "--min-available=1")
    budget = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    status = json.dumps({"status": {**budget, "expectedPods": 1}})
    kubectl("patch", "pdb", "keep", "--subresource=status", "--type=merge", "-p", status)
    printed = kubectl("drain", node, "--force", "--grace-period=0", "--timeout=2s", code=1)
    assert "pod/free evicted" in printed
    assert "Cannot evict pod as it would violate the pod's disruption budget" in printed
    assert kubectl.get("pod", "kept")["metadata"].get("deletionTimestamp") is None


def test_a_pod_on_a_node_is_deleted_by_force(kubectl: Kubectl, node: str) -> None:
    kubectl.apply(pod(nodeName=node))
    assert "deleted" in kubectl("delete", "pod", "p", "--wait=false")
    assert "Terminating" in kubectl("get", "pod", "p")
    assert "force deleted" in kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert "NotFound" in kubectl("get", "pod", "p", code=1)


def test_describe_a_pod_shows_its_events(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    uid = kubectl.get("pod", "p")["metadata"]["uid"]
    about = {"kind": "Pod", "name": "p", "namespace": kubectl.namespace, "uid": uid, "apiVersion": "v1"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "involvedObject": about,
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "type": "Warning",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "default-scheduler"},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "FailedScheduling" in kubectl("describe", "pod", "p")
    assert "0/1 nodes are available" in kubectl("events", "--for", "pod/p")


def test_namespaces_priority_classes_and_tokens_are_created(kubectl: Kubectl) -> None:
    name = f"other-{kubectl.namespace}"
    assert "created" in kubectl("create", "namespace", name)
    assert "created" in kubectl("create", "priorityclass", name, "--value=1000")
    kubectl("create", "serviceaccount", "robot")
    assert kubectl("create", "token", "robot").count(".") == 2
    assert "deleted" in kubectl("delete", "ns", name, "--wait=false")


def test_paging_shows_everything(kubectl: Kubectl) -> None:
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{n:03}"}} for n in range(25)]
    kubectl.apply(*maps)
    printed = kubectl("get", "cm", "--chunk-size=10", "-o", "name")
    assert printed.split() == [f"configmap/c{n:03}" for n in range(25)]


def test_a_raw_request(kubectl: Kubectl) -> None:
    kubectl.apply(pod())
    listed = json.loads(kubectl("get", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/pods"))
    assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]


def test_the_server_is_ready(kubectl: Kubectl, server: RunningServer) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert server.process.poll() is None
