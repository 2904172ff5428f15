"""A table row as JSON with placeholders for the ages in it, so that it is valid as long as the object is unchanged.

``__init__.py`` builds and caches rows; ``registry/verbs/views.py`` writes them into responses.
"""

import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.api import codec, times
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.output import json_bytes

AGE = b"\0"
"""A byte that marks, in the JSON of a Table row, where an age is filled in when the row is sent."""
Times = str | tuple[str, ...]
"""The times whose ages a Table row shows: one, or any other number of them."""


class Ago(msgspec.Struct, frozen=True):
    """A Table cell with the age of a time, formatted when the row is sent, and the text around it."""

    time: str
    before: str = ""
    after: str = ""


class Ages(dict[str, bytes]):
    """Formats times as ages at one moment (`5d3h`), caching results, since listed objects share most times."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self._now = now.astimezone(UTC)

    def __missing__(self, time: str) -> bytes:
        try:
            age = duration((self._now - times.parse(time)).total_seconds())
        except times.TimeError:
            age = "<invalid>"
        self[time] = age.encode()
        return self[time]


class Row(msgspec.Struct, frozen=True, gc=False):
    """The cached Table row of an object at one revision: JSON with placeholders, and the times for them."""

    kind: Kind
    revision: int
    metadata_size: int
    """The length in bytes of the object's metadata without the resourceVersion, which responses show beside the row."""
    text: bytes
    """The JSON of the row with age placeholders, without `object` and the closing brace."""
    times: Times

    def write(self, ages: Ages) -> bytes:
        """Return the Table row as JSON, with current ages in place of the placeholders."""
        times = self.times
        if type(times) is str:
            return self.text.replace(AGE, ages[times])
        first, *others = self.text.split(AGE)
        return first + b"".join(ages[time] + rest for time, rest in zip(times, others, strict=True))


def encode_row(cells: list[Any], conditions: list[TableRowCondition]) -> tuple[bytes, Times]:
    """Return a Table row as JSON with placeholders for ages, and the times from which ages are computed."""
    times = [sys.intern(cell.time) for cell in cells if type(cell) is Ago]
    text = json_bytes.make_row(encode_cells(cells), codec.encode(conditions) if conditions else b"")
    return text, times[0] if len(times) == 1 else tuple(times)


def encode_cells(cells: list[Any]) -> bytes:
    """Return cells as a JSON array, with placeholders for ages."""
    return codec.encode([_encode_age_cell(cell) if type(cell) is Ago else cell for cell in cells])


def _encode_age_cell(cell: Ago) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(cell.before)[:-1] + AGE + codec.encode(cell.after)[1:])


def split_metadata(text: bytes) -> tuple[bytes, int]:
    """Return an object's JSON without managed fields, and the index in the given text where its metadata ends."""
    shown, end = json_bytes.without_managed_fields(text)
    return shown, end if end >= 0 else json_bytes.find_metadata_begin(text) - 1 + len(json_bytes.extract_metadata(text))


def duration(seconds: float) -> str:
    """Return a duration as kubectl prints it: one unit, or two if the finer one matters (`5d3h`)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _format_two_units(minutes, "m", whole % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _format_two_units(hours, "h", minutes % 60, "m")
    if hours < 2 * 24:
        return f"{hours}h"
    if days < 8:
        return _format_two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    return _format_two_units(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _format_two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"
