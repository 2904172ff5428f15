"""What the page about `mooring explain` shows is what the command prints."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import mooring

pytestmark = pytest.mark.req("S.5")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "explain.md").read_text()
COMMANDS = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_of_the_page_prints_what_it_says(command: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples" / "explain")
    assert CliRunner().invoke(mooring, shlex.split(command)[1:]).stdout == output


def test_the_program_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT / "examples" / "explain")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "docs/explain.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == "lower the bound of the toleration `sla Gt 950` to 939\n"
