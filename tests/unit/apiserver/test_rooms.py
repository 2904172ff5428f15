"""The rooms of the API server: few modules at the top, an import contract, nothing attached after construction."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "mooring" / "apiserver"
CONSTRUCTED = {"access", "app", "application", "call", "chain", "context", "extensions", "guard", "handler", "registry"}
"""Names under which rooms hand each other their objects; `ssl` contexts have the name of one and are not ours."""

pytestmark = pytest.mark.req("W.4")


def _attached(source: str) -> list[str]:
    """Return the assignments to attributes of objects that another module has constructed."""
    targets = [
        target
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
    ]
    return [
        ast.unparse(target)
        for target in targets
        if ast.unparse(target.value).rpartition(".")[2] in CONSTRUCTED
        and target.attr not in ("check_hostname", "minimum_version", "verify_mode")
    ]


def test_no_module_attaches_behaviour_to_an_object_that_another_has_constructed() -> None:
    assert {path.name: found for path in SOURCE.rglob("*.py") if (found := _attached(path.read_text()))} == {}


def test_an_attached_attribute_would_be_found() -> None:
    assert _attached("def start(server):\n    server.context.guard = check\n") == ["server.context.guard"]


def _setters(source: str) -> list[str]:
    """Return the calls that set a part of an object after it was constructed."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [ast.unparse(called) for called in calls if isinstance(called, ast.Attribute) and called.attr[:4] == "set_"]


def test_the_server_passes_all_parts_to_constructors() -> None:
    assert _setters((SOURCE / "server.py").read_text()) == []


def test_a_part_that_is_set_later_would_be_found() -> None:
    assert _setters("metrics = Metrics()\nmetrics.set_sources(limiter)\n") == ["metrics.set_sources"]


def test_the_top_level_has_fewer_than_ten_modules() -> None:
    assert len(list(SOURCE.glob("*.py"))) < 10


def test_every_folder_has_its_place_in_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each.get("containers") == ["mooring.apiserver"]]
    placed = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    assert contract["exhaustive"]
    assert placed >= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
