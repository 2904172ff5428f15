"""`mooring cel`: what it prints and how it ends; and that everything in docs/cel.md is true."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.commands.cel import cel

PAGE = (Path(__file__).parents[3] / "docs" / "cel.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
CONSOLE = [
    pytest.param(command, output, id=command)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command, output in re.findall(r"^\$ mooring cel (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cel, args, input=stdin)


def test_the_python_on_the_page_runs() -> None:
    assert len(PYTHON) > 5
    exec(compile("\n".join(PYTHON), "docs/cel.md", "exec"), {"__name__": "page"})


@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_a_command_on_the_page_prints_what_it_says(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    assert run(*shlex.split(command)).output == output


@dataclass(frozen=True)
class Case:
    name: str
    args: tuple[str, ...]
    exit_code: int
    printed: str
    stdin: str | None = None


CASES = (
    Case("an accepted expression", ("check", "--env", "taint", "taint.key == 'a'"), 0, "type: bool"),
    Case(
        "a wrong type", ("check", "--env", "node", "node.labels"), 1, "must evaluate to bool, not map(string, string)"
    ),
    Case("an unknown environment", ("check", "--env", "pod", "true"), 2, "is not one of 'taint', 'node'"),
    Case("a version that is none", ("check", "--env", "node", "--version", "new", "true"), 2, "is not a version"),
    Case("no environment", ("check", "true"), 2, "Missing option '--env'"),
    Case("a file that is not there", ("eval", "--env", "node", "--input", "/none", "true"), 2, "No such file"),
    Case("nothing to evaluate on", ("eval", "--env", "node", "node.labels.size()"), 0, "(empty)   0        3"),
    Case("an error", ("eval", "--env", "node", "node.labels['a'] == ''"), 1, "no such key: a"),
    Case(
        "a list", ("eval", "--env", "node", "--input", "-", "'a' in node.labels"), 0, "true", '[{"labels":{"a":"b"}}]'
    ),
    Case(
        "labels that are numbers", ("eval", "--env", "node", "--input", "-", "true"), 1, "quotes", '{"labels":{"a":1}}'
    ),
    Case("a taint that is none", ("eval", "--env", "taint", "--input", "-", "true"), 1, "neither a taint", "{}"),
    Case("what is neither JSON nor YAML", ("eval", "--env", "taint", "--input", "-", "true"), 1, "neither JSON", "{{"),
    Case("what is no object", ("eval", "--env", "taint", "--input", "-", "true"), 1, "is not an object", "7"),
    Case("bytes that are no text", ("eval", "--env", "taint", "--input", "-", "true"), 1, "neither JSON", "\x00"),
    Case(
        "a node without taints", ("eval", "--env", "taint", "--input", "-", "true"), 0, "INPUT", "metadata: {name: n}"
    ),
    Case(
        "a cost above the limit",
        ("cost", "--env", "node", "node.labels.all(a, node.labels.all(b, a != b))"),
        1,
        "limit",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_command(case: Case) -> None:
    result = run(*case.args, stdin=case.stdin)
    assert (result.exit_code, case.printed in result.output) == (case.exit_code, True), result.output


def test_issues_as_data() -> None:
    result = run("check", "--env", "node", "-o", "json", "nope > 1")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "valid": False,
        "issues": [{"line": 1, "column": 1, "message": "undeclared reference to 'nope' (in container '')"}],
    }


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{'a': [1, 2], 'b': []}", {"a": [1, 2], "b": []}),
        ("[2u]", [2]),
        ("[duration('90s')]", ["90s"]),
        ("timestamp('2026-01-01T00:00:00Z')", "2026-01-01T00:00:00Z"),
        ("optional.of('x')", "x"),
        ("optional.none()", None),
        ("0.0 / 0.0", "nan"),
        ("b'abc'", "abc"),
        ("{true: null}", {"True": None}),
        ("type(1)", "int"),
    ],
    ids=str,
)
def test_any_value_can_be_printed(expression: str, value: object) -> None:
    result = run("eval", "--env", "node", "--stored", "-o", "json", f"dyn({expression})")
    assert json.loads(result.output)[0]["value"] == value
