"""etcd, kube-apiserver, kube-scheduler and kube-controller-manager on loopback, from the folder in MOORING_REAL.

There are no kubelets: nodes are objects that say they are ready, and a pod counts as placed when it is bound. The
controller for the life of nodes is left out, since it would find them all dead.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eventually import eventually
from free_ports import free_port
from kubectl_caller import KUBECTL, Kubectl
from lagging_watch import lagging_watch

_NEEDED = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: admintoken}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


def missing() -> str:
    """Return what is not there for it; empty when all is."""
    folder = os.environ.get("MOORING_REAL")
    if not folder:
        return "MOORING_REAL does not name a folder with binaries of Kubernetes"
    absent = [name for name in _NEEDED if not (Path(folder) / name).exists()]
    if absent:
        return f"{folder} has no {', '.join(absent)}"
    return "" if KUBECTL else "there is no kubectl on this machine"


@contextmanager
def real_cluster(folder: Path, *, pod_watch_lag: float = 0.0) -> Iterator[Kubectl]:
    """Yield a control plane that answers; kube-controller-manager learns of pods `pod_watch_lag` seconds late."""
    with ExitStack() as stack:
        kubectl = stack.enter_context(real_server(folder))
        own = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"]
        stack.enter_context(_running(folder, "kube-scheduler", *own, f"--kubeconfig={kubectl.kubeconfig}"))
        key = f"--service-account-private-key-file={folder / 'sa.key'}"
        controllers = "--controllers=*,-node-lifecycle-controller"
        kubeconfig = kubectl.kubeconfig
        if pod_watch_lag:
            server = int(kubeconfig.read_text().partition("127.0.0.1:")[2].partition('"')[0])
            port = stack.enter_context(lagging_watch(server, folder / "certs", pod_watch_lag))
            kubeconfig = folder / "lagging.kubeconfig"
            kubeconfig.write_text(_KUBECONFIG.format(port=port))
        stack.enter_context(
            _running(folder, "kube-controller-manager", *own, controllers, key, f"--kubeconfig={kubeconfig}")
        )
        eventually(lambda: kubectl.run("get", "serviceaccount", "default").returncode == 0, 120)
        yield kubectl


@contextmanager
def real_server(folder: Path, *flags: str) -> Iterator[Kubectl]:
    """etcd and a kube-apiserver that answers, alone."""
    etcd, peers, port = free_port(), free_port(), free_port()
    (folder / "tokens").write_text("admintoken,admin,admin,system:masters\n")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG.format(port=port))
    key = str(folder / "sa.key")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    kubectl = Kubectl(kubeconfig)
    with ExitStack() as stack:
        data = ["--data-dir", str(folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error"]
        clients = ["--listen-client-urls", _url(etcd), "--advertise-client-urls", _url(etcd)]
        stack.enter_context(_running(folder, "etcd", *data, *clients, "--listen-peer-urls", _url(peers)))
        stack.enter_context(
            _running(
                folder,
                "kube-apiserver",
                f"--etcd-servers={_url(etcd)}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={folder / 'certs'}",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-account-issuer=https://kubernetes.default",
                f"--token-auth-file={folder / 'tokens'}",
                "--authorization-mode=Node,RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                *flags,
            )
        )
        eventually(lambda: kubectl.run("get", "--raw", "/readyz").returncode == 0, 120)
        yield kubectl


@contextmanager
def _running(folder: Path, name: str, *flags: str) -> Iterator[None]:
    command = [str(Path(os.environ["MOORING_REAL"]) / name), *flags]
    with (folder / f"{name}.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
