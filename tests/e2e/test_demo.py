"""`mooring demo --fast`: all that it promises comes about, or it fails by itself; what it shows is checked here."""

import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Case:
    id: str
    words: tuple[str, ...]


CASES = [
    Case("a pod that wants more than 950 waits, with the reason", ("critical-workload waits: 0/2 nodes",)),
    Case("and runs when a node comes", ("critical-workload", "reliable-node-1", "sla Gt 950")),
    Case("a taint that changes evicts", ("sla=940:NoExecute", "steady-service", "waits: 0/1 nodes")),
    Case("versions are compared as versions", ("modern-app", "upgraded-node", "SemverGt v1.31.99")),
    Case("an expression tolerates", ("second-monitoring-agent", "taint.key == 'maintenance'")),
    Case("a new revision finds its own zone", ("set image", "application-server")),
    Case("a gate that is rolled back breaks a service", ("ComparisonOperators=false", 'Unsupported value: "Gt"')),
    Case("an older version refuses", ("--emulation-version 1.34", '"web" is invalid')),
]


@pytest.fixture(scope="module")
def shown() -> str:
    command = [sys.executable, "-m", "mooring", "demo", "--fast"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_demo_shows(case: Case, shown: str) -> None:
    place = 0
    for words in case.words:
        place = shown.index(words, place)
