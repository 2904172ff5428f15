import json
import logging

import pytest

from mooring.base import logs


def test_a_key_is_new_once() -> None:
    once = logs.Once(size=2)
    assert [once.first(key) for key in ("a", "a", "b", "a")] == [True, False, True, False]


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten() -> None:
    once = logs.Once(size=2)
    assert [once.first(key) for key in ("a", "b", "c", "a")] == [True, True, True, True]


def test_fields_are_part_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(1)
    logs.get("mooring.x").info("node added", extra={"fields": {"node": "a b"}})
    assert capsys.readouterr().err.endswith('INFO    node added node="a b"\n')


def test_json_lines_hold_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(1, "json")
    logs.get("mooring.x").info("node added", extra={"fields": {"node": "a"}})
    entry = json.loads(capsys.readouterr().err)
    assert (entry["msg"], entry["node"], entry["level"]) == ("node added", "a", "info")


@pytest.mark.parametrize(("verbosity", "level"), [(0, logging.WARNING), (1, logging.INFO), (2, logging.DEBUG)])
def test_verbosity_chooses_the_level(verbosity: int, level: int) -> None:
    logs.configure(verbosity)
    assert logging.getLogger("mooring").level == level


@pytest.mark.parametrize(("over_status_line", "is_terminal"), [(True, True), (True, False), (False, True)])
def test_a_line_clears_a_status_line_that_stands_on_the_same_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, over_status_line: bool, is_terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    logs.configure(1, over_status_line=over_status_line)
    logs.get("mooring.x").info("node added")
    assert capsys.readouterr().err.startswith(logs.CLEAR_LINE) == (over_status_line and is_terminal)
