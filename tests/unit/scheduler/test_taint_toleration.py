"""TaintToleration with every kind of toleration: the scheduler tests that KEP-5500 names."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Code
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("5471.6", "5721.1", "5500.8", "5500.15")


@dataclass(frozen=True)
class Case:
    name: str
    toleration: dict[str, Any] | None
    tolerated: set[str]
    """The nodes whose taint is tolerated."""


ALL = {"older", "newer", "odd"}
CASES = [
    Case("no toleration", None, set()),
    Case("Exists", {"key": "level", "operator": "Exists"}, ALL),
    Case("Equal", {"key": "level", "operator": "Equal", "value": "2"}, {"newer"}),
    Case("Gt", {"key": "level", "operator": "Gt", "value": "1"}, {"newer"}),
    Case("Lt", {"key": "level", "operator": "Lt", "value": "2"}, {"older"}),
    Case("SemverGt", {"key": "level", "operator": "SemverGt", "value": "1.9.0"}, {"newer"}),
    Case("SemverLt", {"key": "level", "operator": "SemverLt", "value": "v1.9"}, {"older"}),
    Case("SemverEq", {"key": "level", "operator": "SemverEq", "value": "2.0.0"}, {"newer"}),
    Case("an expression over the value", {"expression": "taint.value in ['1', 'high']"}, {"older", "odd"}),
    Case("an expression that fails for one taint", {"expression": "int(taint.value) >= 1"}, {"older", "newer"}),
    Case("an expression that is always true", {"expression": "true"}, ALL),
]


def cluster(effect: str) -> Engine:
    engine = Engine((ProfileSpec(),))
    for name, value in (("older", "1"), ("newer", "2"), ("odd", "high")):
        engine.put(node(name, taints=[f"level={value}:{effect}"]))
    return engine


def tolerating(case: Case) -> dict[str, Any]:
    return {"tolerations": [case.toleration] if case.toleration else []}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
class TestTaintTolerationFilter:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test(self, case: Case, effect: str) -> None:
        found = cluster(effect).explain(pod("p", spec=tolerating(case)))
        assert {name for name, entry in found.items() if entry.status.code is Code.SUCCESS} == case.tolerated
        refused = {entry.status.code for name, entry in found.items() if name not in case.tolerated}
        assert refused <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


class TestTaintTolerationScoring:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test(self, case: Case) -> None:
        found = cluster("PreferNoSchedule").explain(pod("p", spec=tolerating(case)))
        points = {name: entry.scores["TaintToleration"] for name, entry in found.items()}
        best = {name for name, score in points.items() if score == max(points.values())}
        assert best == (case.tolerated or ALL)
