"""Compiling expressions over taints and nodes, and keeping what was compiled: the unit tests that KEP-5500 names."""

from dataclasses import dataclass
from typing import Final

import pytest

from mooring.api.core_v1 import Taint
from mooring.constraints import expressions

pytestmark = pytest.mark.req("5500.2", "5500.7", "5500.15")

GPU: Final = Taint(key="example.com/gpu", value="a100", effect="NoSchedule")
BARE: Final = Taint(key="maintenance", effect="NoExecute")
LABELS: Final = {"zone": "eu-west-1a", "disk": "ssd"}


@dataclass(frozen=True)
class OfTaint:
    name: str
    expression: str
    matches: tuple[bool, bool]
    """Whether `GPU` and `BARE` match."""


@dataclass(frozen=True)
class OfNode:
    name: str
    expression: str
    matches: bool | None
    """Whether `LABELS` match; None when the expression does not compile."""
    unlabelled: bool = False
    """Whether a node without labels matches."""


class TestTolerationCompiler:
    @pytest.mark.parametrize(
        "case",
        [
            OfTaint("true", "true", (True, True)),
            OfTaint("false", "false", (False, False)),
            OfTaint("taint-key-equals", "taint.key == 'maintenance'", (False, True)),
            OfTaint("taint-key-not-equals", "taint.key != 'maintenance'", (True, False)),
            OfTaint("taint-key-startswith", "taint.key.startsWith('example.com/')", (True, False)),
            OfTaint("taint-key-contains", "taint.key.contains('main')", (False, True)),
            OfTaint("taint-value-equals", "taint.value == 'a100'", (True, False)),
            OfTaint("taint-value-empty", "taint.value == ''", (False, True)),
            OfTaint("taint-effect-equals", "taint.effect == 'NoSchedule'", (True, False)),
            OfTaint("taint-effect-not-equals", "taint.effect != 'NoSchedule'", (False, True)),
            OfTaint("taint-key-and-value", "taint.key.endsWith('/gpu') && taint.value == 'a100'", (True, False)),
            OfTaint("taint-key-or-value", "taint.key == 'maintenance' || taint.value == 'a100'", (True, True)),
            OfTaint("type-error", "taint.key > 5", (False, False)),
            OfTaint("syntax-error", "taint.key ==", (False, False)),
        ],
        ids=lambda case: case.name,
    )
    def test(self, case: OfTaint) -> None:
        assert tuple(expressions.matches_taint(case.expression, taint) for taint in (GPU, BARE)) == case.matches


class TestNodeAffinityCompiler:
    @pytest.mark.parametrize(
        "case",
        [
            OfNode("true", "true", matches=True, unlabelled=True),
            OfNode("false", "false", matches=False),
            OfNode("label-exists", "'zone' in node.labels", matches=True),
            OfNode("label-not-exists", "!('gpu' in node.labels)", matches=True, unlabelled=True),
            OfNode("label-value-equals", "node.labels['disk'] == 'ssd'", matches=True),
            OfNode("label-value-not-equals", "node.labels['disk'] != 'ssd'", matches=False),
            OfNode("label-value-startswith", "node.labels['zone'].startsWith('eu-')", matches=True),
            OfNode("label-value-contains", "node.labels['zone'].contains('west')", matches=True),
            OfNode(
                "label-exists-and-value-equals",
                "'disk' in node.labels && node.labels['disk'] == 'ssd'",
                matches=True,
            ),
            OfNode("label-exists-or-other", "'gpu' in node.labels || 'disk' in node.labels", matches=True),
            OfNode("multiple-labels", "'zone' in node.labels && 'disk' in node.labels", matches=True),
            OfNode("empty-labels", "size(node.labels) == 0", matches=False, unlabelled=True),
            OfNode("type-error", "node.labels['disk'] > 5", matches=None),
            OfNode("syntax-error", "node.labels[", matches=None),
        ],
        ids=lambda case: case.name,
    )
    def test(self, case: OfNode) -> None:
        found = expressions.compile_node_expression(case.expression)
        if case.matches is None:
            assert found is None
        else:
            assert found is not None
            assert (found.matches(LABELS), found.matches({})) == (case.matches, case.unlabelled)


class TestTolerationCacheGetOrCompile:
    def test(self) -> None:
        cache = expressions.taint_expressions
        cache.clear()
        first = cache.get("taint.key == 'a'")
        assert cache.get("taint.key == 'a'") is first
        assert cache.get("taint.key == 'b'") is not first
        assert len(cache) == 2


class TestAffinityCacheGetOrCompile:
    def test(self) -> None:
        cache = expressions.node_expressions
        cache.clear()
        first = cache.get("'a' in node.labels")
        assert cache.get("'a' in node.labels") is first
        assert cache.get("'b' in node.labels") is not first
        assert len(cache) == 2


class TestCacheDoesNotCacheErrors:
    def test(self) -> None:
        expressions.taint_expressions.clear()
        expressions.node_expressions.clear()
        assert not expressions.matches_taint("taint.key ==", GPU)
        assert expressions.compile_node_expression("node.labels[") is None
        assert (len(expressions.taint_expressions), len(expressions.node_expressions)) == (0, 0)


class TestCacheLRUEviction:
    def test(self) -> None:
        cache = expressions.node_expressions
        cache.clear()
        kept, dropped = cache.get("'kept' in node.labels"), cache.get("'dropped' in node.labels")
        for number in range(expressions.CACHE_SIZE - 2):
            cache.get(f"{number} < 0")
        assert cache.get("'kept' in node.labels") is kept
        cache.get("'one more' in node.labels")
        assert len(cache) == expressions.CACHE_SIZE
        assert cache.get("'kept' in node.labels") is kept
        assert cache.get("'dropped' in node.labels") is not dropped
        cache.clear()
