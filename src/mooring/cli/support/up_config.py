"""The parsed flags of `mooring up`, for ``foreground.py``."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mooring.cli.support.worker_process import WorkerConfig

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot
    from mooring.apiserver.options import ServerConfig

DEFAULT_NODES = 3


class UpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane to run in the foreground."""

    server: "ServerConfig"
    workers: WorkerConfig
    nodes: str | None
    kubeconfig: Path | None
    dashboard: bool
    dump: "Snapshot | None"
    """The cluster to begin with."""
