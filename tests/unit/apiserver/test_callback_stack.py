"""What is left to do at the end is done once, the last first, whatever goes wrong in between."""

import pytest

from mooring.apiserver.edge.callback_stack import CallbackStack

pytestmark = pytest.mark.req("S.6")


def test_calls_are_made_once_and_the_last_first() -> None:
    ending, made = CallbackStack(), list[str]()
    ending.callback(made.append, "first")
    ending.callback(made.append, "last")
    ending.close()
    ending.close()
    assert made == ["last", "first"]


def test_a_call_that_fails_keeps_no_other_from_being_made() -> None:
    ending, made = CallbackStack(), list[str]()
    ending.callback(made.append, "first")
    ending.callback(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ending.close()
    assert made == ["first"]


def test_another_can_take_all_calls_over() -> None:
    made: list[str] = []
    with CallbackStack() as ending:
        ending.callback(made.append, "first")
        other = ending.pop_all()
    assert made == []
    other.close()
    assert made == ["first"]
