"""What a table of one kind has: its columns, and how a row is made of an object.

Cells are what kubectl prints, so their words are those of Kubernetes' own tables. The modules beside this one have the
printers of the kinds; ``__init__.py`` gathers them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mooring.api import times
from mooring.api.label_selector import SelectorError, from_label_selector
from mooring.api.meta_v1 import LabelSelector, TableColumnDefinition, TableRowCondition

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
Cells = Callable[[Any, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind and the functions that fill them; `cells` gives one value for each column."""

    columns: tuple[TableColumnDefinition, ...]
    cells: Cells
    conditions: Callable[[Any], list[TableRowCondition]] | None = None


def text(name: str) -> TableColumnDefinition:
    """A column of text."""
    return _column(name, "string")


def number(name: str) -> TableColumnDefinition:
    """A column of whole numbers."""
    return _column(name, "integer")


def yes_or_no(name: str) -> TableColumnDefinition:
    """A column of truth values."""
    return _column(name, "boolean")


def date(name: str) -> TableColumnDefinition:
    """A column of times, which clients show as ages."""
    return _column(name, "date")


def wide(name: str) -> TableColumnDefinition:
    """A column of text that only wide output shows."""
    return _column(name, "string", priority=1)


def _column(name: str, kind: str, priority: int = 0) -> TableColumnDefinition:
    form = "name" if name == "Name" else ""
    return TableColumnDefinition(name=name, type=kind, format=form, description=_about(name), priority=priority)


def _about(name: str) -> str:
    return {
        "Name": "The name of the object, unique within its namespace.",
        "Age": "How long ago the object was created.",
        "Created At": "When the object was created.",
    }.get(name, f"{name} of the object.")


def age(created: str | None, now: datetime) -> str:
    """How long ago a time was, as `5d3h`."""
    if not created:
        return UNKNOWN
    try:
        then = times.parse(created)
    except times.TimeError:
        return "<invalid>"
    return duration((now.astimezone(UTC) - then).total_seconds())


def duration(seconds: float) -> str:
    """A length of time in at most two units, the finer one only where it matters."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 2 * 24:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def joined(values: Iterable[str], empty: str = NONE) -> str:
    """Words with commas between them."""
    return ",".join(values) or empty


def labels(values: Mapping[str, str]) -> str:
    """`a=b,c=d`, by key."""
    return joined(f"{key}={value}" for key, value in sorted(values.items()))


def selector(value: LabelSelector | None) -> str:
    """A selector as it is written in queries."""
    if value is None:
        return NONE
    try:
        return str(from_label_selector(value)) or NONE
    except SelectorError:
        return "<error>"


def containers(template: Any) -> tuple[str, str]:
    """The names and the images of a pod template's containers."""
    found = template.spec.containers if template else []
    return ",".join(each.name for each in found), ",".join(each.image for each in found)
