"""A person who got the address finds out why a pod is pending and what to change, and sees that it helped."""

from pathlib import Path

import pytest

from dashboard_browser import Look
from kubectl_caller import KUBECTL, Kubectl
from mooring.cli.support.dashboard_process import READY
from running_up import RunningUp, is_alive, running_up, wait_until

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: c, image: i}]
"""


def _address(plane: RunningUp) -> str:
    assert plane.process.stdout
    for line in plane.process.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    raise AssertionError("mooring up --dashboard printed no address")


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
@pytest.mark.req("D.1", "D.3")
def test_why_a_pod_is_pending_and_what_to_change_is_found_by_clicking(look: Look) -> None:
    with running_up("--ephemeral", "--nodes", "2", "--dashboard") as plane:
        address = _address(plane)
        (dashboard,) = [pid for pid in plane.children() if b"--while-stdin" in _command_line(pid)]
        kubectl = Kubectl(plane.kubeconfig)
        page = look().page
        page.goto(address)
        page.wait_for_selector("#figures")
        kubectl("apply", "-f", "-", stdin=POD)
        page.get_by_role("link", name="pending: why?").click()  # the page learnt of the pod by itself
        page.wait_for_selector("#reasons h2:has-text('no node has the label')")
        command = page.locator(".command code", has_text="kubectl label node").first.inner_text()
        kubectl.shell(command)
        page.wait_for_selector("text=Every pod runs.")  # without being loaded again
        page.get_by_role("link", name="Overview").click()
        page.wait_for_selector("#lately :text('default/web: got a node')")
        assert plane.stop() == 0
        wait_until(lambda: not is_alive(dashboard))


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
