"""The queries of the proposals, as they are written there, on pods that they should and should not find."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_server import RunningServer

SEMVER = ("SemverGt", "SemverLt", "SemverEq")
TERMS = ".spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*]"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "img"}], **spec},
    }


def toleration(operator: str, value: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "k", "operator": operator, "value": value}]}


def required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def versions(operator: str) -> dict[str, Any]:
    return required(matchExpressions=[{"key": "k", "operator": operator, "values": ["1.2.3"]}])


PODS = [
    pod("plain"),
    pod("tol-gt", **toleration("Gt", "5")),
    pod("tol-lt", **toleration("Lt", "5")),
    *(pod(f"tol-{name.lower()}", **toleration(name, "1.2.3")) for name in SEMVER),
    *(pod(f"aff-{name.lower()}", **versions(name)) for name in SEMVER),
    pod("tol-cel", tolerations=[{"expression": "taint.key == 'k'"}]),
    pod("aff-cel", **required(matchCELExpressions=["node.labels['a'] == 'b'"])),
]


def by_toleration(operator: str) -> str:
    return (
        """kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.name}{": "}"""
        """{.spec.tolerations[?(@.operator=="OPERATOR")]}{"\\n"}{end}' | grep -v "^[^:]*: *$\""""
    ).replace("OPERATOR", operator)


def by_affinity(operator: str) -> str:
    return (
        """kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.name}{": "}"""
        f"""{{{TERMS}.matchExpressions[?(@.operator=="OPERATOR")]}}"""
        """{"\\n"}{end}' | grep -v "^[^:]*: *$\""""
    ).replace("OPERATOR", operator)


@dataclass(frozen=True)
class Query:
    id: str
    line: str
    operator: str
    finds: str


NUMBERS = [
    Query("numbers above", by_toleration("Gt"), "Gt", "tol-gt"),
    Query("numbers below", by_toleration("Lt"), "Lt", "tol-lt"),
]
VERSIONS = [
    *(Query(f"{name} in tolerations", by_toleration(name), name, f"tol-{name.lower()}") for name in SEMVER),
    *(Query(f"{name} in affinity", by_affinity(name), name, f"aff-{name.lower()}") for name in SEMVER),
]


@pytest.fixture(scope="module")
def queried(server: RunningServer) -> Kubectl:
    """Return a namespace with all the pods."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    kubectl = Kubectl(server.kubeconfig, "queries")
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "queries"}}, *PODS)
    return kubectl


def check(kubectl: Kubectl, query: Query) -> None:
    [line] = kubectl.shell(query.line).splitlines()
    name, _, found = line.partition(": ")
    assert name == query.finds
    assert json.loads(found)["operator"] == query.operator


@pytest.mark.req("5471.11")
@pytest.mark.parametrize("query", NUMBERS, ids=lambda query: query.id)
def test_pods_are_found_by(queried: Kubectl, query: Query) -> None:
    check(queried, query)


@pytest.mark.req("5721.10")
@pytest.mark.parametrize("query", VERSIONS, ids=lambda query: query.id)
def test_pods_are_found_by_version_operators(queried: Kubectl, query: Query) -> None:
    check(queried, query)


@pytest.mark.req("5500.13")
def test_pods_are_found_by_expressions_in_tolerations(queried: Kubectl) -> None:
    printed = queried.shell(
        "kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}: "
        """{.spec.tolerations[?(@.expression)]}{"\\n"}{end}' | grep -v ": \\[\\]$\""""
    )
    [line] = [line for line in printed.splitlines() if line.startswith("queries/tol-cel:")]
    assert json.loads(line.partition(": ")[2])["expression"] == "taint.key == 'k'"


@pytest.mark.req("5500.13")
def test_pods_are_found_by_expressions_in_affinity(queried: Kubectl) -> None:
    printed = queried.shell(
        "kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}: "
        f"""{{{TERMS}.matchCELExpressions}}{{"\\n"}}{{end}}' | grep -v ": \\[\\]$\""""
    )
    assert "queries/aff-cel: [\"node.labels['a'] == 'b'\"]" in printed.splitlines()


@pytest.mark.req("5500.13")
def test_volumes_are_found_by_expressions(kubectl: Kubectl) -> None:
    name = f"pv-{kubectl.namespace}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchCELExpressions": ["'a' in node.labels"]}]}},
        },
    }
    kubectl.apply(volume)
    printed = kubectl.shell(
        "kubectl get pv -o jsonpath='{range .items[*]}{.metadata.name}: "
        """{.spec.nodeAffinity.required.nodeSelectorTerms[*].matchCELExpressions}{"\\n"}{end}' | grep -v ": \\[\\]$\""""
    )
    assert f"{name}: [\"'a' in node.labels\"]" in printed.splitlines()
    kubectl("delete", "pv", name, "--wait=false")
