"""A control plane without a single point that must not die: etcd, two API servers behind a balancer, two of the rest.

with ha_cluster(tmp_path, members=3) as cluster:
    cluster.crew.start("scheduler", *ELECTED)
    cluster.servers[0].kill()
    cluster.start_server(0)

The servers have the same certificates (what `pki` in a data directory holds), and their ports over restarts.
"""

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from balancer import Balancer
from etcd_servers import EtcdServers, etcd_cluster
from eventually import eventually
from running_server import RunningServer, start_server
from worker_processes import Crew

CLIENTS = ("admin", "scheduler", "controllers")


@dataclass
class HaCluster:
    """What runs, and how to reach it."""

    folder: Path
    etcd: EtcdServers
    balancer: Balancer
    flags: Sequence[str]
    servers: list[RunningServer] = field(default_factory=list)

    @property
    def kubeconfigs(self) -> Path:
        """The folder of kubeconfig files that lead to the balancer."""
        return self.folder / "kubeconfigs"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, for the balancer."""
        return self.kubeconfigs / "admin.kubeconfig"

    def add_server(self, *flags: str) -> None:
        """Start one more server."""
        number = len(self.servers)
        data_dir = self.folder / f"server-{number}"
        if self.servers:
            shutil.copytree(self.servers[0].data_dir / "pki", data_dir / "pki")
        self.servers.append(start_server(data_dir, *self.etcd.flags(), *self.flags, *flags))
        self.balancer.add(self.servers[number].address)
        if number == 0:
            self.kubeconfigs.mkdir()
            for name in CLIENTS:
                self.balancer.kubeconfig(data_dir / f"{name}.kubeconfig", self.kubeconfigs / f"{name}.kubeconfig")

    def start_server(self, number: int, *flags: str) -> None:
        """Start a server that has ended, where it was."""
        before = self.servers[number]
        assert before.process.poll() is not None
        port = str(before.address[1])
        self.servers[number] = start_server(before.data_dir, "--port", port, *self.etcd.flags(), *self.flags, *flags)

    def wait_for_servers(self, count: int) -> None:
        """Until the balancer sends clients to so many."""
        eventually(lambda: self.balancer.ready() == count)

    def stop(self) -> None:
        for server in self.servers:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.kill()


@contextmanager
def ha_cluster(
    folder: Path, *, members: int = 1, servers: int = 2, flags: Sequence[str] = (), at_first: Sequence[str] = ()
) -> Iterator[tuple[HaCluster, Crew]]:
    """Yield a cluster whose API servers are ready, and a crew for it that has not begun.

    The servers always have `flags`, and those of `at_first` until they are started again.
    """
    with etcd_cluster(folder / "etcd", members=members) as etcd, Balancer() as balancer:
        cluster = HaCluster(folder, etcd, balancer, flags)
        try:
            for _ in range(servers):
                cluster.add_server(*at_first)
            cluster.wait_for_servers(servers)
            with Crew(folder, cluster.kubeconfigs) as crew:
                yield cluster, crew
        finally:
            cluster.stop()
