"""The labs of docs/labs, typed word for word into a shell. Only ports are others, so that labs can run side by side."""

import re
import socket
from pathlib import Path

import pytest

from kubectl_caller import KUBECTL
from typed_console import ROOT, Step, console, steps

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
LABS = sorted((ROOT / "docs/labs").glob("*.md"))


@pytest.mark.req("4330.11", "4330.13")
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.stem)
def test_the_lab_does_what_it_says(lab: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    typed = steps(lab)
    assert len(typed) > 5
    with console(tmp_path) as shell:
        for step in typed:
            shell.type(Step(_with_ports(step.command, port), step.expected))


def _with_ports(command: str, port: int) -> str:
    """The server keeps its port over restarts; the others show no metrics."""
    command = re.sub(r"^mooring apiserver", f"mooring apiserver --port {port}", command)
    return re.sub(r"^mooring (scheduler|controllers)", r"mooring \1 --port -1", command)
