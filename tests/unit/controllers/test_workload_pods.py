"""What pods are worth when one has to go, when they are available, and what a template's hash is good for."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from mooring.api import times
from mooring.api.core_v1 import Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.controllers.workloads import deployment_replica_sets as replica_sets
from mooring.controllers.workloads import pod_states

pytestmark = pytest.mark.req("S.4")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> str:
    return times.to_seconds(NOW - timedelta(seconds=seconds))


def pod(
    *,
    node: str = "n",
    phase: str = "Running",
    ready_for: float | None = 100,
    age: float = 200,
    cost: str = "",
    restarts: int = 0,
) -> Pod:
    conditions = []
    if ready_for is not None:
        conditions = [PodCondition(type="Ready", status="True", last_transition_time=ago(ready_for))]
    statuses = [ContainerStatus(name="c", restart_count=restarts)]
    return Pod(
        metadata=ObjectMeta(
            name="p",
            uid="u",
            creation_timestamp=ago(age),
            annotations={pod_states.DELETION_COST: cost} if cost else {},
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, conditions=conditions, container_statuses=statuses),
    )


@dataclass(frozen=True)
class Order:
    name: str
    first: Pod
    second: Pod
    neighbours: tuple[int, int] = (0, 0)


ORDERS = [
    Order("a pod without a node goes before one with a node", pod(node=""), pod()),
    Order("a pending one before a running one", pod(phase="Pending", ready_for=None), pod(ready_for=None)),
    Order("one that is not ready before one that is", pod(ready_for=None), pod()),
    Order("a cheap one before a dear one", pod(cost="-3"), pod(cost="10")),
    Order("a cost that is no number counts as none", pod(cost="x"), pod(cost="1")),
    Order("one with more neighbours before one with fewer", pod(), pod(), (3, 1)),
    Order("one that is ready for a short time before one for a long time", pod(ready_for=5), pod(ready_for=5000)),
    Order("one that is restarted often before one that is not", pod(restarts=4), pod()),
    Order("a young one before an old one", pod(age=120), pod(age=100_000)),
]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: case.name)
def test_which_pod_goes_first(case: Order) -> None:
    first = pod_states.deletion_sort_key(case.first, case.neighbours[0], NOW)
    second = pod_states.deletion_sort_key(case.second, case.neighbours[1], NOW)
    assert first < second


@dataclass(frozen=True)
class Available:
    name: str
    pod: Pod
    seconds: int
    expected: float | None


AVAILABLE = [
    Available("a pod that is not ready is not about to be", pod(ready_for=None), 0, None),
    Available("a ready one is available at once where nothing else is asked", pod(ready_for=0), 0, 0.0),
    Available("or when the time has passed", pod(ready_for=30), 30, 0.0),
    Available("or in what is left of it", pod(ready_for=10), 30, 20.0),
]


@pytest.mark.parametrize("case", AVAILABLE, ids=lambda case: case.name)
def test_when_a_pod_is_available(case: Available) -> None:
    assert pod_states.seconds_to_availability(case.pod, case.seconds, NOW) == case.expected


def template(image: str = "a", **labels: str) -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image=image)])
    )


def test_the_hash_of_a_template_does_not_depend_on_the_order_of_labels() -> None:
    one, other = template(a="1", b="2"), template(b="2", a="1")
    assert replica_sets.template_hash(one, None) == replica_sets.template_hash(other, None)
    assert replica_sets.template_hash(one, None) != replica_sets.template_hash(one, 1)
    assert replica_sets.template_hash(one, None) != replica_sets.template_hash(template("b", a="1", b="2"), None)


def test_templates_are_the_same_whatever_their_hash_label_says() -> None:
    assert replica_sets.is_same_template(template(app="x"), template(app="x", **{replica_sets.HASH_LABEL: "y"}))
    assert not replica_sets.is_same_template(template(app="x"), template(app="z"))
