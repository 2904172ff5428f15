"""Recorded values of Kubernetes: versions, ranges, quantities and selectors, read from this repository's copy."""

import argparse
import json
from pathlib import Path

import pytest

from mooring.testing.replay import UnreadableFileError, values

DATA = Path(__file__).parent / "data" / "values" / "values.json"


def replay(*words: str) -> list[str]:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    values.add_arguments(parser)
    result = values.run(parser.parse_args(list(words)))
    assert result.passed or result.failed
    return result.failed


@pytest.mark.parametrize("section", ["parse", "compare", "ranges"])
@pytest.mark.req("5721.4")
def test_versions_are_read_and_compared_as_recorded(section: str) -> None:
    assert replay(str(DATA), "--only", section) == []


@pytest.mark.parametrize("section", ["quantities", "labelSelectors", "fieldSelectors"])
def test_quantities_and_selectors_are_read_as_recorded(section: str) -> None:
    assert replay(str(DATA), "--only", section) == []


def test_a_wrong_recording_fails_by_name(tmp_path: Path) -> None:
    recorded = json.loads(DATA.read_text())
    recorded["quantities"] = [{"in": "1500m", "canonical": "1.5", "format": "DecimalSI"}]
    file = tmp_path / "values.json"
    file.write_text(json.dumps(recorded))
    [failure] = replay(str(file), "--only", "quantities")
    assert failure.startswith("quantities '1500m': got {'canonical': '1500m'")


@pytest.mark.parametrize("text", ["", "[]", '{"quantities": 3}', '{"ranges": [{}]}'], ids=repr)
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text(text)
    with pytest.raises(UnreadableFileError):
        replay(str(file))
