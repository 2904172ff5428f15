"""The small evaluator of PromQL that tests ask metrics with: it finds what Prometheus would, and nothing else."""

import pytest

from promql import evaluate

FIRST = """\
# TYPE requests_total counter
requests_total{code="200",verb="GET"} 10
requests_total{code="500",verb="GET"} 1
# TYPE seconds histogram
seconds_bucket{le="1"} 0
seconds_bucket{le="2"} 0
seconds_bucket{le="+Inf"} 0
seconds_count 0
seconds_sum 0
"""
LAST = """\
# TYPE requests_total counter
requests_total{code="200",verb="GET"} 70
requests_total{code="200",verb="PUT"} 30
requests_total{code="500",verb="GET"} 7
# TYPE seconds histogram
seconds_bucket{le="1"} 4
seconds_bucket{le="2"} 10
seconds_bucket{le="+Inf"} 10
seconds_count 10
seconds_sum 12
# TYPE up gauge
up 1
"""
NONE: frozenset[tuple[str, str]] = frozenset()


@pytest.mark.req("5471.11")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("up", {NONE: 1.0}),
        ("up == 1", {NONE: 1.0}),
        ("up > 1", {}),
        ("down", {}),
        ('sum(requests_total{verb!="PUT"})', {NONE: 77.0}),
        ('sum(rate(requests_total{code="200"}[1m]))', {NONE: 1.5}),
        ('increase(requests_total{code=~"5.."}[1m])', {frozenset({("code", "500"), ("verb", "GET")}): 6.0}),
        ("count by (code) (requests_total)", {frozenset({("code", "200")}): 2.0, frozenset({("code", "500")}): 1.0}),
        ('sum(requests_total{code!~"2.."}) / sum(requests_total) > 0.05', {NONE: 7 / 107}),
        ("histogram_quantile(0.5, sum by (le) (rate(seconds_bucket[1m])))", {NONE: 1 + 1 / 6}),
    ],
)
def test_queries(query: str, expected: dict[frozenset[tuple[str, str]], float]) -> None:
    found = evaluate(query, [(0.0, FIRST), (60.0, LAST)])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("query", ["avg(up)", "up @ 5", "up{a}", "sum(up", "up + up"])
def test_what_it_does_not_know_is_an_error(query: str) -> None:
    with pytest.raises((AssertionError, IndexError, KeyError)):
        evaluate(query, [(0.0, FIRST), (60.0, LAST)])
