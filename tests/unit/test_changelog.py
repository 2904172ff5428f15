"""CHANGELOG.md is by release, with one line for each change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
HEADINGS = ["Added", "Changed", "Fixed", "Removed", "Security"]


@pytest.mark.req("L.4")
def test_changelog_is_by_release_and_kind_of_change() -> None:
    releases = re.split(r"^## ", CHANGELOG.read_text(), flags=re.MULTILINE)[1:]
    assert releases
    for release in releases:
        title, *kinds = re.split(r"^### ", release, flags=re.MULTILINE)
        names = [kind.splitlines()[0] for kind in kinds]
        assert names, f"no change in {title!r}"
        assert names == [heading for heading in HEADINGS if heading in names]
        assert "\n- " not in title, f"a change before the first heading of {title!r}"


@pytest.mark.req("L.4")
def test_each_change_is_one_line() -> None:
    for line in CHANGELOG.read_text().splitlines():
        assert not line.startswith(" "), f"continued line: {line!r}; one change is one line"


@pytest.mark.req("L.4")
def test_no_change_is_listed_twice() -> None:
    changes = [line for line in CHANGELOG.read_text().splitlines() if line.startswith("- ")]
    assert sorted(set(changes)) == sorted(changes)
    assert [line for line in changes if line.startswith(("- Security:", "- Found"))] == []
