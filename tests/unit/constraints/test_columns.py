"""The column form: it agrees with the form for one object, whatever changes, and evaluates each distinct value once."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mooring.api.core_v1 import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from mooring.api.label_selector import Operator, Requirement
from mooring.constraints import node_selector, tolerations
from mooring.constraints.columns import NO_NODE, TOLERATED, Deadline, LabelColumns, TaintColumns, UnfinishedError
from mooring.constraints.columns.column import Column, RowVerdicts
from mooring.constraints.columns.labels import Mask
from mooring.constraints.node_selector import Condition, NameRequirement, PreferredAffinity, RequiredAffinity
from mooring.constraints.options import ConstraintOptions

OPTIONS = ConstraintOptions()
Labels = dict[str, str]
T = TypeVar("T", bound=np.generic)

# A few values that each operator evaluates differently, so that small examples find disagreements.
VALUES = {
    "zone": ["a", "b", "c"],
    "cores": ["4", "16", "016", "many", ""],
    "kernel": ["5.4", "v5.15.0-91", "6.1.0", "none"],
}
LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})
REQUIREMENTS = st.sampled_from(
    [
        NodeSelectorRequirement(key=key, operator=operator, values=values)
        for key, operator, values in [
            ("zone", "In", ["a", "b"]),
            ("zone", "NotIn", ["a"]),
            ("zone", "Exists", []),
            ("zone", "DoesNotExist", []),
            ("cores", "Gt", ["8"]),
            ("cores", "Lt", ["8"]),
            ("cores", "Gt", ["8", "9"]),
            ("kernel", "SemverGt", ["5.10"]),
            ("kernel", "SemverLt", ["6"]),
            ("kernel", "SemverEq", ["6.1"]),
            ("kernel", "SemverEq", ["x"]),
        ]
    ]
)
EXPRESSIONS = st.sampled_from(
    [
        "true",
        "node.labels['zone'] == 'a'",
        "has(node.labels.zone) && int(node.labels['cores']) > 8",
        "semver.compare(node.labels['kernel'], '>=5.10') || node.labels['zone'] != 'c'",
        "node.labels.exists(key, key.startsWith('k'))",
        "size(node.labels) == 2",
        "node.labels[node.labels['zone'] == 'a' ? 'cores' : 'kernel'].contains('1')",
        "node.labels.?zone.orValue('a') == 'a'",
        "'kernel' in node.labels",
        "node.labels == {'zone': 'b'}",
        "node.nothing",
    ]
)
FIELDS = st.builds(
    lambda operator, name: NodeSelectorRequirement(key="metadata.name", operator=operator, values=[name]),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["node-0", "node-1", "node-9"]),
)
TERMS = st.builds(
    lambda requirements, expressions, fields: NodeSelectorTerm(
        match_expressions=requirements, match_cel_expressions=expressions, match_fields=fields
    ),
    st.lists(REQUIREMENTS, max_size=2),
    st.lists(EXPRESSIONS, max_size=2),
    st.lists(FIELDS, max_size=1),
)
ROWS = st.integers(0, 5)


@pytest.mark.req("5721.9", "5500.5")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ROWS, st.none() | LABELS, st.lists(TERMS, max_size=3)), min_size=1, max_size=12),
    st.dictionaries(st.sampled_from(["zone", "cores"]), st.sampled_from(["a", "b", "4"]), max_size=1),
)
def test_both_forms_agree_on_node_selectors(
    steps: list[tuple[int, Labels | None, list[NodeSelectorTerm]]], pairs: Labels
) -> None:
    columns = LabelColumns(capacity=2, max_columns=3, max_verdicts=4)
    nodes: dict[int, Labels] = {}
    asked: list[tuple[RequiredAffinity, PreferredAffinity]] = []
    wanted = tuple(Requirement(key, Operator.EQUALS, (value,)) for key, value in pairs.items())
    for row, labels, terms in steps:
        if labels is None:
            columns.remove(row)
            nodes.pop(row, None)
        else:
            columns.put(row, f"node-{row}", labels)
            nodes[row] = labels
        selector = node_selector.compile_selector(NodeSelector(node_selector_terms=terms), OPTIONS)
        liked = [PreferredSchedulingTerm(weight=3 + index, preference=term) for index, term in enumerate(terms)]
        asked.append((RequiredAffinity(wanted, selector), node_selector.preferred_terms(liked, OPTIONS)))
        for required, preferred in asked:  # earlier questions again: their verdicts must have kept up
            mask = columns.required_mask(required)
            assert set(np.flatnonzero(mask)) == {
                row for row, labels in nodes.items() if required.matches(labels, f"node-{row}")
            }
            scores = columns.preferred_scores(preferred)
            assert [scores[row] for row in nodes] == [
                preferred.score(labels, f"node-{row}") for row, labels in nodes.items()
            ]


EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
TAINTS = st.lists(
    st.builds(
        lambda key, value, effect, added: Taint(key=key, value=value, effect=effect, time_added=added),
        st.sampled_from(["sla", "cni"]),
        st.sampled_from(["940", "960", "0950", "v3.27.2", ""]),
        EFFECTS,
        st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"]),
    ),
    max_size=3,
)
TOLERATIONS = st.lists(
    st.builds(
        lambda key, operator, value, effect: Toleration(key=key, operator=operator, value=value, effect=effect),
        st.sampled_from(["sla", "cni"]),
        st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"]),
        st.sampled_from(["940", "950", "3.27.2"]),
        EFFECTS | st.just(""),
    )
    | st.sampled_from(
        [
            Toleration(expression=expression)
            for expression in (
                "taint.key == 'sla'",
                "int(taint.value) > 950",
                "taint.effect == 'PreferNoSchedule'",
                "taint.timeAdded > timestamp('2026-03-01T00:00:00Z')",
                "!has(taint.timeAdded)",
            )
        ]
    ),
    max_size=3,
)


@pytest.mark.req("5471.1", "5500.8")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ROWS, st.none() | TAINTS, TOLERATIONS), min_size=1, max_size=12))
def test_both_forms_agree_on_taints(steps: list[tuple[int, list[Taint] | None, list[Toleration]]]) -> None:
    columns = TaintColumns(OPTIONS, capacity=2, max_verdicts=3)
    nodes: dict[int, list[Taint]] = {}
    asked: list[list[Toleration]] = []
    for row, taints, pod in steps:
        if taints is None:
            columns.remove(row)
            nodes.pop(row, None)
        else:
            columns.put(row, taints)
            nodes[row] = taints
        asked.append(pod)
        for tolerated in asked:
            _check_taints(columns, nodes, tolerated)


def _check_taints(columns: TaintColumns, nodes: dict[int, list[Taint]], pod: Sequence[Toleration]) -> None:
    found = columns.find_untolerated(pod)
    preferences = columns.untolerated_preferences(pod)
    assert {row for row, number in enumerate(found.numbers) if number != NO_NODE} == set(nodes)
    for row, taints in nodes.items():
        expected = tolerations.find_untolerated(taints, pod, OPTIONS)
        taint = found.taint(row)
        assert _shown(taint) == _shown(expected)
        assert found.mask()[row] == (expected is None)
        preferred = [taint for taint in taints if taint.effect == tolerations.PREFER_NO_SCHEDULE]
        assert preferences[row] == sum(not tolerations.any_tolerates(pod, each, OPTIONS) for each in preferred)


def _shown(taint: Taint | None) -> tuple[str, str, str] | None:
    return (taint.key, taint.value, taint.effect) if taint else None


class TestEvaluatedRows:
    """Each distinct value is evaluated once, and only changed rows are gathered again."""

    @staticmethod
    def _column(values: str) -> Column[str]:
        column: Column[str] = Column(len(values))
        codes = {value: column.add(value, value) for value in sorted(set(values))}
        column.fill([codes[value] for value in values])
        return column

    @pytest.mark.req("5721.9")
    def test_a_value_is_evaluated_once(self) -> None:
        evaluated: list[str] = []

        def evaluate(value: str) -> bool:
            evaluated.append(value)
            return value == "a"

        column = self._column("abcab" * 100)
        verdict = RowVerdicts(column, evaluate, np.bool_)
        assert verdict.rows().sum() == 200
        column.set(1, 1)
        column.set(2, column.add("d", "d"))
        assert verdict.rows().sum() == 201
        assert evaluated == ["a", "b", "c", "d"]

    def test_an_unchanged_column_gives_the_same_array(self) -> None:
        verdict = RowVerdicts(self._column("ab"), lambda value: value == "a", np.bool_)
        assert verdict.rows() is verdict.rows()
        assert not verdict.rows().flags.writeable

    def test_many_changes_are_followed_too(self) -> None:
        column = self._column("ab")
        verdict = RowVerdicts(column, lambda value: value == "b", np.bool_)
        for turn in range(3001):
            column.set(0, 1 + turn % 2)
            if turn % 100 == 0:
                assert verdict.rows()[0] == (turn % 2 == 1)
        assert list(verdict.rows()) == [False, True]


class TestLabelColumns:
    ZONE = Requirement("zone", Operator.IN, ("a",))

    def test_values_that_no_node_has_any_more_are_forgotten(self) -> None:
        columns = LabelColumns()
        for number in range(500):
            columns.put(0, "node", {"zone": f"z{number}"})
            assert not columns.mask(self.ZONE)[0]
        columns.put(0, "node", {"zone": "a"})
        assert columns.mask(self.ZONE)[0]
        assert all(len(column.samples) < 100 for column in columns._columns.values())

    def test_a_renamed_row_is_found_by_its_new_name_only(self) -> None:
        columns = LabelColumns()
        columns.put(0, "old", {})
        columns.put(0, "new", {})
        assert not columns.name_mask(NameRequirement("old", equal=True)).any()
        assert columns.name_mask(NameRequirement("new", equal=True))[0]

    def test_a_name_that_moved_to_another_row_stays_when_the_first_is_removed(self) -> None:
        columns = LabelColumns()
        columns.put(0, "node", {})
        columns.put(1, "node", {})
        columns.remove(0)
        assert list(np.flatnonzero(columns.name_mask(NameRequirement("node", equal=True)))) == [1]

    def test_the_revision_rises_with_changes_only(self) -> None:
        columns = LabelColumns()
        columns.put(0, "node", {"a": "b"})
        before = columns.changed_at
        columns.put(0, "node", {"a": "b"})
        columns.remove(7)
        assert columns.changed_at == before
        columns.put(0, "node", {"a": "c"})
        assert columns.changed_at > before

    @pytest.mark.req("5500.5")
    def test_an_expression_is_evaluated_once_per_combination_of_the_labels_it_reads(self) -> None:
        columns = LabelColumns()
        for row in range(600):
            columns.put(row, f"node-{row}", {"host": str(row), "zone": "abc"[row % 3], "cores": str(row % 2)})
        source = NodeSelectorTerm(match_cel_expressions=["node.labels['zone'] == 'a' && node.labels['cores'] == '1'"])
        selector = node_selector.compile_selector(NodeSelector(node_selector_terms=[source]), OPTIONS)
        assert columns.selector_mask(selector).sum() == 100
        assert len(columns._columns["cores", "zone"].samples) == 1 + 6


class TestTaintColumns:
    @pytest.mark.req("5471.4", "5721.9")
    def test_a_distinct_taint_is_evaluated_once_however_many_nodes_have_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        evaluated: list[str] = []

        first_match = tolerations.TolerationIndex.first_match

        def record(index: tolerations.TolerationIndex[Toleration], taint: Taint) -> int | None:
            evaluated.append(taint.value)
            return first_match(index, taint)

        monkeypatch.setattr(tolerations.TolerationIndex, "first_match", record)
        columns = TaintColumns(OPTIONS)
        for row in range(300):
            values = [str(row % 3), str(row % 2)]
            columns.put(row, [Taint(key="sla", value=value, effect="NoSchedule") for value in values])
        pod = [Toleration(key="sla", operator="Gt", value="0")]
        usable = columns.find_untolerated(pod).mask()
        assert [row for row in range(300) if usable[row]] == [row for row in range(300) if row % 3 and row % 2]
        assert sorted(evaluated) == ["0", "1", "2"]

    def test_times_do_not_make_taints_distinct_unless_an_expression_reads_them(self) -> None:
        columns = TaintColumns(OPTIONS)
        for row in range(200):
            added = f"2026-01-01T00:{row // 60:02}:{row % 60:02}Z"
            columns.put(row, [Taint(key="sla", value="1", effect="NoExecute", time_added=added)])
        assert len(columns.find_untolerated([]).taints) == 1
        late = [Toleration(expression="taint.timeAdded > timestamp('2026-01-01T00:03:00Z')")]
        assert columns.find_untolerated(late).mask().sum() == 19

    def test_sets_that_no_node_has_any_more_are_forgotten(self) -> None:
        columns = TaintColumns(OPTIONS)
        for number in range(500):
            columns.put(0, [Taint(key="sla", value=str(number), effect="NoSchedule")])
        found = columns.find_untolerated([])
        taint = found.taint(0)
        assert taint is not None
        assert taint.value == "499"
        assert len(found.taints) < 100

    def test_a_row_without_a_node_says_so(self) -> None:
        columns = TaintColumns(OPTIONS, capacity=2)
        columns.put(0, [])
        assert list(columns.find_untolerated([]).numbers) == [TOLERATED, NO_NODE]
        assert columns.find_untolerated([]).taint(1) is None


@pytest.mark.req("S.6")
def test_only_labels_that_nodes_have_are_looked_up_for_a_long_node_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = LabelColumns()
    for row in range(4):
        columns.put(row, f"node-{row}", {"zone": "a"})
    read: list[Condition] = []
    mask = LabelColumns.mask

    def watched(columns: LabelColumns, condition: Condition, deadline: Deadline) -> Mask:
        read.append(condition)
        return mask(columns, condition, deadline)

    monkeypatch.setattr(LabelColumns, "mask", watched)
    absent = tuple(Requirement(f"absent{number}", Operator.EQUALS, ("v",)) for number in range(1000))
    zone = Requirement("zone", Operator.EQUALS, ("a",))
    assert not columns.required_mask(RequiredAffinity((zone, *absent))).any()
    assert read == [zone, absent[0]]


class TestDeadlines:
    """The clock of these tests counts evaluations: every look at it is one, and every step may look five times."""

    PER_STEP = 5

    def complete(self, deadline: Deadline, evaluate: Callable[[], NDArray[T]]) -> tuple[NDArray[T], int]:
        """Evaluate in steps; return the result, and the number of steps that were interrupted before."""
        for steps in range(100):
            deadline.clock = count(1).__next__
            deadline.until = self.PER_STEP
            try:
                return evaluate(), steps
            except UnfinishedError:
                continue
        raise AssertionError("the evaluation makes no progress")

    @pytest.mark.req("S.6", "5500.6")
    def test_conditions_on_labels_are_evaluated_in_steps_with_the_same_result(self) -> None:
        deadline = Deadline()
        limited, unlimited = LabelColumns(deadline=deadline), LabelColumns()
        for row in range(30):
            for columns in (limited, unlimited):
                columns.put(row, f"node-{row}", {"host": str(row), "cores": str(row % 7)})
        expressions = [f"node.labels.exists(k, node.labels[k] == '{number}')" for number in range(4)]
        terms = [NodeSelectorTerm(match_cel_expressions=[expression]) for expression in expressions]
        selector = node_selector.compile_selector(NodeSelector(node_selector_terms=terms), OPTIONS)
        affinity = RequiredAffinity((), selector)
        mask, steps = self.complete(deadline, lambda: limited.required_mask(affinity))
        assert steps >= 4 * 30 / self.PER_STEP - 1
        assert (mask == unlimited.required_mask(affinity)).all()
        preferred = PreferredAffinity(((5, selector.terms[0]),))
        scores, steps = self.complete(deadline, lambda: limited.preferred_scores(preferred))
        assert steps == 0, "the mask is known"
        assert (scores == unlimited.preferred_scores(preferred)).all()

    @pytest.mark.req("S.6", "5471.4")
    def test_tolerations_are_evaluated_in_steps_with_the_same_result(self) -> None:
        deadline = Deadline()
        limited, unlimited = TaintColumns(OPTIONS, deadline=deadline), TaintColumns(OPTIONS)
        for row in range(30):
            for columns in (limited, unlimited):
                columns.put(row, [Taint(key="sla", value=str(row), effect="NoSchedule")])
        pod = [Toleration(key="sla", operator="Gt", value="17")]
        mask, steps = self.complete(deadline, lambda: limited.find_untolerated(pod).mask())
        assert steps >= 30 / self.PER_STEP - 1
        assert (mask == unlimited.find_untolerated(pod).mask()).all()
        assert self.complete(deadline, lambda: limited.find_untolerated(pod).mask())[1] == 0

    def test_each_step_evaluates_something_even_after_the_deadline(self) -> None:
        deadline = Deadline(lambda: 1.0)
        deadline.until = 1.0
        columns = TaintColumns(OPTIONS, deadline=deadline)
        for row in range(3):
            columns.put(row, [Taint(key="sla", value=str(row), effect="NoSchedule")])
        pod = [Toleration(key="sla", operator="Gt", value="1")]
        for _ in range(2):
            with pytest.raises(UnfinishedError):
                columns.find_untolerated(pod)
        assert columns.find_untolerated(pod).mask().sum() == 1
