"""Field selectors beyond the recorded ones: matching, escapes, and what they require."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import field_selector
from mooring.api.field_selector import FieldSelector, Term, one_field, parse
from mooring.api.label_selector import SelectorError


def test_all_terms_must_be_met_and_a_missing_field_is_empty() -> None:
    selector = parse("spec.nodeName=,status.phase!=Failed")
    assert selector.matches({"status.phase": "Running"})
    assert not selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"status.phase": "Failed"})


def test_an_empty_selector_matches_everything() -> None:
    assert parse(",,").is_empty()
    assert field_selector.EVERYTHING.matches({})


def test_the_value_that_a_field_must_have() -> None:
    selector = parse("metadata.name=x,metadata.namespace!=y")
    assert selector.requires_exactly("metadata.name") == "x"
    assert selector.requires_exactly("metadata.namespace") is None


@pytest.mark.parametrize(
    ("text", "value"), [(r"a=b\,c", "b,c"), (r"a=b\=c", "b=c"), (r"a=b\\", "b\\"), ("a==b", "b")], ids=repr
)
def test_escapes_in_values(text: str, value: str) -> None:
    assert parse(text) == one_field("a", value)


@pytest.mark.parametrize("text", ["a", r"a=\x", "a=b=c", "a=b\\", "a>1"], ids=repr)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


_names = st.text(alphabet="abc.", min_size=1, max_size=5)
_terms = st.builds(Term, _names, st.text(alphabet="ab\\,=! ", max_size=6), st.booleans())


@given(st.lists(_terms, max_size=3))
@settings(max_examples=100)
def test_the_text_of_a_selector_says_the_same(terms: list[Term]) -> None:
    selector = parse(str(FieldSelector(tuple(terms))))
    assert sorted(map(str, selector.terms)) == sorted(map(str, terms))
