"""docs/metrics.md lists what the pages of a running control plane have: every metric, and no other."""

import re
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from running_up import running_up

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.mark.req("5471.10")
def test_every_metric_is_described_and_no_other() -> None:
    port = _free_port()
    with running_up("--ephemeral", "--nodes", "1", "--metrics-port", str(port)) as plane:
        command = ["kubectl", "--kubeconfig", str(plane.kubeconfig), "get", "--raw", "/metrics"]
        server = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            workers = answer.read().decode()
    there = set(_TYPE.findall(server)) | set(_TYPE.findall(workers))
    described = _ROW.findall(PAGE.read_text())
    assert sorted(there) == sorted(described)
