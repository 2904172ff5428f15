"""Networks of pods that run programs: this machine's, or one for each pod.

A network namespace of its own gives a pod the address from its node and all ports. A veth pair connects it (`ip netns`,
which needs root):

    this machine   169.254.1.1 on the pair, a route to the pod's address
    the pod        its address on eth0, default route by 169.254.1.1

Pods reach each other if the machine forwards packets. Leftovers of a killed server are removed at the next start.
Called by ``pods.py``.
"""

import asyncio
import hashlib
from pathlib import Path

from mooring.api.core_v1 import Pod
from mooring.base.processes import kill_and_wait, spawn
from mooring.controllers.programs.sandbox import find_executable

_GATEWAY = "169.254.1.1"
_NAMES = Path("/run/netns")


class NetworkError(Exception):
    """A pod's network could not be created; the message is the operating system's."""


class PodNetworks:
    """The networks of pods: with `own` one network namespace for each pod without `hostNetwork`, else the machine's."""

    def __init__(self, address: str, folder: Path, *, own: bool) -> None:
        self.address = address
        """The address of this machine, and of pods that share its network."""
        self._own = own
        self._prefix = f"mooring-{_short_hash(str(folder))}-"

    def is_own(self, pod: Pod) -> bool:
        """Return whether a pod gets a network of its own and an address of its node's range."""
        return self._own and not pod.spec.host_network

    async def create(self, pod: Pod, address: str) -> list[str]:
        """Create a pod's network; return the command prefix that enters it. Raise NetworkError if that fails."""
        if not self.is_own(pod):
            return []
        name = self._namespace_name(pod)
        enter_command = [find_executable("nsenter"), f"--net={_NAMES / name}", "--"]
        if (_NAMES / name).exists():
            return enter_command
        cable = f"mr{_short_hash(pod.metadata.uid)}"
        await _run_ip_commands(
            f"netns add {name}",
            f"link add {cable} type veth peer name eth0 netns {name}",
            f"address add {_GATEWAY}/32 dev {cable}",
            f"link set {cable} up",
            f"route add {address}/32 dev {cable} src {self.address}",
        )
        await _run_ip_commands(
            "link set lo up",
            f"address add {address}/32 dev eth0",
            "link set eth0 up",
            f"route add {_GATEWAY} dev eth0 scope link",
            f"route add default via {_GATEWAY}",
            inside=name,
        )
        return enter_command

    async def remove(self, pod: Pod) -> None:
        if self.is_own(pod) and (_NAMES / self._namespace_name(pod)).exists():
            await _run_ip_commands(f"netns delete {self._namespace_name(pod)}")

    async def remove_leftovers(self) -> None:
        """Remove the networks that a killed control plane has left."""
        if self._own and (found := self._find_leftovers()):
            await _run_ip_commands(*(f"netns delete {name}" for name in found))

    def _find_leftovers(self) -> list[str]:
        return [place.name for place in _NAMES.glob(f"{self._prefix}*")]

    def _namespace_name(self, pod: Pod) -> str:
        return f"{self._prefix}{_short_hash(pod.metadata.uid)}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


async def _run_ip_commands(*lines: str, inside: str = "") -> None:
    process = await spawn(
        find_executable("ip"),
        *(["-netns", inside] if inside else []),
        "-batch",
        "-",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate("\n".join([*lines, ""]).encode())
    finally:
        if process.returncode is None:
            await kill_and_wait(process)
    if process.returncode:
        raise NetworkError(output.decode(errors="replace").strip())
