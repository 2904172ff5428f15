"""Fields that are newer than the oldest version this server may have to go back to (4330.7).

An older server would drop such a field, so a new use is refused until the minimum compatibility version knows it.
``options.py`` chooses what is too new, and writes a field as `spec.devices[*].taints`. Called by ``rule_strategy.py``
for kinds of their own, and by ``pod/`` for whatever has a PodSpec.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from mooring.api import field_errors
from mooring.api.core_v1 import PodSpec
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

DETAIL = "may not be set while the minimum compatibility version is older than the field"
_CONTAINERS, _INIT_CONTAINERS = "containers[*]", "initContainers[*]"


def validate(obj: Any, old: Any, kind: str, unwritable: frozenset[tuple[str, str]]) -> list[FieldError]:
    """An error for every use of a field that may not be written, unless the old object uses it already."""
    return [
        field_errors.forbidden(here, DETAIL)
        for of_kind, path in sorted(unwritable)
        if of_kind == kind and (old is None or not any(_uses(old, _steps(path), None)))
        for here in _uses(obj, _steps(path), None)
    ]


def validate_pod_spec(spec: PodSpec, path: Path, unwritable: frozenset[str]) -> list[FieldError]:
    """An error for every use of a field that may not be written."""
    return [field_errors.forbidden(here, DETAIL) for name in sorted(unwritable) for here in uses(name, spec, path)]


def uses(name: str, spec: PodSpec, path: Path) -> Iterator[Path]:
    """Where a PodSpec uses a field; those of containers count in init containers too."""
    inside = name.removeprefix("spec.")
    yield from _uses(spec, _steps(inside), path)
    if inside.startswith(_CONTAINERS):
        yield from _uses(spec, _steps(inside.replace(_CONTAINERS, _INIT_CONTAINERS, 1)), path)


class _Step(NamedTuple):
    attribute: str
    name: str
    many: bool


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[_Step, ...]:
    names = [(step.removesuffix("[*]"), step.endswith("[*]")) for step in path.split(".")]
    return tuple(
        _Step(re.sub("[A-Z]", lambda big: f"_{big.group().lower()}", name), name, many) for name, many in names
    )


def _uses(value: Any, steps: tuple[_Step, ...], path: Path | None) -> Iterator[Path]:
    if not steps:
        if value not in (None, "", [], {}) and value is not False and path is not None:
            yield path
        return
    step, *rest = steps
    found = getattr(value, step.attribute)
    if not found:
        return
    here = Path(step.name) if path is None else path.child(step.name)
    if step.many:
        for index, item in enumerate(found):
            yield from _uses(item, tuple(rest), here.index(index))
    else:
        yield from _uses(found, tuple(rest), here)
