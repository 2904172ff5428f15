"""The three machines of docs/ha.md on loopback: the page's own commands and units, with other addresses and paths.

with machines(tmp_path) as cluster:
    cluster.start("m1", "etcd")
    cluster.start("m1", "mooring-apiserver")

Addresses 10.0.0.N become 127.0.0.N, ports become free ones, and each machine's folders are below `tmp_path`.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from etcd_servers import etcd_program
from free_ports import free_ports

PAGE = Path(__file__).parents[1] / "docs" / "ha.md"
MACHINES = {"m1": "127.0.0.1", "m2": "127.0.0.2", "m3": "127.0.0.3"}
BALANCER = "127.0.0.10"
_DEATH = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # dies with the test


def blocks(language: str) -> list[str]:
    """Return the code of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


def units() -> dict[str, list[str]]:
    """Return the command of each unit on the page, as it is written there."""
    found = {}
    for text in blocks("ini"):
        name = re.search(r"^# /etc/systemd/system/(\S+)\.service$", text, flags=re.MULTILINE)
        command = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", text, flags=re.MULTILINE)
        assert name
        assert command
        found[name[1]] = shlex.split(command[1].replace("\\\n", " "))
    return found


def make_certificates(folder: Path) -> None:
    """Run the page's commands."""
    (script,) = blocks("sh")
    script = "set -eu\n" + script.replace("10.0.0.", "127.0.0.")
    subprocess.run(["bash", "-c", script], cwd=folder, check=True, capture_output=True, timeout=60)


@dataclass
class Cluster:
    """Processes by machine and unit."""

    folder: Path
    ports: dict[str, int]
    processes: dict[tuple[str, str], subprocess.Popen[bytes]] = field(default_factory=dict)

    def command(self, machine: str, unit: str) -> list[str]:
        """Return what the unit runs on a machine."""
        return [self._here(machine, part) for part in units()[unit]]

    def _here(self, machine: str, text: str) -> str:
        own = self.folder / "certs" / machine
        text = text.replace("${NAME}", machine).replace("${ADDRESS}", MACHINES[machine])
        text = text.replace("10.0.0.", "127.0.0.")
        for folder in ("/etc/mooring", "/var/lib"):
            text = text.replace(folder, f"{own}{folder}")
        for port, free in self.ports.items():
            text = re.sub(rf"(?<=:){port}\b|^{port}$", str(free), text)
        programs = {"/usr/bin/etcd": str(etcd_program()), "/usr/bin/mooring": f"{Path(sys.executable).parent}/mooring"}
        return programs.get(text, text)

    def run(self, machine: str, script: str) -> str:
        """Run commands of the page on a machine; what they print."""
        here = re.sub(r"\S+", lambda word: self._here(machine, word[0]), script)
        done = subprocess.run(["bash", "-euc", here], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def log(self, machine: str, unit: str) -> Path:
        return self.folder / f"{machine}-{unit}.log"

    def start(self, machine: str, unit: str, *flags: str) -> None:
        (self.folder / "certs" / machine / "var/lib/etcd").mkdir(exist_ok=True, mode=0o700)
        with self.log(machine, unit).open("ab") as log:
            self.processes[machine, unit] = subprocess.Popen(
                [*_DEATH, *self.command(machine, unit), *flags], stdout=log, stderr=log
            )

    def kill(self, machine: str, unit: str) -> None:
        process = self.processes.pop((machine, unit))
        process.kill()
        process.wait()

    def kubeconfig(self, machine: str) -> Path:
        return self.folder / "certs" / machine / "var/lib/mooring/admin.kubeconfig"

    def address(self, machine: str) -> str:
        return f"https://{MACHINES[machine]}:{self.ports['6443']}"

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@contextmanager
def machines(folder: Path) -> Iterator[Cluster]:
    """Certificates for the three machines; whatever was started ends with the context."""
    make_certificates(folder)
    cluster = Cluster(folder, dict(zip(("2379", "2380", "6443", "10251", "10252"), free_ports(5), strict=True)))
    try:
        yield cluster
    finally:
        cluster.stop()
