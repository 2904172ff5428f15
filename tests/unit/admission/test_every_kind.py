"""What holds for every kind: it has a strategy that agrees with the scheme, and admission is at peace with itself."""

from datetime import datetime
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission_kinds import EXAMPLES, decoded, example, merged, stored
from admission_pods import NOW, ON, Tree, relabelled, request, update_problems
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.registry import strategy_of
from mooring.admission.strategy import Request, Strategy
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.codec import DecodeError
from mooring.api.kinds import KINDS, Kind

STORED = [kind for kind in KINDS if kind.stored and kind.to_hub is None and not kind.is_internal]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.to_hub is None and kind.kind not in ("Binding", "RangeAllocation")], ids=str
)
def test_every_kind_has_a_strategy_that_agrees_with_the_scheme(kind: Kind) -> None:
    strategy = strategy_of(kind.type)
    assert strategy.kind == kind.kind
    if kind.plural:
        assert (strategy.group, strategy.resource) == (kind.group, kind.plural)
        assert strategy.namespaced == kind.namespaced
    if kind.subresource("status") is not None:
        assert "status" in strategy.subresources


@pytest.mark.parametrize("kind", STORED, ids=str)
def test_a_strategy_has_only_methods_that_admission_calls(kind: Kind) -> None:
    strategy = strategy_of(kind.type)
    for each in (strategy, *strategy.subresources.values()):
        own = [
            name for cls in type(each).__mro__ for name, value in vars(cls).items() if isinstance(value, FunctionType)
        ]
        assert {name for name in own if not name.startswith("_")} <= {*dir(Strategy), "get_template"}


def test_every_stored_kind_has_an_example() -> None:
    assert {kind.kind for kind in STORED} - {"Pod"} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_what_was_created_may_be_updated_as_it_is(kind: str) -> None:
    old = stored(kind)
    assert update_problems(old, old) == []
    assert update_problems(relabelled(old), old) == []


@pytest.mark.parametrize("kind", EXAMPLES)
def test_defaulting_an_object_again_changes_nothing(kind: str) -> None:
    obj = stored(kind)
    again = copy_of(obj)
    strategy_of(type(obj)).default(again)
    assert again == obj


@pytest.mark.parametrize(
    "kind", [kind for kind in EXAMPLES if "status" in strategy_of(type(example(kind))).subresources]
)
def test_a_status_is_written_by_its_subresource_alone(kind: str) -> None:
    old = stored(kind)
    assert update_problems(old, old, subresource="status") == []
    renamed = relabelled(old)
    admitted = admit_update(copy_of(renamed), old, request(), "status").object
    assert getattr(admitted, "spec", None) == getattr(old, "spec", None)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_create_clears_what_only_the_server_says(kind: str) -> None:
    obj = stored(kind, {"metadata": {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "x"}})
    assert obj.metadata.uid != "mine"
    assert obj.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert obj.metadata.self_link == ""


# -- no input makes admission fail in any other way than by saying what is wrong

TEXTS = ["", " ", "a/b/c", "-x", "x" * 300, "\u0000", "ü", "1e3", "-1", "9" * 30, "50%", "None", "0/0", "*", "::1", "A"]
NUMBERS = [0, -1, 1, 2**31 - 1, -(2**31)]


def nonsense(value: Any) -> st.SearchStrategy[Any]:
    """Other values of the same sort, most of which make no sense in the place of `value`."""
    match value:
        case bool():
            return st.booleans()
        case int():
            return st.sampled_from(NUMBERS)
        case str():
            return st.sampled_from(TEXTS)
        case list():
            return st.sampled_from([[], value + value, value * 40])
        case dict():
            return st.sampled_from([{}, {**value, "a/b": "c"}, {"": "", "A_b": "1"}, dict(list(value.items())[1:])])
        case _:
            return st.just(value)


def paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [here] * bool(here) + [path for key, value in items for path in paths(value, (*here, key))]


def replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the tree with another value in one place."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    return tree if not path else at(tree[path[0]], path[1:])


def hostile(kind: str, data: st.DataObject) -> Any:
    """Return the defaulted example with nonsense in up to three places; None if it cannot be decoded."""
    tree: Tree = codec.to_tree(stored(kind))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path in paths(tree) if path[0] not in ("apiVersion", "kind")]
        path = data.draw(st.sampled_from(places))
        tree = replaced(tree, path, data.draw(nonsense(at(tree, path))))
    try:
        return decoded(tree)
    except DecodeError:
        return None


def asked(now: datetime = NOW) -> Request:
    return Request(options=ON, now=now, namespace="default")


@pytest.mark.parametrize("kind", EXAMPLES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_input_makes_a_create_raise_anything_but_a_refusal(kind: str, data: st.DataObject) -> None:
    obj = hostile(kind, data)
    if obj is None:
        return
    try:
        made = admit_create(obj, asked()).object
    except errors.StatusError:
        return
    made.metadata.resource_version = "1"
    again = decoded(merged(codec.to_tree(made), {}))
    assert update_problems(again, made) == []


@pytest.mark.parametrize("kind", EXAMPLES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_input_makes_an_update_raise_anything_but_a_refusal(kind: str, data: st.DataObject) -> None:
    new, old = hostile(kind, data), stored(kind)
    if new is None:
        return
    for subresource in ("", *strategy_of(type(old)).subresources):
        update_problems(new, old, subresource=subresource)
