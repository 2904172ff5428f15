"""docs/limits.md: what it says is not there is answered as it says, and what it says is kept is kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mooring.api import errors
from mooring.api.core_v1 import Service
from mooring.testing.control_plane import RunningControlPlane
from mooring.testing.fluent import pod

pytestmark = pytest.mark.req("S.1")


@dataclass(frozen=True)
class Absent:
    name: str
    path: str
    method: str = "GET"


ABSENT = [
    Absent("pages of a simulated kubelet beside /healthz and /pods", "/api/v1/nodes/node-0/proxy/stats/summary"),
    Absent("metrics of nodes", "/apis/metrics.k8s.io/v1beta1/nodes"),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(nodes=1) as running:
        running.create(pod("web"))
        yield running


@pytest.mark.parametrize("case", ABSENT, ids=lambda case: case.name)
def test_what_is_not_there_is_not_found(plane: RunningControlPlane, case: Absent) -> None:
    with pytest.raises(errors.NotFound):
        plane.run(plane.client.raw(case.method, case.path))


def test_a_service_gets_an_address(plane: RunningControlPlane) -> None:
    plane.create(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}], selector: {app: web}}}"
    )
    assert plane.get(Service, "web").spec.cluster_ip.startswith("10.")
