"""Find conditions in a status, and keep their transition times."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from mooring.api import times


class Condition(Protocol):
    """The fields that the status conditions of all kinds of objects share."""

    type: str
    status: str


C = TypeVar("C", bound=Condition)
T = TypeVar("T")


def find_condition(conditions: Iterable[C], kind: str) -> C | None:
    """Return the first condition of a type (`kind`, such as Ready); None if there is none."""
    return next((each for each in conditions if each.type == kind), None)


def is_condition_true(conditions: Iterable[C], kind: str) -> bool:
    """Return whether one of the conditions has a type (`kind`, such as Ready) and the status True."""
    return any(each.type == kind and each.status == "True" for each in conditions)


def build_condition(
    cls: Callable[..., T], before: Iterable[Any], content: tuple[str, str, str, str], now: str, **fields: Any
) -> T:
    """Build a condition from type, status, reason and message; keep the transition time if `before` has its status."""
    kind, status, reason, message = content
    old = find_condition(before, kind)
    since = old.last_transition_time if old is not None and old.status == status else None
    return cls(type=kind, status=status, reason=reason, message=message, last_transition_time=since or now, **fields)


def disruption_target_condition(reason: str, message: str, now: datetime) -> dict[str, str]:
    """Return the condition DisruptionTarget, which says why a pod is about to be deleted, for a status patch."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {**condition, "lastTransitionTime": times.to_seconds(now)}
