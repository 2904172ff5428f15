"""Fields that are newer than the oldest version this server may have to go back to, in kinds without pods (4330.7).

An older server would drop such a field, so a new use is refused until the minimum compatibility version knows it.
Called by ``rule_strategy.py``; ``options.py`` chooses what is too new. The fields of pods are in ``pod/new_fields.py``.
"""

import re
from collections.abc import Iterator
from typing import Any

from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

DETAIL = "may not be set while the minimum compatibility version is older than the field"


def validate(obj: Any, old: Any, kind: str, unwritable: frozenset[tuple[str, str]]) -> list[FieldError]:
    """An error for every use of a field that may not be written, unless the old object uses it already."""
    return [
        field_errors.forbidden(here, DETAIL)
        for of_kind, path in sorted(unwritable)
        if of_kind == kind and (old is None or not any(uses(old, path)))
        for here in uses(obj, path)
    ]


def uses(obj: Any, path: str) -> Iterator[Path]:
    """Where an object has something in the field."""
    return _uses(obj, path.split("."), None)


def _uses(value: Any, steps: list[str], path: Path | None) -> Iterator[Path]:
    if not steps:
        if value not in (None, "", [], {}) and value is not False and path is not None:
            yield path
        return
    step, *rest = steps
    name = step.removesuffix("[*]")
    found = getattr(value, re.sub("[A-Z]", lambda capital: f"_{capital.group().lower()}", name))
    here = Path(name) if path is None else path.child(name)
    if name != step:
        for index, item in enumerate(found):
            yield from _uses(item, rest, here.index(index))
    elif found is not None:
        yield from _uses(found, rest, here)
