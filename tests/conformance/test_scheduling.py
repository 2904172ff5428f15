"""Recorded scheduling of Kubernetes: verdicts, reasons, points and event texts, read from this repository's copy."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.replay import Result, UnreadableFileError, replay_files, scheduling

DATA = Path(__file__).parent / "data" / "scheduling" / "cases.jsonl.gz"


def replay(*files: Path) -> Result:
    return replay_files(files, scheduling.replay)


def first_case() -> dict[str, Any]:
    with gzip.open(DATA) as lines:
        case: dict[str, Any] = json.loads(next(lines))
        return case


@pytest.mark.req("S.3", "5471.6")
def test_our_scheduling_is_the_recorded_one() -> None:
    result = replay(DATA)
    assert result.failed == []
    assert result.passed == 500


def test_a_wrong_recording_fails_by_name(tmp_path: Path) -> None:
    case = first_case()
    case["out"]["nodes"][0]["reasons"] = ["Insufficient memory"]
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case))
    [failure] = replay(file).failed
    assert failure.startswith("s101-0000: node-4: reasons ['Insufficient cpu']")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"in": 1, "out": 2}', '{"in": {"nodes": [1]}, "out": {}}'], ids=repr)
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(text)
    with pytest.raises(UnreadableFileError):
        replay(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError):
        replay(tmp_path / "nowhere.jsonl")
