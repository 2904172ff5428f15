"""The arithmetic of rollouts: tables of Kubernetes' own cases, and bounds that no rollout may leave."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.apps_v1 import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from mooring.api.meta_v1 import ObjectMeta
from mooring.controllers.workloads import deployment_pace as pace
from mooring.controllers.workloads.deployment_replica_sets import REVISION, revision_of

pytestmark = pytest.mark.req("S.4")


def deployment(replicas: int, surge: int | str = 0, unavailable: int | str = 0) -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    return Deployment(metadata=ObjectMeta(name="d"), spec=DeploymentSpec(replicas=replicas, strategy=strategy))


def replica_set(
    name: str, replicas: int, available: int | None = None, age: int = 0, annotations: dict[str, str] | None = None
) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name, creation_timestamp=f"2026-01-01T00:00:{59 - age:02}Z", annotations=annotations or {}
        ),
        spec=ReplicaSetSpec(replicas=replicas),
        status=ReplicaSetStatus(replicas=replicas, available_replicas=replicas if available is None else available),
    )


@dataclass(frozen=True)
class Fence:
    name: str
    replicas: int
    surge: int | str
    unavailable: int | str
    expected: tuple[int, int]


FENCES = [
    Fence("percentages of surge are rounded up, of missing pods down", 10, "25%", "25%", (3, 2)),
    Fence("when both come out as nothing one pod may be missing", 1, "0%", "25%", (0, 1)),
    Fence("numbers are as they are", 10, 2, 0, (2, 0)),
    Fence("nothing of nothing is still one", 0, "25%", "25%", (0, 1)),
]


@pytest.mark.parametrize("case", FENCES, ids=lambda case: case.name)
def test_surge_and_unavailable(case: Fence) -> None:
    found = pace.resolve_surge_and_unavailable(deployment(case.replicas, case.surge, case.unavailable))
    assert found == case.expected


@dataclass(frozen=True)
class Growth:
    name: str
    deployment: Deployment
    new: int
    old: int
    expected: int


GROWTHS = [
    Growth("it cannot grow without room", deployment(10, 0), 0, 10, 0),
    Growth("it grows as far as the surge allows", deployment(10, 2), 0, 10, 2),
    Growth("and by what the old one has given up", deployment(10, 0), 0, 5, 5),
    Growth("but never beyond what is wanted", deployment(10, 10), 10, 8, 10),
    Growth("one that is too large shrinks at once", deployment(10, 0), 20, 0, 10),
]


@pytest.mark.parametrize("case", GROWTHS, ids=lambda case: case.name)
def test_how_far_the_new_one_grows(case: Growth) -> None:
    sets = [replica_set("old", case.old), replica_set("new", case.new)]
    assert pace.compute_new_size(case.deployment, sets, case.new) == case.expected


@dataclass(frozen=True)
class Shrink:
    name: str
    deployment: Deployment
    new: ReplicaSet
    old: list[ReplicaSet]
    expected: dict[str, int]


SHRINKS = [
    Shrink(
        "available pods go as far as some may be missing",
        deployment(10, 0, 2),
        replica_set("new", 0),
        [replica_set("old", 10)],
        {"old": 8},
    ),
    Shrink(
        "pods that are not available go first, and cost nothing",
        deployment(10, 2, 2),
        replica_set("new", 2, 0),
        [replica_set("old", 10, 8)],
        {"old": 8},
    ),
    Shrink(
        "what the new one lacks stays with the old one",
        deployment(10, 0, 2),
        replica_set("new", 2, 0),
        [replica_set("old", 8)],
        {},
    ),
    Shrink(
        "the oldest shrinks first",
        deployment(4, 0, 0),
        replica_set("new", 4),
        [replica_set("b", 2, age=1), replica_set("a", 2, age=9)],
        {"a": 0, "b": 0},
    ),
    Shrink(
        "pods that are going already are not counted as available",
        deployment(10, 2, 1),
        replica_set("new", 3),
        [replica_set("old", 6, 9)],
        {},
    ),
]


@pytest.mark.parametrize("case", SHRINKS, ids=lambda case: case.name)
def test_how_far_old_ones_shrink(case: Shrink) -> None:
    assert pace.compute_old_sizes(case.deployment, case.new, case.old) == case.expected


NUMBERS = st.integers(0, 8) | st.integers(0, 100).map(lambda number: f"{number}%")


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), NUMBERS, NUMBERS, st.randoms(use_true_random=False))
def test_every_rollout_ends_and_stays_within_its_bounds(
    wanted: int, surge: int | str, unavailable: int | str, chance: random.Random
) -> None:
    """Pods become available in any order, ReplicaSets follow when they like."""
    owner = deployment(wanted, surge, unavailable)
    new, old = replica_set("new", 0), replica_set("old", wanted, age=5)
    most = wanted + pace.max_surge(owner)
    least = wanted - pace.max_unavailable(owner)
    for _ in range(200):
        size = pace.compute_new_size(owner, [new, old], pace.wanted_replicas(new))
        if size != pace.wanted_replicas(new):
            new.spec.replicas = size
        else:
            for name, smaller in pace.compute_old_sizes(owner, new, [old]).items():
                assert name == "old"
                old.spec.replicas = smaller
        assert pace.total_replicas([new, old]) <= most
        surely = sum(min(pace.wanted_replicas(each), each.status.available_replicas) for each in (new, old))
        assert surely >= least
        if chance.random() < 0.5:
            old.status.available_replicas = pace.wanted_replicas(old)
        if chance.random() < 0.5:
            new.status.available_replicas = min(pace.wanted_replicas(new), new.status.available_replicas + 1)
        if (pace.wanted_replicas(new), pace.wanted_replicas(old), new.status.available_replicas) == (wanted, 0, wanted):
            return
    raise AssertionError("the rollout does not end")


@dataclass(frozen=True)
class Scale:
    name: str
    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]
    expected: dict[str, int]


def annotated(maximum: int, desired: int = 10) -> dict[str, str]:
    return {pace.MAXIMUM: str(maximum), pace.DESIRED: str(desired)}


SCALES = [
    Scale("a single one takes the new size", deployment(5), replica_set("new", 3), [], {"new": 5}),
    Scale("the last one there is takes it, if it is old", deployment(5), None, [replica_set("old", 3)], {"old": 5}),
    Scale(
        "two share a growth in proportion",
        deployment(15, 3, 2),
        replica_set("new", 5, 0, annotations=annotated(13)),
        [replica_set("old", 8, age=5, annotations=annotated(13))],
        {"new": 7, "old": 11},
    ),
    Scale(
        "and a shrinkage",
        deployment(5, 0),
        replica_set("new", 5, 0, annotations=annotated(10)),
        [replica_set("old", 5, age=5, annotations=annotated(10))],
        {"new": 3, "old": 2},
    ),
    Scale(
        "to nothing means all of them",
        deployment(0, 0),
        replica_set("new", 5, annotations=annotated(10)),
        [replica_set("old", 5, age=5, annotations=annotated(10))],
        {"new": 0, "old": 0},
    ),
    Scale(
        "when the new one has all it needs the old ones go",
        deployment(10, 0),
        replica_set("new", 10, annotations=annotated(10)),
        [replica_set("old", 2, age=5)],
        {"old": 0},
    ),
]


@pytest.mark.parametrize("case", SCALES, ids=lambda case: case.name)
def test_scaling_on_the_way(case: Scale) -> None:
    assert pace.compute_scaled_sizes(case.deployment, case.new, case.old) == case.expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("3546343826724305832", 3546343826724305832, id="numbers of 64 bits are read"),
        pytest.param(str(2**63), 0, id="larger ones are none"),
        pytest.param("9" * 5000, 0, id="nor are very long ones"),
        pytest.param("-1", 0, id="nor is what has a sign"),
    ],
)
def test_the_revision_of_a_replica_set_is_read_from_its_annotation(text: str, number: int) -> None:
    assert revision_of(replica_set("a", 1, annotations={REVISION: text})) == number
