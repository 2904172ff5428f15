"""A control plane that knows none of the new words, and the bridge beside it."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_up import RunningUp, running_up
from stories import EXAMPLES, Story

_GATES = ("TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators", "TaintTolerationNodeAffinityCEL")
STOCK = ",".join(f"{gate}=false" for gate in _GATES)
_CLUSTER_WIDE = "nodes,persistentvolumes,storageclasses"


@dataclass(frozen=True)
class BridgedStory(Story):
    """A story whose manifests are rewritten for the bridge before they are applied."""

    def apply(self, folder: str, *files: str) -> None:
        for name in files:
            path = EXAMPLES / folder / f"{name}.yaml"
            if name == "nodes":
                super().apply(folder, name)
                continue
            convert = [sys.executable, "-m", "mooring", "bridge", "convert", "-f", str(path)]
            text = subprocess.run(convert, check=True, capture_output=True, text=True).stdout
            self.kubectl("apply", "-f", "-", stdin=text)


@pytest.fixture(scope="package")
def stock() -> Iterator[RunningUp]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    with running_up("--ephemeral", "--single-process", "--nodes", "0", "--feature-gates", STOCK) as plane:
        yield plane


@pytest.fixture(scope="package")
def bridge(stock: RunningUp) -> Iterator[None]:
    command = [sys.executable, "-m", "mooring", "bridge", "--kubeconfig", str(stock.kubeconfig), "--port", "-1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "The bridge is ready\n"
        yield
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture
def story(stock: RunningUp, bridge: None, request: pytest.FixtureRequest) -> Iterator[Story]:
    admin = Kubectl(stock.kubeconfig)
    name = "bridge-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[-40:].strip(
        "-"
    )
    admin("create", "namespace", name)
    yield BridgedStory(Kubectl(stock.kubeconfig, name))
    admin("delete", "namespace", name, "--timeout=30s")
    admin("delete", _CLUSTER_WIDE, "--all", "--timeout=30s")
