"""A reader that goes away is no failure: `mooring gates | head -1`."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [["gates"], ["gates", "-o", "json"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_failure(words: list[str]) -> None:
    command = [sys.executable, "-u", "-m", "mooring", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # before anything is written
        reported = running.stderr.read()
    assert (running.returncode, reported) == (0, b"")
