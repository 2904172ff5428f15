"""`python -m mooring.testing.replay`: what it prints and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.testing import differential
from mooring.testing.replay.__main__ import main

INPUTS = {"node": [{"labels": {"a": "b"}}], "taint": []}


def recorded(tmp_path: Path, *cases: dict[str, Any]) -> str:
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps({"version": "1.37", "inputs": INPUTS, "cases": cases}))
    return str(file)


def case(expression: str, **expected: Any) -> dict[str, Any]:
    return {"env": "node", "expr": expression, "outputType": "bool", "maxCost": "3"} | expected


def test_all_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path, case("'a' in node.labels", evals=[{"result": True, "cost": 3}]))
    assert main(["cel", file]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_what_failed_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expression = "'a' in node.labels"
    file = recorded(
        tmp_path,
        case(expression, evals=[{"result": False, "cost": 3}]),
        case(expression, evals=[{"result": True, "cost": 4}]),
        case(expression, evals=[{"error": "any"}]),
        case(expression, maxCost="4", evals=[{"result": True}]),
        case(expression, outputType="int", evals=[{"result": True}]),
        case(expression, compileError="ERROR: <input>:1:1: undeclared reference to 'a'"),
        case("nope", compileError="ERROR: <input>:1:2: undeclared reference to 'nope'"),
        case("nope", compileError="ERROR: <input>:1:1: undefined field 'nope'"),
        case("nope", evals=[{"result": True}]),
        case("node.labels['x'] == ''", maxCost="3", evals=[{"result": True}]),
        case("1 + 1", maxCost="1", outputType="int", evals=[{"result": True}]),
    )
    assert main(["cel", file]) == 1
    *failed, last = capsys.readouterr().out.splitlines()
    assert last == "0 passed, 11 failed"
    assert len(failed) == 11
    assert all(line.startswith("FAILED recorded.json case ") for line in failed)


def test_a_cost_that_depends_on_the_order_of_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {"node": [{"labels": {"a": "", "b": "", "zone": ""}}], "taint": []}
    expression = "node.labels.exists(k, k == 'zone')"
    cases = [case(expression, maxCost="3075", evals=[{"result": True, "cost": cost}]) for cost in (12, 18, 21, 10)]
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps({"inputs": inputs, "cases": cases}))
    assert main(["cel", str(file)]) == 1
    assert "3 passed, 1 failed" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inputs": {}, "cases": [{}]}', '{"inputs": 1, "cases": 2}', "\x00"])
@pytest.mark.parametrize("kind", ["cel", "cel-spec"])
def test_a_file_of_another_form(kind: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "cel-spec" and text == "[]":
        return
    file = tmp_path / "other.json"
    file.write_text(text)
    assert main([kind, str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cel", "/none.json"]) == 2
    assert "/none.json" in capsys.readouterr().err


def test_tests_of_the_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def spec(expression: str, expect: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"section": "s", "name": "n", "expr": expression, "expect": expect} | more

    tests = [
        spec("1 + 1", {"value": {"int": "2"}}),
        spec("1 + 1", {"value": {"uint": "2"}}),
        spec("0.0 / 0.0", {"value": {"double": "NaN"}}),
        spec("{true: [1u]}", {"value": {"map": [[{"bool": True}, {"list": [{"uint": "1"}]}]]}}),
        spec("1 / 0", {"error": True}),
        spec(
            "x", {"type": "map(string, list(int))"}, declarations=[{"variable": "x", "type": "map(string, list(int))"}]
        ),
        spec(
            "x",
            {"value": {"bytes": "YQ=="}},
            declarations=[{"variable": "x", "type": "bytes"}],
            bindings={"x": {"bytes": "YQ=="}},
        ),
        spec("x", {"unknown": [1]}),
    ]
    tests[5]["checkOnly"] = True
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(tests))
    assert main(["cel-spec", str(file)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2:] == ["1 left out", "6 passed, 1 failed"]


def test_an_unknown_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["everything", "file"])
    assert ended.value.code == 2
    assert "everything" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubernetes", "/none", "--table", "tolerations"], "/none: no checkout of Kubernetes"),
        (["/none"], "name the folder with the tables, or set MOORING_CONFORMANCE"),
        (["--table", "nonsense"], "there is no such table; known are "),
    ],
)
def test_tables_of_kubernetes_that_are_not_there(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tolerations.json").write_text("[]")
    folder = [] if "/none" in arguments[:1] else [str(tmp_path)]
    assert main(["upstream", *folder, *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["upstream", "differential"])
def test_without_the_tests_folder_the_message_says_what_is_missing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differential, "_TESTS", Path("/none"))
    with pytest.raises(SystemExit) as ended:
        main(["upstream"]) if kind == "upstream" else differential.load("differential.__main__")
    assert "is not installed with Mooring: run this command in a checkout of its source" in str(ended.value.code)
