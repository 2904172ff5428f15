"""What a table of one kind has: its columns, and how a row is made of an object.

Cells are what kubectl prints, so their words are those of Kubernetes' own tables. They hold for as long as the object
does, for ages are times until the row is written (``row.py``). The modules beside this one have the printers of the
kinds; ``__init__.py`` gathers them.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.api import times
from mooring.api.label_selector import SelectorError, from_label_selector
from mooring.api.meta_v1 import LabelSelector, TableColumnDefinition, TableRowCondition

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
AGE = b"\0"
"""Where an age comes in the JSON of a row: no JSON has this byte otherwise."""
Times = str | tuple[str, ...]
"""One time, or any other number of them."""


class Ago(msgspec.Struct, frozen=True):
    """A cell that says how long ago a time was, with words around it; what it says is known when somebody asks."""

    time: str
    before: str = ""
    after: str = ""


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind and the functions that fill them; `cells` gives one value for each column."""

    columns: tuple[TableColumnDefinition, ...]
    cells: Callable[[Any], list[Any]]
    conditions: Callable[[Any], list[TableRowCondition]] | None = None
    read: Callable[[bytes], Any] | None = None
    """Reads from the text of an object what cells are made of, where that is not an object of the kind's type."""
    write: Callable[[bytes], tuple[bytes, Times, int]] | None = None
    """Where there are many objects, writes a row from the text of one, and tells where the metadata in it ends."""


class Metadata(msgspec.Struct, rename="camel"):
    """What rows show of the metadata of an object."""

    name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


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


def age(created: str | None) -> Ago | str:
    """How long ago a time was, which may not be known."""
    return Ago(created) if created else UNKNOWN


class Ages(dict[str, bytes]):
    """How long ago times were at one moment, as `5d3h`: the objects of a list share few of them."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self._now = now.astimezone(UTC)

    def __missing__(self, time: str) -> bytes:
        try:
            words = duration((self._now - times.parse(time)).total_seconds())
        except times.TimeError:
            words = "<invalid>"
        self[time] = words.encode()
        return self[time]


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
