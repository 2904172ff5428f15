"""`mooring record` on real Kubernetes: what kube-scheduler did is written, over an interruption too, and replayed.

Runs where MOORING_REAL names the folder of Kubernetes' binaries; elsewhere it is skipped and says so.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import real_cluster
from eventually import eventually
from kubectl_caller import Kubectl

pytestmark = [
    pytest.mark.req("T.1", "T.7"),
    pytest.mark.skipif(bool(real_cluster.missing()), reason=f"no real cluster: {real_cluster.missing()}"),
]
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@contextmanager
def recording(kubectl: Kubectl, path: Path, *options: str) -> Iterator[None]:
    """Record until Ctrl-C."""
    command = [sys.executable, "-m", "mooring", "record", str(path), "--kubeconfig", str(kubectl.kubeconfig), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield
        process.send_signal(signal.SIGINT)
        _, reported = process.communicate(timeout=30)
        assert process.returncode == 0, reported
    finally:
        process.kill()


def node(kubectl: Kubectl, name: str) -> None:
    tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"size": name}}}
    kubectl("create", "-f", "-", stdin=json.dumps(tree))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": ROOM, "allocatable": ROOM}
    kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": ready}))
    kubectl("taint", "node", name, "node.kubernetes.io/not-ready-", code=None)


def pod(kubectl: Kubectl, name: str, size: str) -> None:
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeSelector": {"size": size}}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps(tree))


def has(path: Path, *words: str) -> bool:
    """Whether some line has all these words."""
    return path.exists() and any(all(word in line for word in words) for line in path.read_text().splitlines())


def replayed(path: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mooring", "simulate", "--trace", str(path), "--keep-placements", "-o", "json"]
    found = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    reported: dict[str, Any] = json.loads(found.stdout)
    return reported


def test_what_kube_scheduler_did_is_recorded_and_replayed(tmp_path: Path) -> None:
    path, secret = tmp_path / "day.csv", tmp_path / "public.csv"
    with real_cluster.real_cluster(tmp_path) as kubectl:
        with recording(kubectl, path):
            for name in ("small", "large"):
                node(kubectl, name)
            eventually(lambda: has(path, ",add,Node,,small,") and has(path, ",add,Node,,large,"), 60)
            pod(kubectl, "one", "small")
            pod(kubectl, "two", "large")
            eventually(
                lambda: has(path, ",bind,Pod,default,one,small") and has(path, ",bind,Pod,default,two,large"), 60
            )
        kubectl("delete", "pod", "one", "--grace-period=0", "--force")
        with recording(kubectl, path):
            eventually(lambda: has(path, ",remove,Pod,default,one,"), 60)
            pod(kubectl, "three", "small")
            eventually(lambda: has(path, ",bind,Pod,default,three,small"), 60)
        with recording(kubectl, secret, "--anonymise"):
            eventually(lambda: has(secret, ",add,Pod,"), 60)
    reported = replayed(path)
    assert reported["placements"] == {"default/one": "small", "default/two": "large", "default/three": "small"}
    assert reported["elsewhere"] == 0
    assert reported["numbers"]["running"] == 2
    text = secret.read_text()
    assert not [word for word in ("small", "three", "registry.example") if word in text]
    assert replayed(secret)["numbers"]["running"] == 2
