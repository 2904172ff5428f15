"""docs/upgrade.md, typed."""

from pathlib import Path

import pytest

from typed_console import ROOT, console, steps


@pytest.mark.req("U.2", "U.3", "U.5")
def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    with console(tmp_path) as typed:
        for step in steps(ROOT / "docs" / "upgrade.md"):
            typed.type(step)
