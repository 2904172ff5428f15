"""Every recipe of docs/cookbook: on Mooring as written, and through the bridge on a cluster without the operators."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventually import eventually
from kubectl_caller import KUBECTL, Kubectl
from mooring.bridge.convert import convert
from running_up import running_up

pytestmark = [pytest.mark.req("I.7"), pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")]
FOLDER = Path(__file__).parents[2] / "docs" / "cookbook"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
GATES = ("TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators", "TaintTolerationNodeAffinityCEL")
STOCK = ",".join(f"{gate}=false" for gate in GATES)


@dataclass(frozen=True)
class Recipe:
    """A page: its nodes, its pods, and where each of them runs (empty: nowhere)."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    places: dict[str, str]

    @classmethod
    def read(cls, page: Path) -> "Recipe":
        text = page.read_text()
        nodes, pods = (list(yaml.safe_load_all(each)) for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
        places = dict(re.findall(r"^\| `([\w-]+)` \| `?([\w-]+)`? \|$", text, re.MULTILINE))
        for node in nodes:
            node["metadata"]["annotations"] = {"simulation.mooring.dev/node": "true"}
        return cls(nodes, pods, {pod: "" if place == "pending" else place for pod, place in places.items()})


def play(kubectl: Kubectl, recipe: Recipe) -> dict[str, str]:
    """Apply a recipe and return where its pods run, once every one of them was tried."""
    kubectl.apply(*recipe.nodes)
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=30s")
    kubectl.apply(*recipe.pods)
    try:
        return eventually(lambda: _places(kubectl))
    finally:
        kubectl("delete", "pod", "--all", "--force", "--grace-period=0")
        kubectl("delete", "node", "--all")


def _places(kubectl: Kubectl) -> dict[str, str]:
    """Return the node of each pod; nothing as long as one was not tried."""
    pods = kubectl.get("pods")["items"]
    conditions = [each for pod in pods for each in pod.get("status", {}).get("conditions", [])]
    tried = [each for each in conditions if each["type"] == "PodScheduled" and each.get("reason") != "SchedulingGated"]
    if len(tried) < len(pods):
        return {}
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


@pytest.fixture(scope="module")
def mooring() -> Iterator[Kubectl]:
    with running_up("--ephemeral", "--single-process", "--nodes", "0") as plane:
        yield Kubectl(plane.kubeconfig)


@pytest.fixture(scope="module")
def stock() -> Iterator[Kubectl]:
    """Yield a control plane that knows none of the operators, with the bridge."""
    with running_up("--ephemeral", "--single-process", "--nodes", "0", "--feature-gates", STOCK) as plane:
        command = [sys.executable, "-m", "mooring", "bridge", "--kubeconfig", str(plane.kubeconfig), "--port", "-1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bridge:
            assert bridge.stdout
            assert bridge.stdout.readline() == "The bridge is ready\n"
            yield Kubectl(plane.kubeconfig)
            bridge.terminate()
            assert bridge.wait(20) == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_does_what_its_page_says(page: Path, mooring: Kubectl, stock: Kubectl) -> None:
    recipe = Recipe.read(page)
    assert set(recipe.places) == {pod["metadata"]["name"] for pod in recipe.pods}
    assert play(mooring, recipe) == recipe.places
    for pod in recipe.pods:
        assert convert(pod), "the recipe uses an operator that a stock cluster knows"
    assert play(stock, recipe) == recipe.places, "through the bridge"


def test_there_are_ten_recipes_and_each_is_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text()
    assert len(PAGES) == 10
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []
