"""`mooring up` with real nodes: each a kubelet with containerd and a kube-proxy, in a network of its own.

with joined_nodes(folder, [1, 2]) as cluster:
    cluster.kubectl("get", "nodes")

The folder in MOORING_REAL has `kubelet` and `kube-proxy`; archives in its `images/` are imported, and a `kube-dns`
answers for the cluster if it is there. Components show what a real cluster's show: nodes join with a token, kube-proxy
and kube-dns have service accounts. Used by the tests in ``real/``.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import real_node
from kubectl_caller import Kubectl
from node_network import NodeNetwork, node_network
from real_node import RealNode, Setup, eventually_true, server_seen_from
from running_up import running_up

_PAUSE = "registry.k8s.io/pause:3.10.2"
_PODS = "10.97.0.0/16"
_PROXY = (
    "--proxy-mode=iptables",
    "--nodeport-addresses=primary",
    f"--cluster-cidr={_PODS}",
    "--conntrack-max-per-core=0",
)
_KUBELET = {"port": 10250, "clusterDomain": "cluster.local", "maxPods": 200, "registryPullQPS": 0}


def missing() -> str:
    """Return what is not here for it; empty when all is."""
    if found := real_node.missing():
        return found
    return "" if _program("kube-proxy").is_file() else f"{os.environ['MOORING_REAL']} has no kube-proxy"


@dataclass
class JoinedNodes:
    """What runs."""

    folder: Path
    data_dir: Path
    kubectl: Kubectl
    networks: list[NodeNetwork]
    nodes: list[RealNode]


Beside = Callable[[JoinedNodes], AbstractContextManager[None]]


@contextmanager
def joined_nodes(
    folder: Path, numbers: Sequence[int], *flags: str, beside: Beside | None = None
) -> Iterator[JoinedNodes]:
    """Yield a control plane and nodes that are Ready, called real-1 and so on; `beside` starts before nodes join."""
    with ExitStack() as stack:
        networks = [stack.enter_context(node_network(number)) for number in numbers]
        names = [network.machine for network in networks]
        reached = ["--bind-address", "0.0.0.0", "--tls-san", ",".join(names), "--advertise-address", names[0]]
        up = ["--data-dir", str(folder / "up"), "--nodes", "0", *reached]
        plane = stack.enter_context(running_up(*up, *flags))
        cluster = JoinedNodes(folder, folder / "up", Kubectl(plane.kubeconfig), networks, [])
        if beside:
            stack.enter_context(beside(cluster))
        words = {**_KUBELET, "clusterDNS": _start_dns(stack, cluster)}
        _give_rights_to_proxies(cluster)
        for network in networks:
            name = f"real-{network.number}"
            place = folder / name
            place.mkdir()
            setup = _setup(network, {**words, **_cgroups(name)})
            cluster.nodes.append(stack.enter_context(real_node.real_node(place, plane.kubeconfig, name, setup)))
            config = f"--kubeconfig={_kubeconfig(cluster, network, 'kube-proxy')}"
            stack.enter_context(_running(network, place, "kube-proxy", config, f"--hostname-override={name}", *_PROXY))
        for node in cluster.nodes:
            _wait_until_ready(cluster.kubectl, node.name)
        yield cluster


def _cgroups(name: str) -> dict[str, Any]:
    """Return a place of its own among the cgroups, of version 1: kubelets take away what they do not know."""
    own = [each / name for each in Path("/sys/fs/cgroup").iterdir() if (each / "tasks").exists()]
    for place in own:
        place.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (place / file).exists():
                (place / file).write_text((place.parent / file).read_text())
    return {"cgroupsPerQOS": True, "cgroupRoot": f"/{name}"} if own else {}


def _wait_until_ready(kubectl: Kubectl, name: str) -> None:
    eventually_true(lambda: name in kubectl("get", "nodes", "-o", "name"))
    kubectl("wait", "--for=condition=Ready", "--timeout=50s", f"node/{name}")


def _setup(network: NodeNetwork, kubelet: Mapping[str, Any]) -> Setup:
    images = sorted((Path(os.environ["MOORING_REAL"]) / "images").glob("*.tar"))
    sandbox = _PAUSE if any(image.name == "pause.tar" for image in images) else real_node.IMAGE
    return Setup(network=network, images=images, sandbox=sandbox, snapshotter="overlayfs", kubelet=kubelet)


def _start_dns(stack: ExitStack, cluster: JoinedNodes) -> list[str]:
    """Where names of the cluster are looked up."""
    if not _program("kube-dns").is_file():
        return []
    network = cluster.networks[0]
    config = f"--kubecfg-file={_kubeconfig(cluster, network, 'kube-dns')}"
    flags = (config, f"--dns-bind-address={network.node}", "--healthz-port=8055")
    stack.enter_context(_running(network, cluster.folder, "kube-dns", *flags))
    return [network.node]


def _give_rights_to_proxies(cluster: JoinedNodes) -> None:
    """As kubeadm does: kube-proxy has a service account there."""
    to = ("--clusterrole=system:node-proxier", "--serviceaccount=kube-system:kube-proxy")
    cluster.kubectl("create", "clusterrolebinding", "test-kube-proxy", *to)


def _kubeconfig(cluster: JoinedNodes, network: NodeNetwork, account: str) -> Path:
    """Return a kubeconfig for use in a node's network, with a token of a service account."""
    own = Kubectl(cluster.kubectl.kubeconfig, "kube-system")
    if f"serviceaccount/{account}\n" not in own("get", "serviceaccounts", "-o", "name"):
        own("create", "serviceaccount", account)
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = server_seen_from(network, own.kubeconfig)
    config["users"][0]["user"] = {"token": own("create", "token", account, "--duration=24h").strip()}
    file = cluster.folder / f"{account}-{network.number}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@contextmanager
def _running(network: NodeNetwork, place: Path, name: str, *flags: str) -> Iterator[None]:
    with (place / f"{name}.log").open("wb") as log:
        command = [*network.enter, str(_program(name)), *flags]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            real_node.end(process)


def _program(name: str) -> Path:
    return Path(os.environ["MOORING_REAL"]) / name
