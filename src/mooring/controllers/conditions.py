"""Find conditions in a status, and keep their transition times."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Condition(Protocol):
    """The fields that the conditions of all kinds share."""

    type: str
    status: str


class TimedCondition(Condition, Protocol):
    last_transition_time: str | None


C = TypeVar("C", bound=Condition)


def find_condition(conditions: Iterable[C], kind: str) -> C | None:
    """Return the condition of a type, if there is one."""
    return next((each for each in conditions if each.type == kind), None)


def is_true(conditions: Iterable[C], kind: str) -> bool:
    """Return whether there is a condition of a type with the status True."""
    return any(each.type == kind and each.status == "True" for each in conditions)


def transition_time(before: TimedCondition | None, status: str, now: str) -> str:
    """Return the transition time of a condition: that of `before` while the status stays the same, else now."""
    return (before.last_transition_time or now) if before is not None and before.status == status else now
