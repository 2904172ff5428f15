"""The labs of docs/labs, typed word for word into a shell. Only ports are others, so that labs can run side by side."""

import re
from pathlib import Path

import pytest

from free_ports import free_ports
from kubectl_caller import KUBECTL
from typed_console import ROOT, Step, console, steps

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
LABS = sorted((ROOT / "docs/labs").glob("*.md"))


@pytest.mark.req("4330.11", "4330.13")
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.stem)
def test_the_lab_does_what_it_says(lab: Path, tmp_path: Path) -> None:
    ports = free_ports(4)
    typed = steps(lab)
    assert len(typed) > 5
    with console(tmp_path) as shell:
        for step in typed:
            shell.type(Step(_with_ports(step.command, *ports), step.expected))


def _with_ports(command: str, server: int, second: int, etcd: int, peer: int) -> str:
    """Servers keep their ports over restarts; schedulers and controllers show no metrics."""
    client, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
    listen = f"--listen-client-urls {client} --advertise-client-urls {client} --listen-peer-urls {peers}"
    cluster = f"--initial-advertise-peer-urls {peers} --initial-cluster default={peers}"
    command = command.replace("http://127.0.0.1:2379", client).replace("--port 6444", f"--port {second}")
    command = re.sub(r"^etcd ", f"etcd {listen} {cluster} ", command)
    command = re.sub(r"^etcdctl ", f"etcdctl --endpoints {client} ", command)
    command = re.sub(r"^mooring apiserver", f"mooring apiserver --port {server}", command)
    return re.sub(r"^mooring (scheduler|controllers)", r"mooring \1 --port -1", command.replace("--port 10261", ""))
