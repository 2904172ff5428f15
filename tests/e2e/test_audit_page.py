"""docs/audit.md: what it says to type is typed, its Python runs, and its table is the code's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubectl_caller import KUBECTL
from mooring.advisor.audit import Effect
from mooring.advisor.audit.reports import RULES
from mooring.advisor.audit.results import BREAKING
from typed_console import ROOT, Console, console, steps, steps_by_section

pytestmark = pytest.mark.req("S.5")
PAGE = ROOT / "docs" / "audit.md"
SECTIONS = steps_by_section(PAGE)
FIRST, *REST = SECTIONS
CHANGES = "The commands, typed"
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")


@contextmanager
def begun(folder: Path) -> Iterator[Console]:
    """Yield a shell in which the cluster of the first section runs."""
    with console(folder) as shell:
        for step in SECTIONS[FIRST]:
            shell.type(step)
        yield shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """For all sections that only look."""
    with begun(tmp_path_factory.mktemp("page")) as found:
        yield found


@needs_kubectl
@pytest.mark.parametrize("heading", [heading for heading in REST if heading != CHANGES])
def test_a_section_of_the_page_does_what_it_says(shell: Console, heading: str) -> None:
    for step in SECTIONS[heading]:
        shell.type(step)


@needs_kubectl
def test_the_section_that_mends_the_cluster_does_what_it_says(tmp_path: Path) -> None:
    with begun(tmp_path) as shell:
        for step in SECTIONS[CHANGES]:
            shell.type(step)


def test_no_command_of_the_page_is_left_out() -> None:
    assert [step for section in steps_by_section(PAGE).values() for step in section] == steps(PAGE)
    assert FIRST == "A cluster to look at"


def test_the_python_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(source, "docs/audit.md", "exec"), {"__name__": "page"})


def test_the_table_of_effects_is_the_codes() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (A\d{3}) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(str(effect), rule.id, rule.about) for effect, rule in RULES.items()]
    assert {effect for effect, rule in RULES.items() if rule.id < "A020"} == BREAKING
    assert set(RULES) == set(Effect)
