"""The pytest plugin, which pytest finds by itself where Mooring is installed: the fixture `mooring` and its relatives.

    @pytest.mark.mooring(nodes=3)
    def test_a_pod_finds_a_node(mooring: RunningControlPlane) -> None:
        mooring.create(pod("web").toleration("sla", "Gt", "900"))
        assert mooring.wait_for_pod("web").spec.node_name

Every test has a control plane of its own, ready in a fraction of a second. The marker's arguments are those of
`mooring.testing.control_plane.RunningControlPlane`. Suites that would rather share one take `mooring_session`, with a
namespace for each test (`mooring_namespace`), or `k8s_cluster`, which has the shape of pytest-kind's. Nothing is loaded
before a test asks for it. `docs/testing.md` has more examples.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mooring.testing.cluster import Cluster
    from mooring.testing.control_plane import RunningControlPlane


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mooring(nodes=0, feature_gates='', …): how the fixture `mooring` is started")


@pytest.fixture
def mooring(request: pytest.FixtureRequest) -> "Iterator[RunningControlPlane]":
    """A running control plane."""
    from mooring.testing.control_plane import RunningControlPlane  # noqa: PLC0415 - tests without it need not load it

    marker = request.node.get_closest_marker("mooring")
    with RunningControlPlane(**(marker.kwargs if marker else {})) as plane:
        yield plane


@pytest.fixture(scope="session")
def mooring_options() -> dict[str, Any]:
    """How `mooring_session` is started; a suite that wants something else has a fixture of this name."""
    return {"nodes": 1}


@pytest.fixture(scope="session")
def mooring_session(mooring_options: dict[str, Any]) -> "Iterator[RunningControlPlane]":
    """A control plane that all tests of a session share."""
    from mooring.testing.control_plane import RunningControlPlane  # noqa: PLC0415 - as above

    with RunningControlPlane(**mooring_options) as plane:
        yield plane


@pytest.fixture
def mooring_namespace(mooring_session: "RunningControlPlane") -> "Iterator[str]":
    """A namespace of the shared control plane for one test; it goes with all that is in it."""
    from mooring.api.core_v1 import Namespace  # noqa: PLC0415 - as above
    from mooring.api.meta_v1 import ObjectMeta  # noqa: PLC0415 - as above

    [made] = mooring_session.create(Namespace(metadata=ObjectMeta(generate_name="test-")))
    yield made.metadata.name
    mooring_session.delete(Namespace, made.metadata.name, namespace="")


@pytest.fixture(scope="session")
def k8s_cluster(mooring_session: "RunningControlPlane") -> "Iterator[Cluster]":
    """The shared control plane in the shape that pytest-kind gives a cluster; KUBECONFIG leads to it."""
    from mooring.testing.cluster import Cluster  # noqa: PLC0415 - as above

    cluster = Cluster(mooring_session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
        yield cluster
