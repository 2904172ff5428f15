"""Ratcheting: an update may keep values that the schema no longer allows.

A value corresponds to the old one at the same field or key; list items correspond only in lists of type `map`.
"""

from collections.abc import Iterable
from typing import Any

from mooring.admission.custom.validation import Place
from mooring.api.field_errors import Errors, FieldError
from mooring.api.structural import Structural

_ABSENT: Any = object()


def errors_at_changed_values(
    errors: Iterable[tuple[FieldError, Place]], new: Any, old: Any, schema: Structural | None
) -> Errors:
    """Return those of the errors whose value is new or has changed; others may stay (ratcheting)."""
    return [error for error, place in errors if not _is_unchanged(_path_steps(place), new, old, schema)]


def _path_steps(place: Place) -> list[str | int]:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return steps[::-1]


def _is_unchanged(steps: list[str | int], new: Any, old: Any, schema: Structural | None) -> bool:
    for step in steps:
        if new == old:
            return True
        old = counterpart(new, old, step, schema)
        if old is _ABSENT:
            return False
        new = new[step] if not isinstance(new, dict) else new.get(step)
        schema = _schema_below(schema, step)
    return bool(new == old)


def counterpart(new: Any, old: Any, step: str | int, schema: Structural | None) -> Any:
    """Return the stored value that corresponds to a field or item of a new value; check the result by `is_absent`."""
    if isinstance(step, str):
        return old.get(step, _ABSENT) if isinstance(old, dict) else _ABSENT
    if schema is None or schema.props.list_type != "map" or not isinstance(old, list):
        return _ABSENT
    keys = schema.props.list_map_keys
    wanted = new[step]
    if not isinstance(wanted, dict):
        return _ABSENT
    mark = [wanted.get(key) for key in keys]
    for item in old:
        if isinstance(item, dict) and [item.get(key) for key in keys] == mark:
            return item
    return _ABSENT


def is_absent(value: Any) -> bool:
    return value is _ABSENT


def _schema_below(schema: Structural | None, step: str | int) -> Structural | None:
    if schema is None:
        return None
    return schema.field(step) if isinstance(step, str) else schema.items
