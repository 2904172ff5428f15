"""`mooring lint` on the command line: what the pages say it prints, exit codes, and calls that are wrong."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.advisor.lint.rules import INTERNAL, RULES, Rule
from mooring.cli.main import mooring

pytestmark = pytest.mark.req("S.5")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lint.md").read_text()
EXAMPLES = ROOT / "examples" / "lint"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]"
WARNING = POD + ", tolerations: [{expression: 'false'}]}\n"


def commands(page: str) -> list[tuple[str, str]]:
    """Return the commands on a page, and what they print."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [found for block in blocks for found in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


def lint(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(mooring, ["lint", *arguments], input=stdin)


def printed(command: str) -> str:
    """Return what a command of a page prints on standard output."""
    words = shlex.split(command)
    if words[:2] == ["mooring", "lint"]:
        return lint(*words[2:]).stdout
    return subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def page_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the files of the page, in the current directory."""
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_on_the_page_print_what_it_says(page_files: Path) -> None:
    found = commands(PAGE)
    assert len(found) > len(RULES)
    for command, output in found:
        assert printed(command) == output, command


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_section_with_an_example(rule: Rule) -> None:
    title = f"### {rule.id} {rule.name} ({rule.severity})\n\n"
    assert PAGE.count(title) == 1
    section = re.split(r"\n##+ ", PAGE.split(title)[1])[0]
    assert " ".join(section.split()).startswith(rule.about)
    if rule is not INTERNAL:  # no manifest is known that makes Mooring fail
        assert f" {rule.id} " in section


def test_the_python_on_the_page_runs() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(source, "docs/lint.md", "exec"), {"__name__": "page"})


def test_the_examples_print_what_their_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    found = commands((EXAMPLES / "README.md").read_text())
    assert len(found) == 4
    for command, output in found:
        assert printed(command) == output, command


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[str, ...]
    stdin: str
    exit_code: int
    output: str = ""


CASES = (
    Case("a clean manifest", ("-",), POD + "}\n", 0, "1 document in 1 file: 0 errors, 0 warnings, 0 skipped"),
    Case("an error", ("-",), POD + ", x: 1}\n", 1, "<stdin>:4:47: error M010"),
    Case("a warning", ("-",), WARNING, 0, "warning M022"),
    Case("a warning that fails", ("-", "--fail-if", "warning"), WARNING, 1, "warning M022"),
    Case("a warning as an error", ("-", "--strict"), WARNING, 1, "error M022"),
    Case("a rule switched off by number", ("-", "--strict", "--disable", "M022"), WARNING, 0, "0 errors"),
    Case("a rule switched off by name", ("-", "--strict", "--disable", "never-matches"), WARNING, 0, "0 errors"),
    Case("information that fails", ("-", "--fail-on", "info"), "a: 1", 1, "info M006"),
    Case("no argument", (), "", 2, "Missing argument"),
    Case("a file that does not exist", ("nowhere.yaml",), "", 2, "nowhere.yaml does not exist"),
    Case("an unknown rule", ("-", "--disable", "M999"), "", 2, "M999 is no rule"),
    Case("a version out of range", ("-", "--emulation-version", "1.20"), "", 2, "1.27 to 1.37"),
    Case("a wrong gate", ("-", "--feature-gates", "Nothing=true"), "", 2, "Nothing"),
    Case("an unknown API", ("-", "--runtime-config", "nothing/v1"), "", 2, "unknown API group"),
    Case("a dump that is none", ("-", "--nodes", "/dev/null"), "", 2, "there are no nodes in it"),
    Case("a dump that does not exist", ("-", "--nodes", "nowhere.yaml"), "", 2, "nowhere.yaml: No such file"),
    Case("two clusters", ("-", "--cluster", "--from", "/"), "", 2, "name different clusters"),
    Case("a context of no cluster", ("-", "--context", "c"), "", 2, "need --cluster"),
    Case(
        "a cluster that is not there",
        ("-", "--cluster", "--kubeconfig", "nowhere.kubeconfig"),
        "",
        1,
        "nowhere.kubeconfig",
    ),
    Case(
        "an alpha API under emulation", ("-", "--emulation-version=1.36", "--runtime-config=api/alpha"), "", 2, "alpha"
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exit_codes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = lint(*case.arguments, stdin=case.stdin)
    assert (result.exit_code, case.output in result.output) == (case.exit_code, True), result.output
    assert "Traceback" not in result.output


def test_without_a_kubeconfig_the_flag_for_a_dump_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    result = lint("-", "--cluster", stdin=POD + "}\n")
    assert result.exit_code == 1
    assert result.output.endswith("or name a dump with --from\n")


def test_a_directory_without_manifests_is_a_wrong_call(tmp_path: Path) -> None:
    result = lint(str(tmp_path))
    assert result.exit_code == 2
    assert "there are no *.yaml" in result.output


@pytest.mark.parametrize("form", ["json", "sarif", "junit"])
def test_machines_get_one_document_on_standard_output(form: str) -> None:
    result = lint("-", "-o", form, stdin=WARNING)
    assert result.exit_code == 0
    if form == "junit":
        assert result.stdout.startswith('<?xml version="1.0"')
    else:
        assert "M022" in json.dumps(json.loads(result.stdout))


HOSTILE: dict[str, bytes] = {
    "null bytes": b"a\0b",
    "half a character": b"a: \xc3",
    "deep JSON": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep YAML": b"[" * 50_000,
    "aliases that unfold": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(12)),
    "an alias of itself": b"a: &a [*a]\n",
    "colours": b'apiVersion: v1\nkind: "\\e[31mPod"\n',
    "a huge number": b"apiVersion: v1\nkind: Pod\nspec: {priority: " + b"9" * 5000 + b"}\n",
    "an expression without end": b"apiVersion: v1\nkind: Pod\nspec: {tolerations: [{expression: '"
    + b"(" * 9000
    + b"'}]}\n",
    "very many tolerations": b"apiVersion: v1\nkind: Pod\nspec:\n  tolerations:\n"
    + b"  - {operator: Near, value: a}\n" * 3000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_a_finding(name: str) -> None:
    result = lint("-", "--fail-on", "info", stdin=HOSTILE[name])
    assert result.exit_code == 1, result.output[:500]
    assert "M009" not in result.output
    assert "\x1b" not in result.stdout


def test_the_hook_for_pre_commit_calls_a_command_that_there_is() -> None:
    hook, release = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert f"id: {hook['id']}" in PAGE
    assert hook["entry"].split() == ["mooring", "lint"]
    assert lint("--help").exit_code == 0
    (example,) = yaml.safe_load((ROOT / "examples" / "ci" / "pre-commit-config.yaml").read_text())["repos"]
    assert [each["id"] for each in example["hooks"]] == [release["id"]]
    assert release["entry"].split() == ["mooring", "audit"]


def test_the_installed_command_reads_standard_input_and_ends_with_its_code() -> None:
    command = shutil.which("mooring", path=str(Path(sys.executable).parent))
    assert command is not None
    done = subprocess.run([command, "lint", "-"], input="a: [", capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "<stdin>:1:1: error M002 did not find expected node content\n")
    assert done.stderr == "1 document in 1 file: 1 error, 0 warnings, 0 skipped\n"
