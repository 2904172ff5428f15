"""Which part of an expression is not true, and on which values."""

from dataclasses import dataclass

import pytest

from mooring.cel.tracing import source_of, trace
from mooring.constraints.celenv import NODE

NO_NUMBER = "type conversion error from 'string' to 'int'"
LABELS = {"zone": "eu-1", "gen": "2", "v": "1.0.0"}


@dataclass(frozen=True)
class Case:
    expression: str
    findings: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Case("node.labels['zone'] == 'eu-1'", []),
        Case(
            "node.labels['zone'] == 'us-1' && int(node.labels['gen']) > 1",
            ["`node.labels['zone'] == 'us-1'` is false: node.labels['zone'] is 'eu-1'"],
        ),
        Case(
            "'gpu' in node.labels || node.labels.exists(k, k.startsWith('x'))",
            ["`'gpu' in node.labels` is false", "`node.labels.exists(k, k.startsWith('x'))` is false"],
        ),
        Case("!has(node.labels.zone)", ["`has(node.labels.zone)` is true: node.labels.zone is 'eu-1'"]),
        Case(
            "!('zone' in node.labels && 'gen' in node.labels)",
            ["`'zone' in node.labels` is true", "`'gen' in node.labels` is true"],
        ),
        Case("node.labels['none'] == 'x'", ["`node.labels['none'] == 'x'` fails (no such key: none)"]),
        Case(
            "has(node.labels.zone) ? node.labels.zone.startsWith('us') : true",
            ["`node.labels.zone.startsWith('us')` is false: node.labels.zone is 'eu-1'"],
        ),
        Case(
            "int(node.labels['zone']) > 3 || node.labels['gen'] == '3'",
            [
                f"`int(node.labels['zone']) > 3` fails ({NO_NUMBER}): node.labels['zone'] is 'eu-1'",
                "`node.labels['gen'] == '3'` is false: node.labels['gen'] is '2'",
            ],
        ),
        Case(
            "node.labels.all(k, k.startsWith('z'))",
            ["`node.labels.all(k, k.startsWith('z'))` is false"],
        ),
        Case(
            "semver(node.labels['v']).isGreaterThan(semver('2.0.0'))",
            ["`semver(node.labels['v']).isGreaterThan(semver('2.0.0'))` is false: node.labels['v'] is '1.0.0'"],
        ),
    ],
    ids=lambda case: case.expression,
)
def test_the_parts_that_are_in_the_way_are_named(case: Case) -> None:
    program = NODE.stored_expressions().compile(case.expression)
    assert program.issues == ()
    assert [str(each) for each in trace(program, {"node": {"labels": LABELS}})] == case.findings


@pytest.mark.parametrize(
    "expression",
    [
        "node.labels['a'] == 'b' && !(node.labels['c'] in ['d', 'e'])",
        "(1 + 2) * 3 > -4 ? node.labels.a == 'x' : has(node.labels.b)",
        "node.labels[?'a'].orValue('z') != 'y' || size(node.labels) >= 2",
        "node.labels.exists(k, k == 'a' && node.labels[k] == 'b')",
    ],
)
def test_the_text_of_a_tree_means_the_same(expression: str) -> None:
    environment = NODE.stored_expressions()
    program = environment.compile(expression)
    assert program.expr is not None
    again = environment.compile(source_of(program.expr))
    assert again.expr is not None
    assert source_of(again.expr) == source_of(program.expr)


def test_an_expression_that_does_not_compile_has_no_findings() -> None:
    assert trace(NODE.stored_expressions().compile("node.labels["), {}) == ()
