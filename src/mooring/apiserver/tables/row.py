"""A row of a table as bytes, but for the ages in it: what can be kept for as long as an object stays as it is.

``__init__.py`` makes rows of objects; ``resources/output.py`` puts them into answers.
"""

import sys
from typing import Any

import msgspec

from mooring.api import codec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.tables.printer import Ages, Ago


class Row(msgspec.Struct, frozen=True, gc=False):
    """The row of one revision of an object, as JSON that lacks its `object` and its end."""

    kind: Kind
    revision: int
    metadata_size: int
    """How many bytes the metadata has behind the resourceVersion, for those who show it beside the row."""
    pieces: tuple[bytes | str, ...]
    """What is written as it is (bytes), and times whose ages come in between (str)."""

    def write(self, ages: Ages) -> list[bytes]:
        """The JSON, in pieces."""
        return [piece if type(piece) is bytes else ages[piece] for piece in self.pieces]  # type: ignore[index] # a str


_AGE = b"\0"
"""Where an age comes in JSON: no JSON has this byte otherwise."""
_BARE_AGE = msgspec.Raw(b'"%b"' % _AGE)


def pieces(cells: list[Any], conditions: list[TableRowCondition]) -> tuple[bytes | str, ...]:
    """The JSON of a row with these cells, in pieces."""
    times = [sys.intern(cell.time) for cell in cells if type(cell) is Ago]
    text = b'{"cells":' + codec.encode([_age(cell) if type(cell) is Ago else cell for cell in cells])
    if conditions:
        text += b',"conditions":' + codec.encode(conditions)
    first, *others = text.split(_AGE)
    found: list[bytes | str] = [first]
    for time, rest in zip(times, others, strict=True):
        found += (time, rest)
    return tuple(found)


def _age(cell: Ago) -> msgspec.Raw:
    if not cell.before and not cell.after:
        return _BARE_AGE
    return msgspec.Raw(codec.encode(cell.before)[:-1] + _AGE + codec.encode(cell.after)[1:])
