"""`mooring up` on two machines with the same etcd: both serve, one schedules, and the other goes on when it ends."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from etcd_servers import etcd_cluster
from eventually import eventually
from kubectl_caller import KUBECTL, Kubectl
from running_up import RunningUp, start_up

pytestmark = [
    pytest.mark.req("S.7"),
    pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine"),
]
LEASES = ("mooring-scheduler", "mooring-controllers")
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "x"}]}}


def test_the_second_one_stands_by_and_takes_over(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path / "etcd") as etcd:
        running: list[RunningUp] = []
        try:
            running.append(start_up("--data-dir", str(tmp_path / "a"), "--nodes", "2", *etcd.flags()))
            shutil.copytree(tmp_path / "a/pki", tmp_path / "b/pki")
            a = Kubectl(tmp_path / "a/admin.kubeconfig")
            _run(a, "first")
            running.append(start_up("--data-dir", str(tmp_path / "b"), *etcd.flags()))
            b = Kubectl(tmp_path / "b/admin.kubeconfig")
            before = _holders(b)
            _run(b, "second")
            assert _holders(a) == before, "the one that worked goes on"
            assert running.pop(0).stop(signal.SIGTERM) == 0
            _run(b, "third")
            assert not set(_holders(b)) & set(before)
        finally:
            for plane in running:
                plane.stop()


@pytest.mark.slow
def test_one_that_was_stopped_for_too_long_stands_by_afterwards(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path / "etcd") as etcd:
        running = [start_up("--data-dir", str(tmp_path / "a"), "--nodes", "2", *etcd.flags())]
        try:
            shutil.copytree(tmp_path / "a/pki", tmp_path / "b/pki")
            running.append(start_up("--data-dir", str(tmp_path / "b"), *etcd.flags()))
            b = Kubectl(tmp_path / "b/admin.kubeconfig")
            before = _holders(b)
            [workers] = running[0].children()
            os.kill(workers, signal.SIGSTOP)
            eventually(lambda: not set(_holders(b)) & set(before), 30)
            os.kill(workers, signal.SIGCONT)
            eventually(lambda: running[0].children() not in ([], [workers]))  # it has ended, and there is another one
            _run(b, "after")
            assert running[0].process.poll() is None
        finally:
            for plane in running:
                plane.stop()


def _run(kubectl: Kubectl, name: str) -> None:
    """Have a pod run, for which both scheduler and controllers must work."""
    kubectl.apply({**POD, "metadata": {"name": name}})
    eventually(lambda: kubectl.get("pod", name)["status"].get("phase") == "Running")


def _holders(kubectl: Kubectl) -> list[str]:
    return [kubectl.get("lease", "-n", "kube-system", name)["spec"]["holderIdentity"] for name in LEASES]
