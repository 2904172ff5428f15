"""Label selectors beyond the recorded ones: the structured form, its errors, and agreement of both forms."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import label_selector
from mooring.api.field_path import Path
from mooring.api.label_selector import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    SelectorError,
    from_label_selector,
    parse,
)
from mooring.api.meta_v1 import LabelSelector, LabelSelectorRequirement


@dataclass(frozen=True)
class Case:
    id: str
    selector: LabelSelector | None
    text: str
    matching: list[dict[str, str]] = field(default_factory=list)
    others: list[dict[str, str]] = field(default_factory=list)


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=[LabelSelectorRequirement(key=key, operator=operator, values=list(values))])


STRUCTURED = [
    Case("none matches nothing", None, "", others=[{}, {"a": "b"}]),
    Case("an empty one matches everything", LabelSelector(), "", matching=[{}, {"a": "b"}]),
    Case(
        "labels must all be there",
        LabelSelector(match_labels={"b": "2", "a": "1"}),
        "a=1,b=2",
        matching=[{"a": "1", "b": "2", "c": "3"}],
        others=[{"a": "1"}, {"a": "1", "b": "3"}],
    ),
    Case("In", expression("a", "In", "y", "x"), "a in (x,y)", [{"a": "x"}], [{}, {"a": "z"}]),
    Case(
        "NotIn matches what has no such label",
        expression("a", "NotIn", "x"),
        "a notin (x)",
        [{}, {"a": "z"}],
        [{"a": "x"}],
    ),
    Case("Exists", expression("a", "Exists"), "a", [{"a": ""}], [{}]),
    Case("DoesNotExist", expression("a", "DoesNotExist"), "!a", [{}], [{"a": ""}]),
]


@pytest.mark.parametrize("case", STRUCTURED, ids=lambda case: case.id)
def test_the_structured_form(case: Case) -> None:
    selector = from_label_selector(case.selector)
    assert str(selector) == case.text
    assert [labels for labels in case.matching if not selector.matches(labels)] == []
    assert [labels for labels in case.others if selector.matches(labels)] == []


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(SelectorError, match='"Gt" is not a valid label selector operator'):
        from_label_selector(expression("a", "Gt", "1"))


@dataclass(frozen=True)
class Invalid:
    id: str
    selector: LabelSelector
    errors: list[str]


VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
INVALID = [
    Invalid("a right one", expression("a", "In", "x"), []),
    Invalid(
        "In without values",
        expression("a", "In"),
        ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    Invalid(
        "Exists with values",
        expression("a", "Exists", "x"),
        ["s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    Invalid(
        "an operator of node affinity",
        expression("a", "Gt", "5"),
        ['s.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
    ),
    Invalid(
        "a wrong key",
        expression("/a", "Exists"),
        ['s.matchExpressions[0].key: Invalid value: "/a": prefix part must be non-empty'],
    ),
    Invalid(
        "a wrong value",
        expression("a", "In", "x", "y!"),
        [f's.matchExpressions[0].values[1]: Invalid value: "y!": {VALUE_RULE}'],
    ),
    Invalid(
        "a wrong label",
        LabelSelector(match_labels={"a": "y!"}),
        [f's.matchLabels: Invalid value: "y!": {VALUE_RULE}'],
    ),
]


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.id)
def test_what_is_wrong_with_the_structured_form(case: Invalid) -> None:
    assert [str(error) for error in label_selector.validate(case.selector, Path("s"))] == case.errors


def test_stored_selectors_may_keep_values_that_were_not_checked_then() -> None:
    selector = expression("a", "In", "y!")
    assert label_selector.validate(selector, Path("s"), allow_invalid_values=True) == []
    assert label_selector.validate(None, Path("s")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in", "found '' expected: '('"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a ~ b", "found '~', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=)", "found ')', expected: identifier"),
        ("a in (()", "found '(', expected: identifier"),
        ("a>1,a<", "the value must be an integer"),
    ],
    ids=repr,
)
def test_a_parse_error_says_what_was_found_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_the_one_value_that_a_label_must_have() -> None:
    selector = parse("a=1,b in (2),c in (3,4),d!=5,e")
    assert [selector.requires_exactly(key) for key in "abcdef"] == ["1", "2", None, None, None, None]


def test_requirements_are_added_in_the_order_of_keys() -> None:
    selector = parse("b").plus([Requirement("a", Operator.EXISTS)])
    assert str(selector) == "a,b"
    assert not NOTHING.plus([]).matches({})
    assert EVERYTHING.is_empty()
    assert not NOTHING.is_empty()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-05", -5),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("1_0", None),
        ("", None),
        (" 5", None),
        ("5\n", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_of_labels_are_read_laxly(text: str, number: int | None) -> None:
    assert label_selector.parse_lax_int64(text) == number


_words = st.text(alphabet="ab1-_.", min_size=1, max_size=3).filter(lambda word: word[0] in "ab1" and word[-1] in "ab1")
_labels = st.dictionaries(_words, _words, max_size=4)
_expressions = st.one_of(
    st.builds(expression, _words, st.sampled_from(["In", "NotIn"]), _words, _words),
    st.builds(expression, _words, st.sampled_from(["Exists", "DoesNotExist"])),
)


@given(_expressions, _labels)
@settings(max_examples=100)
def test_the_text_of_a_selector_selects_the_same(selector: LabelSelector, labels: dict[str, str]) -> None:
    structured = from_label_selector(selector)
    assert parse(str(structured)) == structured
    assert parse(str(structured)).matches(labels) == structured.matches(labels)


@given(st.text(alphabet="ab=!(),<> innot/-", max_size=20))
@settings(max_examples=100)
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    assert parse(str(selector)) == selector
