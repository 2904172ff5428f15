"""Start Kubernetes' own etcd, kube-apiserver and kube-scheduler on loopback, from a folder of binaries."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from differential.connection import Connection, UnreachableError
from free_ports import free_ports

_START_SECONDS = 90
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: admintoken}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


@contextmanager
def api_server(binaries: Path, folder: Path, *flags: str, without: tuple[str, ...] = ()) -> Iterator[Path]:
    """Run etcd and kube-apiserver, without some admission plugins; yield the administrator's kubeconfig."""
    etcd, peers, port = free_ports(3)
    (folder / "tokens").write_text("admintoken,admin,admin,system:masters\n")
    kubeconfig, key = folder / "kubeconfig", folder / "sa.key"
    kubeconfig.write_text(_KUBECONFIG.format(port=port))
    key.write_bytes(_new_key())
    with ExitStack() as stack:
        urls = [f"--listen-client-urls=http://127.0.0.1:{etcd}", f"--advertise-client-urls=http://127.0.0.1:{etcd}"]
        data = [f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error"]
        peer = f"--listen-peer-urls=http://127.0.0.1:{peers}"
        stack.enter_context(running(binaries, folder, "etcd", *urls, *data, peer))
        server = running(
            binaries,
            folder,
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder / 'certs'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default",
            f"--token-auth-file={folder / 'tokens'}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={','.join(('ServiceAccount', *without))}",  # no controller creates accounts
            *flags,
        )
        process = stack.enter_context(server)
        _wait_until_ready(kubeconfig, process, folder / "kube-apiserver.log")
        yield kubeconfig


@contextmanager
def running(binaries: Path, folder: Path, name: str, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program with its output in a log file; terminate it at the end."""
    with (folder / f"{name}.log").open("wb") as log:
        command = [str(binaries / name), *flags]
        try:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        except OSError as error:
            raise UnreachableError(f"cannot start {name}: {error}") from error
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _wait_until_ready(kubeconfig: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if Connection(kubeconfig).request("GET", "/readyz").code == 200:
                return
        except UnreachableError:
            pass
        time.sleep(0.2)
    lines = log.read_text(errors="replace").splitlines()
    raise UnreachableError(f"kube-apiserver did not become ready: {lines[-1] if lines else 'it logged nothing'}")


def _new_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
