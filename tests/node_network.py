"""A network of its own for a real node: what kubelets, kube-proxy and pods do to it does not touch the machine's.

with node_network(1) as network:
    subprocess.Popen([*network.enter, "kube-proxy", …])

The node has the address 10.199.1.2, its pods 10.97.1.0/24; the machine has 10.199.1.1 there, and routes to the pods of
all such nodes, as a router between real machines would. Needs root, and `ip` and `nsenter`.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True)
class NodeNetwork:
    """Names and addresses, by the number of the node."""

    number: int

    @property
    def name(self) -> str:
        return f"mooring-node-{self.number}"

    @property
    def enter(self) -> list[str]:
        """What to write before a command that is to run there. (`ip netns exec` would hide the cgroups.)"""
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    @property
    def machine(self) -> str:
        return f"10.199.{self.number}.1"

    @property
    def node(self) -> str:
        return f"10.199.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.97.{self.number}.0/24"


@contextmanager
def node_network(number: int) -> Iterator[NodeNetwork]:
    network = NodeNetwork(number)
    outside, before = f"mooring{number}", _FORWARDING.read_text()
    _ip("netns", "delete", network.name, check=False)  # what a run that was killed has left
    _ip("link", "delete", outside, check=False)
    _ip("netns", "add", network.name)
    try:
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", network.name)
        _ip("address", "add", f"{network.machine}/24", "dev", outside)
        _ip("link", "set", outside, "up")
        for words in (
            ["address", "add", f"{network.node}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"],
            ["route", "add", "default", "via", network.machine],
            *(["route", "add", "unreachable", server] for server in _name_servers()),
        ):
            _ip("-netns", network.name, *words)
        _ip("route", "add", network.pods, "via", network.node)
        _FORWARDING.write_text("1\n")
        subprocess.run([*network.enter, "sh", "-c", f"echo 1 >{_FORWARDING}"], check=True)
        yield network
    finally:
        _FORWARDING.write_text(before)
        _ip("link", "delete", outside, check=False)
        _ip("netns", "delete", network.name, check=False)


def _name_servers() -> list[str]:
    """Return the machine's, which cannot be reached from there: a kubelet that looks up its name fails at once. Else it
    waits for twenty seconds, after which it has given up its CSINode and never gets Ready.
    """
    text = Path("/etc/resolv.conf").read_text()
    return re.findall(r"^nameserver\s+([\d.]+)$", text, re.MULTILINE)


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0 or not check, f"ip {' '.join(words)}: {done.stderr}"
