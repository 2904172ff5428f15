"""NodeAffinity with semantic versions: the scheduler tests that KEP-5721's test plan names."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Code
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("5721.2", "5721.7")
NODES = {"old": "5.4.0", "new": "v6.1", "odd": "newest", "bare": None}


@dataclass(frozen=True)
class Case:
    name: str
    operator: str
    value: str
    matched: set[str]


CASES = [
    Case("SemverGt", "SemverGt", "5.4", {"new"}),
    Case("SemverLt", "SemverLt", "6.0.0", {"old"}),
    Case("SemverEq", "SemverEq", "6.1.0", {"new"}),
    Case("a version that no node has", "SemverEq", "7.0.0", set()),
]


def cluster(*, semver: bool = True) -> Engine:
    features = SchedulerFeatures(constraints=ConstraintOptions(semver_operators=semver))
    engine = Engine((ProfileSpec(),), features=features)
    for name, version in NODES.items():
        engine.put(node(name, labels={"kernel": version} if version else {}))
    return engine


def affinity(case: Case, kind: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kernel", "operator": case.operator, "values": [case.value]}]}
    wanted: Any = {"nodeSelectorTerms": [term]} if kind == "required" else [{"weight": 10, "preference": term}]
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": wanted}}}


class TestNodeAffinityFilter:
    @pytest.mark.parametrize("semver", [True, False], ids=["gate on", "gate off"])
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test(self, case: Case, semver: bool) -> None:
        found = cluster(semver=semver).explain(pod("p", spec=affinity(case, "required")))
        feasible = {name for name, entry in found.items() if entry.status.code is Code.SUCCESS}
        assert feasible == (case.matched if semver else set())
        refused = {entry.status.code for name, entry in found.items() if name not in feasible}
        assert refused <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


class TestNodeAffinityScoring:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test(self, case: Case) -> None:
        found = cluster().explain(pod("p", spec=affinity(case, "preferred")))
        assert {name for name, entry in found.items() if entry.scores["NodeAffinity"]} == case.matched
