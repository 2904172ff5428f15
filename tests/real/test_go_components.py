"""Kubernetes' own components on Mooring: none of them has anything to say against the API.

kube-controller-manager with all its controllers, kube-scheduler, and kubemark as a kubelet and as kube-proxy run beside
`mooring up --without scheduler,controllers,nodes` while a Deployment rolls. They run where MOORING_REAL names the
folder of Kubernetes' binaries; elsewhere the test is skipped and says so.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kubectl_caller import Kubectl
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
ABOUT_THE_API = re.compile(
    r"could not find the requested resource|unknown field|failed to list|failed to watch|forbidden|is invalid"
    r"|unable to decode|unexpected EOF|configmap.*not found|missing content for CA",
    re.IGNORECASE,
)
OTHERS = re.compile(r"ValidatingAdmissionPolicy|Deleting|object has been modified")
"""What is known: kinds that Mooring does not have yet, and what happens on every cluster."""


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
def components(folder: Path, data: Path, kubeconfig: str) -> Iterator[None]:
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
    with ExitStack() as stack:
        for name, command, flags in (
            ("controllers", "kube-controller-manager", (config, *common, *signing, "--controllers=*")),
            ("scheduler", "kube-scheduler", (config, *common)),
            ("kubelet", "kubemark", (config, "--morph=kubelet", "--name=hollow-1", "--use-host-image-service=false")),
            ("proxy", "kubemark", (config, "--morph=proxy", "--name=hollow-1")),
        ):
            stack.enter_context(running(folder, name, command, *flags))
        yield


def complaints(folder: Path) -> list[str]:
    """Error lines about the API, of all components."""
    lines = [(log.stem, line) for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    return [
        f"{name}: {line[:300]}"
        for name, line in lines
        if line.startswith("E") and ABOUT_THE_API.search(line) and not OTHERS.search(line)
    ]


def test_a_deployment_rolls_under_kubernetes_own_components(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    logs.mkdir()
    without = ("--without", "scheduler,controllers,nodes", "--nodes", "0")
    with running_up("--data-dir", str(data), *without) as plane:
        kubectl = Kubectl(plane.kubeconfig, "default")
        with components(logs, data, str(plane.kubeconfig)):
            kubectl("create", "deployment", "web", "--image=nginx:0", "--replicas=3")
            kubectl("expose", "deployment", "web", "--port=80")
            end, number = time.monotonic() + SECONDS, 0
            while time.monotonic() < end or not number:
                number += 1
                kubectl("set", "image", "deployment/web", f"nginx=nginx:{number}")
                kubectl("rollout", "status", "deployment/web", "--timeout=120s")
            assert kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "name")
            assert kubectl("get", "configmap", "kube-root-ca.crt", "-o", "name")
    assert complaints(logs) == []
