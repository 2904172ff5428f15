"""A row of a table as bytes, but for the ages in it: what can be kept for as long as an object stays as it is.

``__init__.py`` makes rows of objects; ``resources/output.py`` puts them into answers.
"""

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
    metadata_end: int
    """Where the metadata of the object ends in its JSON, for those who show it beside the row."""
    pieces: tuple[bytes | str, ...]
    """What is written as it is (bytes), and times whose ages come in between (str)."""

    def write(self, ages: Ages) -> list[bytes]:
        """The JSON, in pieces."""
        return [piece if type(piece) is bytes else ages[piece] for piece in self.pieces]  # type: ignore[index] # a str


def pieces(cells: list[Any], conditions: list[TableRowCondition]) -> tuple[bytes | str, ...]:
    """The JSON of a row with these cells, in pieces."""
    found: list[bytes | str] = []
    text, begin = b'{"cells":', 0
    for index, cell in enumerate(cells):
        if type(cell) is Ago:
            # an array that ends with what comes before the age, without the end of that
            found += (text + codec.encode([*cells[begin:index], cell.before])[begin > 0 : -2], cell.time)
            text, begin = codec.encode(cell.after)[1:] + b",", index + 1
    text = text + codec.encode(cells[begin:])[begin > 0 :] if begin < len(cells) else text[:-1] + b"]"
    if conditions:
        text += b',"conditions":' + codec.encode(conditions)
    return (*found, text)
