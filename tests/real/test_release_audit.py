"""The history of the API, and what follows from it, held against a real kube-apiserver, which can emulate releases.

MOORING_REAL names a folder with binaries of Kubernetes 1.37.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubectl_caller import Kubectl
from mooring.api.history import history
from mooring.base import gate_history
from mooring.base.version import Version
from mooring.cli.main import mooring
from real_cluster import missing, real_server
from release_corpus import ALL, FOLDER, Case

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NEWEST = Version(1, 37)


def raw(kubectl: Kubectl, path: str) -> Any:
    return json.loads(kubectl("get", "--raw", path))


def short(name: str) -> str:
    """`core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`."""
    last = name.rpartition(".")[2]
    return last if last in ("IntOrString", "Quantity", "RawExtension") else ".".join(name.split(".")[-3:])


@pytest.mark.req("U.1")
def test_every_field_and_closed_value_is_that_of_the_server_of_the_newest_release(tmp_path: Path) -> None:
    known, seen, wrong, closed = history(), set[str](), list[str](), 0
    with real_server(tmp_path) as kubectl:
        documents = [
            each["serverRelativeURL"]
            for path, each in raw(kubectl, "/openapi/v3")["paths"].items()
            if path[:3] == "api"
        ]
        for url in documents:
            for name, schema in raw(kubectl, url).get("components", {}).get("schemas", {}).items():
                fields = known.definitions.get(short(name))
                if fields is None or short(name) in seen:
                    continue
                seen.add(short(name))
                properties = schema.get("properties", {})
                if {each.name for each in fields.values() if each.releases.has(NEWEST)} != set(properties):
                    wrong.append(short(name))
                for prop, about in properties.items():
                    values = about.get("enum") or about.get("items", {}).get("enum")
                    mine = known.enums.get(fields[prop].holds, {}) if prop in fields else {}
                    closed += values is not None
                    if {v for v, when in mine.items() if when.releases.has(NEWEST)} != set(values or ()) - {""}:
                        wrong.append(f"{short(name)}.{prop}")
    assert (wrong, len(seen) > 500, closed > 100) == ([], True, True)


ALL_OF_A_STAGE = {"AllAlpha", "AllBeta"}


def shown_gates(kubectl: Kubectl) -> dict[str, bool]:
    page = kubectl("get", "--raw", "/metrics")
    found = re.findall(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} (\d)', page, re.MULTILINE)
    return {name: on == "1" for name, on in found if name not in ALL_OF_A_STAGE}


@pytest.mark.req("U.1")
@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_every_gate_is_on_or_off_as_the_server_shows_it(version: str, tmp_path: Path) -> None:
    with real_server(tmp_path, f"--emulated-version={version}") as kubectl:
        shown = shown_gates(kubectl)
    assert shown == {name: gate_history.is_on_by_default(name, Version.parse(version)) for name in shown}
    if version == str(NEWEST):  # of older ones the server does not show those that have been removed since
        assert shown.keys() == {name for name in gate_history.kubernetes_gates() if gate_history.has_gate(name, NEWEST)}


def is_taken(kubectl: Kubectl, case: Case) -> bool:
    """Whether the server takes an object with the field that it is about."""
    words = ["create", "--dry-run=server", "--validate=ignore", "-o", "json", "-f", "-"]
    done = kubectl.run(*words, stdin=json.dumps(case.tree))
    return done.returncode == 0 and case.has_field(json.loads(done.stdout))


@pytest.mark.req("U.7")
@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_what_a_release_brought_is_taken_by_it_and_not_by_the_one_before(version: str, tmp_path: Path) -> None:
    played = [case for case in ALL if version in (case.newer, case.older)]
    with real_server(tmp_path, f"--emulated-version={version}") as kubectl:
        kubectl.run("create", "serviceaccount", "default")
        taken = {str(case) for case in played if is_taken(kubectl, case)}
    assert taken == {str(case) for case in played if case.newer == version}


@pytest.mark.req("U.8")
def test_nothing_is_lost_of_what_a_server_fills_in_itself(tmp_path: Path) -> None:
    with real_server(tmp_path) as kubectl:
        kubectl.run("create", "serviceaccount", "default")
        kubectl("create", "-f", str(FOLDER / "ordinary.yaml"))
        reported = [str(each) for version in ("1.36", "1.35", "1.34") for each in alarms(kubectl, version)]
    assert reported == []


def alarms(kubectl: Kubectl, version: str) -> list[Any]:
    """Return what an audit of the live server says, apart from infos."""
    words = ["audit", "--kubeconfig", str(kubectl.kubeconfig), "--to-version", version, "-o", "json"]
    found = json.loads(CliRunner().invoke(mooring, words).stdout)
    assert found["objects"] > 100
    return [each for each in found.get("findings", []) if each["severity"] != "info"]
