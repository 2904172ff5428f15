"""A plugin for tests that make a cluster with pytest-kind: they get the one that `KUBECONFIG` leads to instead.

Used by ``clients.py``, in the environment of the suite: `pytest -p kind_standin`.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from pytest_kind import cluster


class GivenCluster(cluster.KindCluster):  # type: ignore[misc] # pytest-kind is only there where a suite brings it
    """A cluster that is there already, and stays."""

    def __init__(self, name: str, **_: Any) -> None:
        super().__init__(name)
        self.kubeconfig_path = Path(os.environ["KUBECONFIG"])
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    def create(self, config_file: str | Path | None = None) -> None:
        """There is nothing to do."""

    def delete(self) -> None:
        """Do nothing: the cluster is not ours."""


cluster.KindCluster = GivenCluster
