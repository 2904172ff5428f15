"""Start an API server and a scheduler, Mooring's or upstream Kubernetes', for benchmarks that compare them.

    with ControlPlane("kubernetes", "kubernetes", binaries=Path("bin")) as plane:
        connect(plane.kubeconfig, user_agent="benchmark")

Upstream's programs are read from a folder (``MOORING_REAL``) with etcd, kube-apiserver and kube-scheduler. Both servers
listen on loopback with TLS. Upstream's client-side rate limits are raised, so that they do not limit the result.
"""

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import yaml

from mooring.base import known_gates

Flavor = Literal["mooring", "kubernetes"]
_QPS = 10_000
_START_SECONDS = 60


class ControlPlane:
    """Run an API server, and a scheduler once `start_scheduler` is called; stop both on exit."""

    def __init__(
        self,
        server: Flavor,
        scheduler: Flavor,
        *,
        binaries: Path | None = None,
        gates: Mapping[str, bool] | None = None,
        scheduler_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.server, self.scheduler = server, scheduler
        self._binaries = binaries
        self._gates = dict(gates or {})
        self._scheduler_config = dict(scheduler_config or {})
        self._temporary = tempfile.TemporaryDirectory()
        self._folder = Path(self._temporary.name)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kubeconfig = self._folder / "admin.kubeconfig"

    def __enter__(self) -> Self:
        try:
            if self.server == "mooring":
                self._start_mooring_server()
            else:
                self._start_kubernetes_server()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_scheduler(self) -> None:
        """Start the scheduler; return when it has connected (Mooring's: when it is ready)."""
        if self.scheduler == "mooring":
            config = self._write_config({"apiVersion": "kubescheduler.config.k8s.io/v1"} | self._scheduler_config)
            flags = ["--kubeconfig", str(self.kubeconfig), "--port", "-1", "--config", str(config), *self._gate_flags()]
            self._run("scheduler", *_MOORING, "scheduler", *flags)
            self._wait_for_output("scheduler", "is ready")
        else:
            connection = {"kubeconfig": str(self.kubeconfig), "qps": _QPS, "burst": _QPS}
            base = {"apiVersion": "kubescheduler.config.k8s.io/v1", "clientConnection": connection}
            config = self._write_config(base | {"leaderElection": {"leaderElect": False}} | self._scheduler_config)
            flags = [f"--config={config}", "--secure-port=0", "-v=2", *self._gate_flags()]
            self._run("scheduler", self._binary("kube-scheduler"), *flags)
            self._wait_for_output("scheduler", "Caches are synced", "erving", "tarting Kubernetes Scheduler")

    def stop(self) -> None:
        """Stop every process and delete the folder."""
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._temporary.cleanup()

    def processor_seconds(self, name: str) -> float:
        """Return the processor time that a process ("server", "scheduler", "etcd") has used."""
        process = self._processes.get(name)
        if process is None:
            return 0.0
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self, name: str) -> str:
        """Return the last lines that a process wrote."""
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    # -- how

    def _start_mooring_server(self) -> None:
        flags = ["--data-dir", str(self._folder), "--port", "0", *self._gate_flags()]
        self._run("server", *_MOORING, "apiserver", *flags)
        self._wait_for_output("server", "ready at")

    def _start_kubernetes_server(self) -> None:
        client, peer, secure = (_free_port() for _ in range(3))
        at = f"http://127.0.0.1:{client}"
        self._run(
            "etcd",
            self._binary("etcd"),
            *("--data-dir", str(self._folder / "etcd"), "--listen-client-urls", at, "--advertise-client-urls", at),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync", "--log-level", "error"),
        )
        key = self._folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self._folder / "tokens").write_text("token,admin,admin,system:masters\n")
        self._run(
            "server",
            self._binary("kube-apiserver"),
            *(f"--etcd-servers={at}", f"--secure-port={secure}", "--bind-address=127.0.0.1"),
            *(f"--cert-dir={self._folder / 'certs'}", f"--token-auth-file={self._folder / 'tokens'}"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *("--service-account-issuer=https://kubernetes.default", "--service-cluster-ip-range=10.0.0.0/16"),
            *(
                "--disable-admission-plugins=ServiceAccount",
                "--authorization-mode=RBAC",
                "--enable-priority-and-fairness=false",
            ),
            *("--max-requests-inflight=3000", "--max-mutating-requests-inflight=3000", *self._gate_flags()),
        )
        url = f"https://127.0.0.1:{secure}"
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))
        self._wait_for_server(url)

    def _wait_for_server(self, url: str) -> None:
        context = ssl._create_unverified_context()
        request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": "Bearer token"})
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, context=context, timeout=5):
                    return
            except OSError as error:
                if time.monotonic() > deadline or self._processes["server"].poll() is not None:
                    raise RuntimeError(f"kube-apiserver did not start ({error}): {self.log('server')}") from None
            time.sleep(0.2)

    def _gate_flags(self) -> list[str]:
        gates = self._gates
        if "mooring" in (self.server, self.scheduler):
            gates = {name: on for name, on in gates.items() if name in MOORING_GATES}
        return ["--feature-gates", ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())] if gates else []

    def _binary(self, name: str) -> str:
        if self._binaries is None or not (self._binaries / name).exists():
            raise FileNotFoundError(f"no {name} in {self._binaries or 'MOORING_REAL'}: name a folder with --binaries")
        return str(self._binaries / name)

    def _write_config(self, config: Mapping[str, Any]) -> Path:
        path = self._folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump({"kind": "KubeSchedulerConfiguration"} | dict(config)))
        return path

    def _run(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("w") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _wait_for_output(self, name: str, *texts: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        path = self._folder / f"{name}.log"
        while not any(text in path.read_text(errors="replace") for text in texts):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start: {self.log(name)}")
            time.sleep(0.05)


_MOORING = (sys.executable, "-m", "mooring")
MOORING_GATES = frozenset(gate.name for gate in known_gates.KNOWN)
"""The feature gates that Mooring knows. Others switch on parts of upstream's implementation and are not passed on."""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
