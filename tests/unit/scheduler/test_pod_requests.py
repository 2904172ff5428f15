"""The requests of pods, and which pods share a signature."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.core_v1 import Pod
from mooring.constraints import requests
from mooring.scheduler.columns.signatures import SignatureTable
from mooring.testing.builders import made, pod


@dataclass(frozen=True)
class Case:
    name: str
    spec: dict[str, Any]
    asked: dict[str, int]
    scored: dict[str, int] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


def container(cpu: str = "", memory: str = "", name: str = "c", **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": {key: text for key, text in amounts.items() if text}}, **more}


MEGA = 1024 * 1024
CASES = [
    Case("containers add up", {"containers": [container("100m"), container("1")]}, {"cpu": 1100}),
    Case(
        "a container that says nothing counts as a small one in scores only",
        {"containers": [container(), container("1", "1Gi")]},
        {"cpu": 1000, "memory": 1024 * MEGA},
        {"cpu": 1100, "memory": 1224 * MEGA},
    ),
    Case(
        "a container that says zero means it",
        {"containers": [container("0", "0")]},
        {"cpu": 0, "memory": 0},
        {"cpu": 0, "memory": 0},
    ),
    Case(
        "init containers run before the others: the larger counts",
        {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
        {"cpu": 3000},
    ),
    Case(
        "sidecars run beside the containers",
        {"containers": [container("1")], "initContainers": [container("500m", restartPolicy="Always")]},
        {"cpu": 1500},
    ),
    Case(
        "sidecars run beside the init containers that follow, not those before",
        {
            "containers": [container("1")],
            "initContainers": [container("3"), container("1", restartPolicy="Always"), container("2500m")],
        },
        {"cpu": 3500},
    ),
    Case("overhead comes on top", {"containers": [container("1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}),
    Case(
        "pod-level resources replace the sum, for what they name",
        {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}},
        {"cpu": 3000, "memory": 1024 * MEGA},
        {"cpu": 3000, "memory": 1024 * MEGA},
    ),
    Case(
        "with pod-level resources scores assume only what nobody names",
        {"containers": [container(), container()], "resources": {"requests": {"cpu": "3"}}},
        {"cpu": 3000},
        {"cpu": 3000, "memory": 400 * MEGA},
    ),
    Case(
        "fractions are rounded up once, at the end",
        {"containers": [container("100u"), container("100u")]},
        {"cpu": 1},
    ),
    Case(
        "resources that scheduling does not count are left out",
        {
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "strange": "1"}},
                }
            ]
        },
        {"example.com/gpu": 2, "hugepages-2Mi": 4 * MEGA},
    ),
    Case(
        "a container that is growing or shrinking counts with the larger",
        {"containers": [container("1", name="grows"), container("1", name="shrinks")]},
        {"cpu": 3000},
        status={
            "containerStatuses": [
                {"name": "grows", "resources": {"requests": {"cpu": "500m"}}},
                {"name": "shrinks", "resources": {"requests": {"cpu": "2"}}},
            ]
        },
    ),
    Case(
        "a resize that can never be counts as what is there",
        {"containers": [container("8", name="c")]},
        {"cpu": 1000},
        status={
            "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        },
    ),
]


@pytest.mark.req("S.3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_requests(case: Case) -> None:
    made_pod = made(Pod, {"metadata": {"name": "p"}, "spec": case.spec, "status": case.status})
    assert requests.in_units(requests.requests_of(made_pod, pod_level=True)) == case.asked
    if case.scored:
        assert requests.in_units(requests.scored_requests_of(made_pod, pod_level=True)) == case.scored


def test_pod_level_resources_can_be_off() -> None:
    made_pod = pod("p", cpu="1", spec={"resources": {"requests": {"cpu": "3"}}})
    assert requests.in_units(requests.requests_of(made_pod, pod_level=False)) == {"cpu": 1000}


IDENTICAL = [
    ("other names", pod("b")),
    ("other priorities", pod("a", priority=7)),
    ("a node", pod("a", on="somewhere")),
    ("volumes of their own", pod("a", spec={"volumes": [{"name": "token-x7z", "emptyDir": {}}]})),
    ("environment", pod("a", spec={"containers": [{"name": "x", "image": "app:1", "env": [{"name": "E"}]}]})),
]
DIFFERENT = [
    ("another namespace", pod("a", namespace="prod")),
    ("another label", pod("a", labels={"app": "web"})),
    ("another request", pod("a", cpu="1")),
    ("another image", pod("a", spec={"containers": [{"name": "c", "image": "app:2"}]})),
    ("a toleration", pod("a", spec={"tolerations": [{"operator": "Exists"}]})),
    ("overhead", pod("a", spec={"overhead": {"cpu": "1"}})),
    (
        "an owner whose pods are spread",
        pod("a", metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}),
    ),
]


@pytest.mark.parametrize(("difference", "other"), IDENTICAL, ids=[name for name, _ in IDENTICAL])
def test_pods_that_differ_only_in_what_scheduling_does_not_read_share_a_shape(difference: str, other: Pod) -> None:
    shapes = SignatureTable()
    first = pod("a")
    shape = shapes.signature_of(first)
    assert shapes.signature_of(other) is shape, difference


@pytest.mark.parametrize(("difference", "other"), DIFFERENT, ids=[name for name, _ in DIFFERENT])
def test_pods_that_scheduling_can_tell_apart_do_not(difference: str, other: Pod) -> None:
    shapes = SignatureTable()
    shape = shapes.signature_of(pod("a"))
    assert shapes.signature_of(other) is not shape, difference


def test_a_signature_that_no_pod_has_any_more_is_forgotten() -> None:
    shapes = SignatureTable()
    kept = shapes.signature_of(pod("a"))
    shapes.signature_of(pod("a", cpu="1"))
    shapes.signature_of(pod("a"))
    assert len(shapes) == 1
    assert shapes.signature_of(pod("a")) is kept
