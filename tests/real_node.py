"""A real node: containerd and an unmodified kubelet, which join a control plane with what `mooring join-config` wrote.

with real_node(folder, kubeconfig, "real-1") as node:
    kubectl(...)          # pods run as processes of this machine, in containers of the image IMAGE

Needs root, Debian's containerd, runc, containernetworking-plugins and busybox-static, and the folder of Kubernetes'
binaries in MOORING_REAL. No registry is asked: the one image is made here, of busybox alone; `Setup` names others, and
a network apart from the machine's.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from node_network import NodeNetwork

IMAGE = "registry.local/busybox:1"
_PORT = 20250
_BRIDGE = "mooring-test0"
_COMMANDS = ("sh", "sleep", "cat", "echo", "tar", "sha256sum", "head", "seq", "mkdir", "rm", "ls", "wc", "httpd")
_PLUGINS = Path("/usr/lib/cni")
"""Of Debian's containernetworking-plugins."""
_CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["{folder}/cdi"]
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""
_KUBELET: dict[str, Any] = {
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "failCgroupV1": False,
    "failSwapOn": False,
    "healthzPort": 0,
    "imageGCHighThresholdPercent": 100,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "port": _PORT,
    "resolvConf": "",
}
"""What this kind of machine needs besides: cgroups of version 1, swap, and other things than the kubelet on it."""


def missing() -> str:
    """Return what a real node needs and is not here; empty when all is."""
    folder = os.environ.get("MOORING_REAL", "")
    if not folder:
        return "MOORING_REAL names no folder with Kubernetes' binaries"
    if not (Path(folder) / "kubelet").is_file():
        return f"{folder} has no kubelet"
    if os.getuid() != 0:
        return "containers need root"
    absent = [name for name in ("containerd", "ctr", "runc", "busybox") if shutil.which(name) is None]
    absent += [str(plugin) for plugin in (_PLUGINS / "loopback", _PLUGINS / "bridge") if not plugin.exists()]
    return f"{', '.join(absent)} cannot be found" if absent else ""


@dataclass(frozen=True)
class Setup:
    """What a node has that is not as usual."""

    network: NodeNetwork | None = None
    """Where it runs; in the machine's own network if not given. The server must be reachable from there."""
    images: Sequence[Path] = ()
    """Further images, as archives."""
    sandbox: str = IMAGE
    snapshotter: str = "native"
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Further words of the KubeletConfiguration."""
    containerd: Path | None = None
    """The folder of another containerd than the machine's, with its shim."""

    @property
    def enter(self) -> list[str]:
        return self.network.enter if self.network else []

    @property
    def pods(self) -> str:
        return self.network.pods if self.network else "10.97.0.0/24"


@dataclass
class RealNode:
    """What runs, and where it writes."""

    name: str
    folder: Path
    kubelet: subprocess.Popen[bytes]

    @property
    def state(self) -> Path:
        """The kubelet's root directory."""
        return self.folder / self.name / "state"

    @property
    def devices(self) -> Path:
        """Where containerd looks for what devices are (CDI)."""
        return self.folder / "containerd" / "cdi"

    @property
    def log(self) -> str:
        return (self.folder / "kubelet.log").read_text(errors="replace")


@contextmanager
def real_node(folder: Path, kubeconfig: Path, name: str, setup: Setup | None = None) -> Iterator[RealNode]:
    """Yield a node that joins by itself. Its containers end with it."""
    setup = setup or Setup()
    with _containerd(folder / "containerd", setup) as socket:
        command = [*setup.enter, str(Path(os.environ["MOORING_REAL"]) / "kubelet")]
        command += _join(folder / name, kubeconfig, name, socket, setup)
        with (folder / "kubelet.log").open("wb") as log:
            kubelet = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            try:
                yield RealNode(name, folder, kubelet)
            finally:
                end(kubelet)
                _unmount(folder)


def _join(joined: Path, kubeconfig: Path, name: str, socket: Path, setup: Setup) -> list[str]:
    """Return the flags of the kubelet, as the command printed them, with its state in a folder of this test."""
    command = [sys.executable, "-m", "mooring", "join-config", name, "--kubeconfig", str(kubeconfig)]
    command += ["--output", str(joined), "--runtime-endpoint", f"unix://{socket}"]
    if setup.network:
        command += ["--server", server_seen_from(setup.network, kubeconfig)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert printed[0] == "kubelet"
    configuration = yaml.safe_load((joined / "kubelet.yaml").read_text())
    configuration |= {**_KUBELET, "podLogsDir": str(joined / "logs"), "volumePluginDir": str(joined / "plugins")}
    configuration |= setup.kubelet
    (joined / "kubelet.yaml").write_text(yaml.safe_dump(configuration))
    return [flag.replace("/var/lib/kubelet", str(joined / "state")) for flag in printed[1:]] + [
        f"--root-dir={joined / 'state'}"
    ]


def server_seen_from(network: NodeNetwork, kubeconfig: Path) -> str:
    """Where a server that listens on all addresses of this machine is from a node's network."""
    [cluster] = yaml.safe_load(kubeconfig.read_text())["clusters"]
    return f"https://{network.machine}:{urlsplit(cluster['cluster']['server']).port}"


@contextmanager
def _containerd(folder: Path, setup: Setup) -> Iterator[Path]:
    (folder / "cni").mkdir(parents=True)
    words = {"folder": folder, "image": setup.sandbox, "snapshotter": setup.snapshotter}
    (folder / "config.toml").write_text(_CONTAINERD.format(**words, plugins=_PLUGINS))
    bridge = {"type": "bridge", "bridge": _BRIDGE, "isGateway": True, "ipam": _addresses(folder, setup.pods)}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    plugins = [{**bridge, "hairpinMode": True}, ports] if setup.network else [bridge]
    (folder / "cni" / "10-test.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": "test", "plugins": plugins})
    )
    _write_image(folder / "image.tar")
    socket = folder / "containerd.sock"
    with (folder / "log").open("wb") as log:
        command = [*setup.enter, "containerd", "--config", str(folder / "config.toml")]
        path = f"{setup.containerd}:{os.environ['PATH']}" if setup.containerd else os.environ["PATH"]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PATH": path})
        try:
            eventually_true(lambda: _ctr(socket, "version").returncode == 0)
            for image in (folder / "image.tar", *setup.images):
                imported = _ctr(socket, "images", "import", "--snapshotter", setup.snapshotter, str(image))
                assert imported.returncode == 0, imported.stderr
            yield socket
        finally:
            for task in _ctr(socket, "tasks", "ls", "-q").stdout.split():
                _ctr(socket, "tasks", "rm", "--force", task)  # its shim would outlive containerd
            end(process)
            _unmount(folder)
            subprocess.run([*setup.enter, "ip", "link", "delete", _BRIDGE], check=False, capture_output=True)


def _addresses(folder: Path, pods: str) -> dict[str, Any]:
    routes = [{"dst": "0.0.0.0/0"}]
    ranges = [[{"subnet": pods}]]
    return {"type": "host-local", "dataDir": str(folder / "addresses"), "ranges": ranges, "routes": routes}


def _ctr(socket: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["ctr", "--address", str(socket), "--namespace", "k8s.io", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _write_image(path: Path) -> None:
    """Write an image whose one layer is busybox with some of its names, in the form of `docker save`."""
    layer = io.BytesIO()
    busybox = Path(shutil.which("busybox") or "").read_bytes()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for name in _COMMANDS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    settings = {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"]}
    root = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": settings, "rootfs": root}).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [IMAGE], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(path, "w") as image:
        _add(image, name, config)
        _add(image, f"{digest}/layer.tar", layer.getvalue())
        _add(image, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to stop, and wait for it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unmount(folder: Path) -> None:
    """Take away what containers have left mounted below a folder, the deepest first."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        with suppress(OSError):
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def eventually_true(question: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
