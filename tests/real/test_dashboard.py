"""The dashboard of a stock Kubernetes: every view in a real browser, and a change that kube-scheduler answers to.

Runs where MOORING_REAL names the folder of Kubernetes' binaries; elsewhere it is skipped and says so.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

import real_cluster
from browser_fixtures import browser, look
from dashboard_browser import Look
from eventually import eventually
from kubectl_caller import Kubectl
from mooring.cli.support.dashboard_process import READY

__all__ = ["browser", "look"]
pytestmark = [
    pytest.mark.skipif(bool(real_cluster.missing()), reason=f"no real cluster: {real_cluster.missing()}"),
    pytest.mark.req("D.1"),
]
_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        },
    },
}
_WAITING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "on-ssd"},
    "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i"}]},
}


def _node(kubectl: Kubectl, number: int) -> None:
    """Create a node that claims to be ready without a kubelet, every second one with a taint."""
    name = f"node-{number}"
    labels = {"topology.kubernetes.io/zone": f"zone-{number % 2}", "kernel": f"6.{number}.0"}
    kubectl(
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}),
    )
    begun = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": begun, "lastTransitionTime": begun}
    status = {"status": {"capacity": _ROOM, "allocatable": _ROOM, "conditions": [ready]}}
    kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    taints = [{"key": "sla", "value": "940", "effect": "NoExecute"}] if number % 2 else []
    kubectl("patch", "node", name, "--type=merge", "-p", json.dumps({"spec": {"taints": taints}}))


@dataclass(frozen=True)
class Shown:
    kubectl: Kubectl
    address: str


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield a cluster with four nodes, three pods that have one and one that waits, and its dashboard."""
    with real_cluster.real_cluster(tmp_path_factory.mktemp("real")) as kubectl:
        for number in range(4):
            _node(kubectl, number)
        kubectl.apply(_DEPLOYMENT, _WAITING)
        placed = ("get", "pods", "-o", "name", "--field-selector", "spec.nodeName!=")
        eventually(lambda: kubectl.run(*placed).stdout.count("pod/") == 3, 120)
        command = [sys.executable, "-m", "mooring", "dashboard", "--no-browser", "--allow-changes"]
        command += ["--kubeconfig", str(kubectl.kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            yield Shown(kubectl, process.stdout.readline().removeprefix(READY).strip())
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize(
    ("path", "place", "text"),
    [
        ("", "#figures", "3\npods with a node\n1\npending: why?"),
        ("", "#map", "zone-1: 2 nodes, 0% of cpu requested"),
        ("", "#lately", "default/on-ssd: found no node"),
        ("pending", "#reasons", "no node has the label disk that the pod selects (disk=ssd)"),
        ("pending", "#reasons", "label node node-0 with disk=ssd"),
        ("pods/default/on-ssd", "#matrix", "taint sla=940:NoExecute is not tolerated"),
        ("nodes", "#found", "node-3"),
        ("nodes/node-1", "#question", "sla between 930 and 950"),
        ("nodes/node-1/eviction?key=sla&value=1&effect=NoExecute", "body", "With sla=1:NoExecute 0 of 0 pods"),
        ("versions", "main", "TaintTolerationNodeAffinityCEL, CompatibilityVersions: not shown, so they count as off"),
        ("versions?to=1.36", "#audit", "nothing breaks"),
        ("expressions?kind=semver&key=kernel&expression=>=6.2", "#tried", "It holds on 2 of 4 nodes"),
    ],
)
def test_every_view_of_a_stock_kubernetes(path: str, place: str, text: str, look: Look, shown: Shown) -> None:
    page = look().page
    page.goto(shown.address)
    page.wait_for_selector("#figures")
    page.goto(shown.address + path)
    expect(page.locator(place)).to_contain_text(text, use_inner_text=True, timeout=60_000)


def test_a_simulation_of_a_stock_kubernetes(look: Look, shown: Shown) -> None:
    page = look().page
    page.goto(f"{shown.address}what-if")
    page.get_by_label("Nodes: names or patterns").fill("node-0")
    page.get_by_role("button", name="Add the step").click()
    page.wait_for_selector("#scenario-box li:has-text('drain node-0')")
    page.get_by_role("button", name="Run it").click()
    expect(page.locator("#outcome h2").first).to_have_text("What would happen if: drain node-0", timeout=60_000)


def test_kube_scheduler_places_the_pod_after_the_change_from_the_page(look: Look, shown: Shown) -> None:
    page = look().page
    page.goto(f"{shown.address}pending")
    page.get_by_role("button", name="Do it: label node node-0 with disk=ssd").click(timeout=60_000)
    page.locator("dialog").get_by_role("button", name="Do it").click()
    expect(page.locator("dialog h2")).to_have_text("Done")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#reasons")).to_have_text("Every pod runs.", timeout=60_000)
    assert shown.kubectl.get("pod", "on-ssd")["spec"]["nodeName"] == "node-0"


def test_a_refusal_is_reported_in_the_words_of_kube_apiserver(look: Look, shown: Shown) -> None:
    page = look().page
    page.goto(f"{shown.address}nodes/node-2")
    form = page.locator("#question form", has_text="Another taint")
    form.get_by_label("Key").fill("not a key")
    form.get_by_role("button", name="Add this taint").click()
    page.locator("dialog").get_by_role("button", name="Do it").click()
    expect(page.locator("dialog .notice")).to_contain_text("taints[0].key: Invalid value")
