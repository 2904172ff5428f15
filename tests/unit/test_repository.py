"""What makes a repository that others can join: workflows and forms by their schemas, hooks, commit messages."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tools import terminal_picture
from tools.commit_message import complaint

from kubectl_caller import KUBECTL

pytestmark = pytest.mark.req("I.6")
ROOT = Path(__file__).parents[2]
BY_SCHEMA = {
    "github-workflows": (".github/workflows/test.yml", ".github/workflows/release.yml"),
    "github-actions": ("action.yml",),
    "github-issue-forms": (".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/feature.yml"),
    "github-issue-config": (".github/ISSUE_TEMPLATE/config.yml",),
    "dependabot": (".github/dependabot.yml",),
}


@pytest.mark.parametrize(("schema", "files"), BY_SCHEMA.items(), ids=BY_SCHEMA)
def test_files_for_github_are_valid(schema: str, files: tuple[str, ...]) -> None:
    import check_jsonschema  # which builds 38 parsers: a second that every process would spend on collecting tests

    paths = [str(ROOT / file) for file in files]
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", *paths])
    assert done.exit_code == 0, done.output


def test_every_job_has_a_time_limit_and_only_the_rights_it_needs() -> None:
    for name in BY_SCHEMA["github-workflows"]:
        workflow = yaml.safe_load((ROOT / name).read_text())
        assert workflow["permissions"] == {"contents": "read"}
        assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())


def test_tests_run_on_every_python_that_is_supported() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    dist = re.findall(r"^PYTHONS = \((.*)\)", (ROOT / "tools" / "dist.py").read_text(), re.MULTILINE)
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == re.findall(r"[\d.]+", dist[0])


def test_hooks_run_commands_that_exist() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    bin_folder = Path(sys.executable).parent
    for hook in local["hooks"]:
        program, *words = hook["entry"].split()
        assert (bin_folder / Path(program).name).exists(), hook["id"]
        assert all((ROOT / word).exists() for word in words if word.startswith("tools/")), hook["id"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("store: keep the log in one file\n\nWhy.\n", ""),
        ("chart, exporter: add a Helm chart", ""),
        ("Merge branch 'main'", ""),
        ("Keep the log in one file", "the subject must be"),
        ("store: keep the log in one file.", "the subject must be"),
        ("store: " + "x" * 66, "73 characters"),
        ("store: keep it\nbody", "an empty line"),
    ],
)
def test_a_commit_message_is_an_area_and_what_changes(message: str, expected: str) -> None:
    assert expected in complaint(message)
    assert bool(complaint(message)) == bool(expected)


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "AGENTS.md", "LICENSE"])
def test_a_newcomer_finds_the_usual_files(name: str) -> None:
    assert (ROOT / name).stat().st_size > 300


@pytest.mark.req("I.7")
def test_the_session_in_the_readme_is_what_the_commands_print() -> None:
    assert KUBECTL, "needs kubectl"
    fresh = terminal_picture.drawn(terminal_picture.session())
    assert (ROOT / "docs" / "session.svg").read_text() == fresh, "run tools/terminal_picture.py docs/session.svg"
