"""A real API server in a process of its own, for tests over HTTPS.

with running_server(tmp_path) as server:
    subprocess.run(["kubectl", "--kubeconfig", server.kubeconfig, "get", "nodes"])
"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import yaml

from free_ports import free_port

_START = "from mooring.cli.commands.apiserver import apiserver; apiserver()"
_SECONDS = 30


@dataclass
class RunningServer:
    """Where the server listens and how to get in."""

    process: subprocess.Popen[str]
    data_dir: Path
    url: str
    log: Path
    files: list[IO[Any]] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "admin.kubeconfig"

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port

    def tls(self) -> ssl.SSLContext:
        """Return a context with the administrator's certificate."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        pair = self.data_dir / "test-client.pem"
        if not pair.exists():
            parts = (base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data"))
            pair.write_bytes(b"".join(parts))
        context.load_cert_chain(pair)
        return context

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """Send one request as the administrator, in a tenth of kubectl's processor time; return the response's code."""
        host, port = self.address
        with closing(HTTPSConnection(host, port, context=self.tls(), timeout=_SECONDS)) as connection:
            encoded = None if body is None else json.dumps(body)
            connection.request(method, path, encoded, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            return response.status

    def pause(self) -> None:
        """Stop the server as a debugger does: its connections stay open, and are not answered."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the server without any warning."""
        self.process.kill()
        self.process.wait()
        self._close()

    def stop(self) -> int:
        """Ask the server to stop, as a service manager would; returns its exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(_SECONDS)
        self._close()
        return code

    def _close(self) -> None:
        for file in self.files:
            file.close()


def start_server(data_dir: Path, *flags: str) -> RunningServer:
    """Start a server and wait until it is ready."""
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "server.log"
    errors = log.open("a")
    process = subprocess.Popen(
        [sys.executable, "-c", _START, "--data-dir", str(data_dir), "--port", str(free_port()), *flags],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    deadline = time.monotonic() + _SECONDS
    line = ""
    while "ready at" not in line:
        line = process.stdout.readline()
        if not line and (process.poll() is not None or time.monotonic() > deadline):
            errors.close()
            process.stdout.close()
            raise AssertionError(f"the server did not start: {log.read_text()}")
    url = line.partition("ready at ")[2].partition(";")[0]
    return RunningServer(process, data_dir, url, log, [errors, process.stdout])


@contextmanager
def running_server(data_dir: Path, *flags: str) -> Iterator[RunningServer]:
    """Yield a server that is stopped at the end."""
    server = start_server(data_dir, *flags)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
