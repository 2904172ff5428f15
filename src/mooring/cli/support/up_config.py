"""The parsed flags of `mooring up`, for ``foreground.py``."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.service_network import ServiceNetwork
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.base.component import Component
from mooring.cli.support.worker_process import WorkerConfig
from mooring.store.etcd.config import EtcdConfig

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot

DEFAULT_NODES = 3


class UpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane to run in the foreground."""

    component: Component
    data_dir: Path
    accept_lost_writes: bool
    ephemeral: bool
    etcd: EtcdConfig | None
    bind_address: str
    port: int
    tls_names: tuple[str, ...]
    services: ServiceNetwork
    nodes: str | None
    kubeconfig: Path | None
    runtime_config: str
    workers: WorkerConfig
    kubelets: KubeletOptions
    dashboard: bool = False
    dump: "Snapshot | None" = None
    """The cluster to begin with."""
