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
    Absent("webhooks", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
    Absent("aggregated servers", "/apis/apiregistration.k8s.io/v1/apiservices"),
    Absent("metrics of nodes", "/apis/metrics.k8s.io/v1beta1/nodes"),
    Absent("flow schemas", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"),
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


def test_a_quota_is_kept_and_limits_nothing(plane: RunningControlPlane) -> None:
    plane.create("{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: '0'}}}")
    plane.create(pod("beyond"))
    assert plane.wait_for_pod("beyond").spec.node_name


def test_a_service_gets_an_address(plane: RunningControlPlane) -> None:
    plane.create(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}], selector: {app: web}}}"
    )
    assert plane.get(Service, "web").spec.cluster_ip.startswith("10.")
