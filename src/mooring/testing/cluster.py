"""A cluster with pytest-kind's interface, so that suites written for pytest-kind run on Mooring.

The fixture `k8s_cluster` returns one. Images need not be loaded: there are no containers. Read next: ``plugin.py``.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.testing.control_plane import RunningControlPlane


class Cluster:
    """pytest-kind's cluster interface."""

    def __init__(self, plane: "RunningControlPlane", name: str = "mooring") -> None:
        self.plane = plane
        self.name = name
        self.kubeconfig_path: Path = plane.kubeconfig
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    @property
    def api(self) -> Any:
        """Return a pykube client; pykube must be installed."""
        import pykube  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 - optional

        return pykube.HTTPClient(pykube.KubeConfig.from_file(str(self.kubeconfig_path)))

    def kubectl(self, *words: str, **options: Any) -> str:
        """Run kubectl and return its output; raise CalledProcessError."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        command = [str(self.kubectl_path), *words]
        printed: str = subprocess.check_output(command, env=environment, encoding="utf-8", **options)  # noqa: S603 - the test's own arguments
        return printed

    def create(self, config_file: str | Path | None = None) -> None:
        """Do nothing: the cluster exists."""

    def load_docker_image(self, docker_image: str) -> None:
        """Do nothing: simulated nodes need no images."""

    def delete(self) -> None:
        """Do nothing: the fixture stops the cluster at the end of the session."""
