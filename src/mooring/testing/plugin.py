"""The pytest plugin, which pytest finds by itself where Mooring is installed: the fixture `mooring`.

    @pytest.mark.mooring(nodes=3)
    def test_a_pod_finds_a_node(mooring: RunningControlPlane) -> None:
        mooring.create(pod("web").toleration("sla", "Gt", "900"))
        assert mooring.wait_for_pod("web").spec.node_name

Every test has a control plane of its own, ready in a fraction of a second. The marker's arguments are those of
`mooring.testing.control_plane.RunningControlPlane`. `docs/testing.md` has more examples.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
