"""The Helm chart on a real kube-apiserver: it takes every object, and accounts have the rights that their parts need.

Runs where MOORING_REAL names the folder of Kubernetes' binaries. No kubelet runs there: parts are started
beside the cluster, with the tokens of their accounts.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import real_cluster
from eventually import eventually
from free_ports import free_port
from kubectl_caller import Kubectl

CHART = Path(__file__).parents[2] / "deploy" / "chart"
HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
MISSING = real_cluster.missing() or ("" if HELM else "there is no helm on this machine")
pytestmark = [pytest.mark.req("I.3"), pytest.mark.skipif(bool(MISSING), reason=f"no real cluster: {MISSING}")]
PARTS = ("bridge", "scheduler", "exporter", "dashboard", "audit")
NAMESPACE = "mooring-system"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with real_cluster.real_cluster(tmp_path_factory.mktemp("real")) as admin:
        admin("create", "namespace", NAMESPACE)
        admin("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield Kubectl(admin.kubeconfig, NAMESPACE)


def helm(kubectl: Kubectl, verb: str, *values: str) -> None:
    assert HELM
    given = [word for value in values for word in ("--set", value)]
    flags = ["-n", NAMESPACE, "--kubeconfig", str(kubectl.kubeconfig)]
    done = subprocess.run(
        [HELM, verb, "mooring", str(CHART), *given, *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def kubeconfig_of(kubectl: Kubectl, account: str, folder: Path) -> Path:
    tree = yaml.safe_load(kubectl.kubeconfig.read_text())
    token = eventually(lambda: kubectl.run("create", "token", account).stdout)
    for user in tree["users"]:
        user["user"] = {"token": token.strip()}
    path = folder / f"{account}.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_it_is_installed_and_upgraded_and_every_pod_passes_pod_security(kubectl: Kubectl) -> None:
    helm(kubectl, "install")
    helm(kubectl, "upgrade", "bridge.policy=true", *(f"{part}.enabled=true" for part in PARTS))
    names = {f"mooring-{part}" for part in ("bridge", "scheduler", "exporter", "dashboard")}

    def pods() -> set[str]:
        return {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in kubectl.get("pods")["items"]}

    eventually(lambda: pods() == names, 60)
    kubectl("create", "job", "tonight", "--from=cronjob/mooring-audit")
    eventually(lambda: pods() == {*names, "mooring-audit"}, 60)


@pytest.mark.parametrize(
    ("part", "flags", "expected"),
    [
        ("bridge", ("--namespace", NAMESPACE, "--leader-elect"), "The bridge is ready"),
        ("scheduler", ("--scheduler-name", "mooring"), "The scheduler is ready"),
    ],
)
def test_a_part_works_with_the_rights_of_its_account(
    part: str, flags: tuple[str, ...], expected: str, kubectl: Kubectl, tmp_path: Path
) -> None:
    own = kubeconfig_of(kubectl, f"mooring-{part}", tmp_path)
    command = [sys.executable, "-m", "mooring", part, "--kubeconfig", str(own), "--port", "-1", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert expected in process.stdout.readline()
        process.terminate()
        assert process.wait(20) == 0
        assert "orbidden" not in process.stderr.read()


def test_the_exporter_measures_with_the_rights_of_a_reader(kubectl: Kubectl, tmp_path: Path) -> None:
    import urllib.request

    own, port = kubeconfig_of(kubectl, "mooring-exporter", tmp_path), free_port()
    command = [sys.executable, "-m", "mooring", "exporter", "--kubeconfig", str(own), "--port", str(port)]

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    with subprocess.Popen(command) as process:
        found = eventually(lambda: text if "mooring_pending_pods{" in (text := page()) else "", 60)
        process.terminate()
        assert process.wait(20) == 0
    assert 'owner="Deployment/mooring-bridge"' in found
