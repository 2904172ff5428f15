"""docs/upgrade.md and docs/plan.md, typed."""

from pathlib import Path

import pytest

from typed_console import ROOT, console, steps


@pytest.mark.req("U.2", "U.3", "U.5", "E.1", "E.2")
@pytest.mark.parametrize("page", ["upgrade.md", "plan.md"])
def test_the_page_shows_what_is_printed(page: str, tmp_path: Path) -> None:
    with console(tmp_path) as typed:
        for step in steps(ROOT / "docs" / page):
            typed.type(step)
