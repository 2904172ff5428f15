"""The manifests in `deploy/`: valid, put together by kubectl, and with no more rights than the bridge asks for."""

import configparser
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kubectl_caller import KUBECTL
from mooring.bridge.checking import RIGHTS
from mooring.bridge.serving import CONFIGURATIONS
from mooring.cli.commands.bridge import bridge
from mooring.cli.commands.up import up

DEPLOY = Path(__file__).parents[3] / "deploy"
FOLDERS = ("bridge", "bridge-with-policy")


def documents(folder: str) -> list[dict[str, Any]]:
    files = sorted(path for path in (DEPLOY / folder).glob("*.yaml") if path.name != "kustomization.yaml")
    return [document for path in files for document in yaml.safe_load_all(path.read_text())]


def only(kind: str, folder: str = "bridge") -> dict[str, Any]:
    (found,) = [document for document in documents(folder) if document["kind"] == kind]
    return found


def given(kind: str) -> set[tuple[str, str, str, str]]:
    """Group, resource, verb and name of all that a role allows."""
    return {
        (group, resource, verb, name)
        for rule in only(kind)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def asked(*, in_namespace: bool) -> Iterator[tuple[str, str, str, str]]:
    for right in RIGHTS:
        if right.is_namespaced is in_namespace:
            resource, _, group = right.resource.partition(".")
            for verb in right.verbs.split():
                yield group, resource, verb, "" if verb == "create" else right.name


@pytest.mark.req("B.9")
@pytest.mark.parametrize(("role", "in_namespace"), [("ClusterRole", False), ("Role", True)])
def test_the_account_has_the_rights_that_check_asks_for_and_no_others(role: str, *, in_namespace: bool) -> None:
    assert given(role) == set(asked(in_namespace=in_namespace))


@pytest.mark.req("B.9")
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_manifest_is_valid(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mooring", "lint", DEPLOY / folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout + done.stderr


@pytest.mark.req("B.9")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_puts_the_folder_together(folder: str) -> None:
    assert KUBECTL, "needs kubectl"
    made = subprocess.run([KUBECTL, "kustomize", DEPLOY / folder], capture_output=True, text=True, check=True).stdout
    kinds = [document["kind"] for document in yaml.safe_load_all(made)]
    assert {"Namespace", "Deployment", "Service", "PodDisruptionBudget", "ValidatingWebhookConfiguration"} <= set(kinds)
    assert ("MutatingAdmissionPolicy" in kinds) == (folder == "bridge-with-policy")


@pytest.mark.req("B.9")
def test_webhooks_have_the_names_that_the_bridge_looks_for_and_lead_to_its_service() -> None:
    for kind, name in (("MutatingWebhookConfiguration", "mutating"), ("ValidatingWebhookConfiguration", "validating")):
        found = only(kind)
        assert found["metadata"]["name"] == CONFIGURATIONS[f"{name}webhookconfigurations"]
        for hook in found["webhooks"]:
            service = hook["clientConfig"]["service"]
            assert (service["name"], service["namespace"]) == ("mooring-bridge", "mooring-bridge")
            assert service["port"] == only("Service")["spec"]["ports"][0]["port"]
            assert service["path"] in ("/pods", "/nodes", "/evictions")


@pytest.mark.req("B.9")
def test_the_network_policy_is_about_the_bridge_and_knows_all_its_ports() -> None:
    policy, template = only("NetworkPolicy")["spec"], only("Deployment")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    allowed = {port["port"]: "from" in rule for rule in policy["ingress"] for port in rule["ports"]}
    assert allowed == {"webhooks": True, "metrics": False}  # whether callers are named
    assert set(allowed) == {port["name"] for port in container["ports"]}


def _container_arguments() -> list[str]:
    (container,) = only("Deployment")["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def _unit_arguments(name: str) -> list[str]:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read(DEPLOY / "systemd" / f"mooring-{name}.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program == "/usr/local/bin/mooring"
    return words


@pytest.mark.req("B.9")
@pytest.mark.parametrize(
    ("command", "arguments"),
    [(bridge, _container_arguments()), (bridge, _unit_arguments("bridge")), (up, _unit_arguments("up"))],
    ids=["the Deployment", "the unit of the bridge", "the unit of the control plane"],
)
def test_what_is_started_is_a_right_call(command: click.Command, arguments: list[str]) -> None:
    name, *flags = arguments
    assert name == command.name
    command.make_context(name, flags)
