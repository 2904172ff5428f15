"""`kubectl mooring`: the command as kubectl runs it, its help and its completion."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_caller import KUBECTL, Kubectl
from running_up import running_up

pytestmark = pytest.mark.req("I.1")

BIN = Path(sys.executable).parent
PENDING: dict[str, dict[str, Any]] = {
    "shop": {"nodeSelector": {"disk": "nvme"}, "containers": [{"name": "c", "image": "i"}]},
    "lab": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]},
}
"""Specs of pods that no node can take, by namespace: 3 of 8 cores are free on each of two nodes."""


def kubectl(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    assert KUBECTL, "needs kubectl"
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", **environment}
    return subprocess.run([KUBECTL, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--help"], "Usage: kubectl mooring [OPTIONS] COMMAND"),
        (["explain", "--help"], "kubectl mooring explain deployment/web -n shop"),
        (["explain", "--help"], "what `kubectl mooring dump`"),
        (["store", "--help"], "Usage: kubectl mooring store"),
        (["store", "backup", "--help"], "kubectl mooring store backup"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_examples_name_the_plugin(words: list[str], expected: str) -> None:
    printed = " ".join(kubectl("mooring", *words).stdout.split())
    assert expected in printed
    assert re.findall(r"(?<!kubectl )(?<![.])\bmooring [a-z]+", printed) == []


def test_a_wrong_command_names_the_help_of_the_plugin() -> None:
    done = kubectl("mooring", "why")
    assert done.returncode == 2
    assert "`kubectl mooring --help` lists them" in done.stderr


def test_errors_name_other_commands_as_the_plugin_does(tmp_path: Path) -> None:
    done = kubectl("mooring", "join-config", "n1", KUBECONFIG=str(tmp_path / "none"), HOME=str(tmp_path))
    assert done.returncode == 1
    assert "start a server with kubectl mooring up" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected", "directive"),
    [
        (["expl"], ["explain"], ":4"),
        (["gates", "--emulation-version", "1.36"], ["1.36"], ":4"),
        (["explain", "--fail-if", ""], ["pending"], ":4"),
        (["explain", "-f", ""], [], ":0"),
        (["gates", "--nothing-like-it", ""], [], ":4"),
    ],
    ids=["a command", "a version", "a choice", "a file, which the shell completes", "a flag that does not exist"],
)
def test_kubectl_completes_the_plugin(words: list[str], expected: list[str], directive: str) -> None:
    *lines, last = kubectl("__complete", "mooring", *words).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == expected
    assert last == directive


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the kubeconfig of a cluster with pending pods in two namespaces, and a context without a server."""
    with running_up("--ephemeral", "--single-process", "--nodes", "2") as plane:
        tree = yaml.safe_load(plane.kubeconfig.read_text())
        nowhere = {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}
        own = {**tree["contexts"][0]["context"], "namespace": "shop"}
        tree["clusters"].append(nowhere)
        tree["contexts"] += [
            {"name": "nowhere", "context": {**own, "cluster": "nowhere"}},
            {"name": "shop", "context": own},
        ]
        path = tmp_path_factory.mktemp("plugin") / "kubeconfig"
        path.write_text(yaml.safe_dump({**tree, "current-context": "shop"}))
        half = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]
        fillers = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"half-{each}"}, "spec": {"containers": half}}
            for each in "ab"
        ]
        Kubectl(plane.kubeconfig).apply(*fillers)
        Kubectl(plane.kubeconfig)("wait", "--for=condition=Ready", "pods", "--all", "--timeout=30s")
        for namespace, spec in PENDING.items():
            admin = Kubectl(plane.kubeconfig, namespace)
            admin("create", "namespace", namespace)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{namespace}-pod"}, "spec": spec}
            admin.apply(pod)
            admin("wait", "--for=condition=PodScheduled=false", f"pod/{namespace}-pod", "--timeout=30s")
        yield str(path)


@pytest.mark.parametrize(
    ("words", "shown", "hidden"),
    [
        (["-A"], ["pod shop/shop-pod", "pod lab/lab-pod"], []),
        ([], ["pod shop/shop-pod"], ["lab-pod"]),
        (["-n", "lab"], ["pod lab/lab-pod"], ["shop-pod"]),
    ],
    ids=["-A: all namespaces", "the namespace of the context", "-n: one namespace"],
)
def test_everything_that_does_not_run_is_explained_in_the_namespaces_that_kubectl_would_take(
    words: list[str], shown: list[str], hidden: list[str], kubeconfig: str
) -> None:
    done = kubectl("mooring", "explain", *words, KUBECONFIG=kubeconfig)
    assert done.returncode == 0, done.stderr
    assert [text for text in shown if text not in done.stdout] == []
    assert [text for text in hidden if text in done.stdout] == []
    assert "$ kubectl " in done.stdout  # a remedy
    assert "`kubectl mooring explain KIND NAMESPACE/NAME` says more" in done.stdout


def test_no_single_node_is_large_enough_is_said_in_that_many_words(kubeconfig: str) -> None:
    printed = kubectl("mooring", "explain", "-n", "lab", KUBECONFIG=kubeconfig).stdout
    assert "enough cpu in sum, on no single node" in printed


def test_scripts_get_an_exit_code_and_json(kubeconfig: str) -> None:
    done = kubectl("mooring", "explain", "-A", "-o", "json", "--fail-if", "pending", KUBECONFIG=kubeconfig)
    assert done.returncode == 3
    assert json.loads(done.stdout)["pods"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "-A", "--context", "nowhere"),
        ("--context", "nowhere", "-n", "lab", "explain"),
        ("--context=nowhere", "explain", "-A"),
    ],
    ids=["after the command", "before the command", "before the command, with an equals sign"],
)
def test_the_context_is_chosen_as_with_kubectl(words: tuple[str, ...], kubeconfig: str) -> None:
    done = kubectl("mooring", *words, KUBECONFIG=kubeconfig)
    assert done.returncode == 1
    assert "https://127.0.0.1:1" in done.stderr
