"""Kubernetes' own components on Mooring: none of them has anything to say against the API.

kube-controller-manager with all its controllers and kube-scheduler run beside `mooring up --without
scheduler,controllers,nodes` while a Deployment rolls: once with kubemark as a kubelet and as kube-proxy, which needs
nothing else, and once with a real kubelet on containerd and the real kube-proxy (``tests/joined_nodes.py``). They run
where MOORING_REAL names the folder of Kubernetes' binaries; elsewhere the tests are skipped and say so.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import joined_nodes
from joined_nodes import JoinedNodes
from kubectl_caller import Kubectl
from real_node import IMAGE
from running_up import running_up

FOLDER = Path(os.environ.get("MOORING_REAL", ""))
NEEDED = ("kube-controller-manager", "kube-scheduler", "kubemark")
MISSING = [name for name in NEEDED if not os.environ.get("MOORING_REAL") or not (FOLDER / name).exists()]
pytestmark = [
    pytest.mark.req("N.11"),
    pytest.mark.skipif(bool(MISSING), reason=f"MOORING_REAL names no folder with {', '.join(MISSING)}"),
]
SECONDS = float(os.environ.get("MOORING_REAL_SECONDS", "60"))
"""For how long the Deployment rolls. For more than a minute, give pytest `-o faulthandler_timeout=0`."""
SERVE = "mkdir -p /www && echo here >/www/index.html && exec httpd -f -p 80 -h /www"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "c",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "command": ["sh", "-c", SERVE],
                        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
                    }
                ],
            },
        },
    },
}
NOT_ABOUT_THE_API = re.compile(
    r"rpc error|cgroup|oom score|rlimit|filesystem info|ImageFs|container runtime status"  # containerd, the machine
    r"|is not as new as written version|is not registered yet|error getting node"  # informers are a moment behind
    r"|unimplemented testing mock"  # kubemark's containers
    r"|manifest file is empty"  # a list of metrics that the component was not given
)
"""What is filtered out of error lines, and why: it is about the machine or the component. Every other line counts.

With kube-apiserver and etcd in Mooring's place, 41 rollouts in two minutes left 178 lines about informers that were
behind, and kubelets complained, too, about a Node that is not registered yet.
"""


@contextmanager
def running(folder: Path, name: str, command: str, *flags: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen([FOLDER / command, *flags], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def control_plane(folder: Path, data: Path, kubeconfig: Path) -> Iterator[None]:
    """kube-controller-manager with all its controllers, and kube-scheduler."""
    pki, config = data / "pki", f"--kubeconfig={kubeconfig}"
    common = (
        "--leader-elect=false",
        "--secure-port=0",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    )
    signing = (
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        f"--service-account-private-key-file={pki}/sa.key",
    )
    with (
        running(folder, "controllers", "kube-controller-manager", config, *common, *signing, "--controllers=*"),
        running(folder, "scheduler", "kube-scheduler", config, *common),
    ):
        yield


def complaints(*logs: Path) -> list[str]:
    """Error lines about the API, of all components."""
    lines = [(log.stem, line) for log in logs for line in since_registered(log.read_text(errors="replace"))]
    return [
        f"{name}: {line[:300]}"
        for name, line in lines
        if re.match(r"E\d{4} ", line) and not NOT_ABOUT_THE_API.search(line)
    ]


def since_registered(log: str) -> list[str]:
    """Return a kubelet that joins asks for its Node, and with a node's rights, before it has either: on any cluster."""
    return log.partition("Successfully registered node")[2].splitlines() or log.splitlines()


def roll(kubectl: Kubectl, seconds: float) -> int:
    """Change a Deployment with a Service again and again; how often that was."""
    end, number = time.monotonic() + seconds, 0
    kubectl("expose", "deployment", "web", "--port=80")
    while time.monotonic() < end or not number:
        number += 1
        kubectl("set", "env", "deployment/web", f"NUMBER={number}")
        kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "name")
    assert kubectl("get", "configmap", "kube-root-ca.crt", "-o", "name")
    return number


def test_a_deployment_rolls_under_kubernetes_own_components(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    logs.mkdir()
    without = ("--without", "scheduler,controllers,nodes", "--nodes", "0")
    with running_up("--data-dir", str(data), *without) as plane:
        kubectl, own = Kubectl(plane.kubeconfig, "default"), f"--kubeconfig={plane.kubeconfig}"
        hollow = (own, "--name=hollow-1")
        with (
            control_plane(logs, data, plane.kubeconfig),
            running(logs, "kubelet", "kubemark", *hollow, "--morph=kubelet", "--use-host-image-service=false"),
            running(logs, "proxy", "kubemark", *hollow, "--morph=proxy"),
        ):
            kubectl("create", "deployment", "web", "--image=nginx:0", "--replicas=3")
            roll(kubectl, SECONDS)
            assert complaints(*logs.glob("*.log")) == []


@pytest.mark.skipif(bool(joined_nodes.missing()), reason=f"no real node: {joined_nodes.missing()}")
def test_a_deployment_rolls_on_a_real_node_with_a_real_proxy(tmp_path: Path) -> None:
    """The Service's address answers in the end: kube-proxy has understood what the API sent."""
    logs = tmp_path / "logs"
    logs.mkdir()

    def beside(cluster: JoinedNodes) -> AbstractContextManager[None]:
        return control_plane(logs, cluster.data_dir, cluster.kubectl.kubeconfig)

    with joined_nodes.joined_nodes(tmp_path, [9], "--without", "scheduler,controllers,nodes", beside=beside) as cluster:
        node = cluster.nodes[0]
        cluster.kubectl.apply(DEPLOYMENT)
        roll(cluster.kubectl, SECONDS)
        address = cluster.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
        ask = f"import urllib.request; print(urllib.request.urlopen('http://{address}/', timeout=10).read())"
        asked = [*cluster.networks[0].enter, sys.executable, "-c", ask]
        assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout == "b'here\\n'\n"
        parts = [node.folder / "kubelet.log", node.folder / "kube-proxy.log"]
        assert complaints(*logs.glob("*.log"), *parts) == []
