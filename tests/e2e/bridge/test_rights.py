"""The account of `deploy/bridge`: what `mooring bridge --check` says of it, and that the bridge works with it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from e2e.bridge.conftest import STOCK
from kubectl_caller import KUBECTL, Kubectl
from mooring.cli.main import mooring
from running_up import running_up
from typed_console import ROOT

DEPLOY = ROOT / "deploy" / "bridge"
NAMESPACE = "mooring-bridge"


@dataclass(frozen=True)
class Installed:
    """A stock control plane with the namespace and the rights of the bridge."""

    admin: Kubectl
    folder: Path

    def kubeconfig_of(self, account: str) -> Path:
        """Return what kubectl of a service account would use: its token, and nothing else."""
        tree = yaml.safe_load(self.admin.kubeconfig.read_text())
        token = self.admin("create", "token", account, "-n", NAMESPACE).strip()
        for user in tree["users"]:
            user["user"] = {"token": token}
        path = self.folder / f"{account}.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    def command(self, account: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "mooring", "bridge", "--kubeconfig", str(self.kubeconfig_of(account)), *words]

    def checked(self, account: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(account, "--check", *words), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    assert KUBECTL, "needs kubectl"
    with running_up("--ephemeral", "--single-process", "--nodes", "1", "--feature-gates", STOCK) as plane:
        admin = Kubectl(plane.kubeconfig)
        for name in ("namespace", "rights"):
            admin("apply", "-n", NAMESPACE, "-f", str(DEPLOY / f"{name}.yaml"))
        admin("create", "serviceaccount", "nobody", "-n", NAMESPACE)
        yield Installed(admin, tmp_path_factory.mktemp("accounts"))


@pytest.mark.req("B.9", "B.10")
@pytest.mark.parametrize(("account", "code"), [("mooring-bridge", 0), ("nobody", 1)])
def test_the_exit_code_of_check_says_whether_the_bridge_can_work(account: str, code: int, installed: Installed) -> None:
    done = installed.checked(account)
    assert (done.returncode, done.stderr) == (code, "")
    (line,) = [line.split("   ") for line in done.stdout.splitlines() if line.startswith("the right to patch pods ")]
    assert line[-1].strip() == ("without it no pod is released" if code else "yes")


@pytest.mark.req("B.10")
@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_check_says_the_same_for_scripts(output: str, read: Any, installed: Installed) -> None:
    done = installed.checked("nobody", "-o", output)
    found = read(done.stdout)
    assert (done.returncode, found["works"]) == (1, False)
    assert {
        "what": "the right to patch pods",
        "there": False,
        "required": True,
        "withoutIt": "without it no pod is released",
    } in found["needs"]


@pytest.mark.req("B.10")
def test_a_format_without_check_is_a_wrong_call() -> None:
    done = CliRunner().invoke(mooring, ["bridge", "-o", "json"])
    assert done.exit_code == 2
    assert "-o needs --check" in done.output


@pytest.mark.req("B.9")
def test_the_bridge_releases_pods_and_reports_mistakes_with_no_more_than_the_rights_it_ships_with(
    installed: Installed,
) -> None:
    admin = installed.admin
    admin("label", "nodes", "--all", "kernel=6.1.0")
    with subprocess.Popen(
        installed.command("mooring-bridge", "--port", "-1", "--leader-elect", "--webhook-port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "The bridge is ready\n"
        for name in ("mistake", "web"):
            admin("apply", "-f", str(ROOT / "examples" / "bridge" / f"{name}.yaml"))
        admin("rollout", "status", "deployment/web", "--timeout=25s")
        admin("wait", "pods", "-l", "app=web", "--for=condition=Ready", "--timeout=25s")
        process.terminate()
        assert process.wait(20) == 0
        said = process.stderr.read()
    assert "trusted by no API server yet" in said  # the authority was kept; there are no configurations
    assert "orbidden" not in said
    assert "mistake" in admin("get", "events", "--field-selector", "reason=InvalidConstraints")
