"""Expressions for matching: what they read, what they may cost, and how they are kept."""

from dataclasses import dataclass

import pytest

from mooring.api.core_v1 import Taint
from mooring.constraints import expressions


@dataclass(frozen=True)
class Reads:
    id: str
    expression: str
    keys: tuple[str, ...] | None


READS = [
    Reads("nothing", "1 < 2", ()),
    Reads("an index", "node.labels['zone'] == 'a'", ("zone",)),
    Reads("a field", "node.labels.zone == 'a'", ("zone",)),
    Reads("presence", "has(node.labels.zone) || 'rack' in node.labels", ("rack", "zone")),
    Reads("an optional", "node.labels[?'zone'].orValue('') == node.labels.?rack.orValue('')", ("rack", "zone")),
    Reads("a computed key", "node.labels['zo' + 'ne'] == 'a'", None),
    Reads("all labels", "node.labels.exists(key, key == 'zone')", None),
    Reads("a key and all labels", "node.labels['zone'] == 'a' && size(node.labels) > 1", None),
    Reads("the node itself", "[node].size() == 1", None),
]


@pytest.mark.req("5721.9")
@pytest.mark.parametrize("case", READS, ids=lambda case: case.id)
def test_the_label_keys_that_an_expression_reads_are_known(case: Reads) -> None:
    found = expressions.compile_node_expression(case.expression)
    assert found is not None
    assert found.reads == case.keys


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("taint.key == 'a'", False),
        ("has(taint.timeAdded)", True),
        ("taint.timeAdded < timestamp('2026-01-01T00:00:00Z')", True),
        ("taint ==", False),
    ],
)
def test_whether_an_expression_reads_the_time_is_known(expression: str, expected: bool) -> None:
    assert expressions.reads_time_added(expression) is expected


@pytest.mark.req("5500.4")
class TestCost:
    def test_more_labels_than_the_estimate_assumes_are_fine(self) -> None:
        many = {f"key-{number}": "x" for number in range(2000)}
        found = expressions.compile_node_expression("node.labels.all(key, key.startsWith('key'))")
        assert found is not None
        assert found.matches(many)

    def test_an_expression_stops_at_the_limit(self) -> None:
        many = {f"key-{number}": "x" for number in range(2000)}
        found = expressions.compile_node_expression("node.labels.all(a, node.labels.all(b, a.size() + b.size() > 0))")
        assert found is not None
        assert found.matches({"a": "b"})
        assert not found.matches(many)

    def test_a_regular_expression_takes_linear_time(self) -> None:
        slow = Taint(key="a", value="a" * 60 + "!", effect="NoSchedule")
        assert not expressions.matches_taint("taint.value.matches('^(a+)+$')", slow)


@pytest.mark.req("5500.7")
def test_tolerations_and_affinity_have_a_cache_each_and_errors_are_not_kept() -> None:
    expressions.node_expressions.clear()
    expressions.taint_expressions.clear()
    assert expressions.compile_node_expression("true") is expressions.compile_node_expression("true")
    assert expressions.compile_node_expression("node.none") is None
    assert (len(expressions.node_expressions), len(expressions.taint_expressions)) == (1, 0)
    assert expressions.matches_taint("true", Taint(key="a", effect="NoSchedule"))
    assert (len(expressions.node_expressions), len(expressions.taint_expressions)) == (1, 1)
