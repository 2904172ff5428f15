"""The pytest plugin with the fixture `mooring` and related ones; pytest loads it where Mooring is installed.

    @pytest.mark.mooring(nodes=3)
    def test_a_pod_finds_a_node(mooring: RunningControlPlane) -> None:
        mooring.create(pod("web").toleration("sla", "Gt", "900"))
        assert mooring.wait_for_pod("web").spec.node_name

Every test gets its own control plane, ready in a fraction of a second. The marker takes the arguments of
`mooring.testing.control_plane.RunningControlPlane`. Suites that share one use `mooring_session` with a namespace for
each test (`mooring_namespace`), or `k8s_cluster`, which has pytest-kind's interface. Modules are imported when a test
needs them. `docs/testing.md` has more examples.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mooring.testing.control_plane import RunningControlPlane


class Cluster:
    """A cluster with pytest-kind's interface, so that suites written for pytest-kind run on Mooring."""

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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mooring(nodes=0, feature_gates='', …): how the fixture `mooring` is started")


@pytest.fixture
def mooring(request: pytest.FixtureRequest) -> "Iterator[RunningControlPlane]":
    """Run a control plane for one test."""
    from mooring.testing.control_plane import RunningControlPlane  # noqa: PLC0415 - imported only where it is used

    marker = request.node.get_closest_marker("mooring")
    with RunningControlPlane(**(marker.kwargs if marker else {})) as plane:
        yield plane


@pytest.fixture(scope="session")
def mooring_options() -> dict[str, Any]:
    """Return the arguments of `mooring_session`'s control plane; override this fixture to change them."""
    return {"nodes": 1}


@pytest.fixture(scope="session")
def mooring_session(mooring_options: dict[str, Any]) -> "Iterator[RunningControlPlane]":
    """Run a control plane that all tests of a session share."""
    from mooring.testing.control_plane import RunningControlPlane  # noqa: PLC0415 - as above

    with RunningControlPlane(**mooring_options) as plane:
        yield plane


@pytest.fixture
def mooring_namespace(mooring_session: "RunningControlPlane") -> "Iterator[str]":
    """Create a namespace in the shared control plane for one test, and delete it after the test."""
    from mooring.api.core_v1 import Namespace  # noqa: PLC0415 - as above
    from mooring.api.meta_v1 import ObjectMeta  # noqa: PLC0415 - as above

    [made] = mooring_session.create(Namespace(metadata=ObjectMeta(generate_name="test-")))
    yield made.metadata.name
    mooring_session.delete(Namespace, made.metadata.name, namespace="")


@pytest.fixture(scope="session")
def k8s_cluster(mooring_session: "RunningControlPlane") -> "Iterator[Cluster]":
    """Return the shared control plane with pytest-kind's interface, and set KUBECONFIG."""
    cluster = Cluster(mooring_session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
        yield cluster
