"""A cluster in the shape that pytest-kind gives it, so that suites written for that one run on Mooring.

The fixture `k8s_cluster` is one. There are no containers, so an image need not be loaded. Read next: ``plugin.py``.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.testing.control_plane import RunningControlPlane


class Cluster:
    """What tests written for pytest-kind ask of a cluster."""

    def __init__(self, plane: "RunningControlPlane", name: str = "mooring") -> None:
        self.plane = plane
        """The control plane itself, for what this class has no word for."""
        self.name = name
        self.kubeconfig_path: Path = plane.kubeconfig
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    @property
    def api(self) -> Any:
        """A client of pykube, where that is installed."""
        import pykube  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 - whoever asks for it has it

        return pykube.HTTPClient(pykube.KubeConfig.from_file(str(self.kubeconfig_path)))

    def kubectl(self, *words: str, **options: Any) -> str:
        """What kubectl prints; raises CalledProcessError."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        command = [str(self.kubectl_path), *words]
        printed: str = subprocess.check_output(command, env=environment, encoding="utf-8", **options)  # noqa: S603 - a test's own words
        return printed

    def create(self, config_file: str | Path | None = None) -> None:
        """The cluster is there already."""

    def load_docker_image(self, docker_image: str) -> None:
        """Simulated nodes have every image."""

    def delete(self) -> None:
        """The fixture ends the cluster when the session ends."""
