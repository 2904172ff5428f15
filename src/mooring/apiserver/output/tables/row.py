"""A row of a table as bytes, but for the ages in it: what can be kept for as long as an object stays as it is.

``__init__.py`` makes rows of objects; ``registry/views.py`` puts them into answers.
"""

import sys
from typing import Any

import msgspec

from mooring.api import codec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.output.tables.printer import AGE, Ages, Ago, Times


class Row(msgspec.Struct, frozen=True, gc=False):
    """The row of one revision of an object."""

    kind: Kind
    revision: int
    metadata_size: int
    """How many bytes the metadata has behind the resourceVersion, for those who show it beside the row."""
    text: bytes
    """JSON that lacks its `object` and its end, with `AGE` where an age comes."""
    times: Times
    """Those of which the ages are told: nearly all rows have one."""

    def write(self, ages: Ages) -> bytes:
        """The JSON with ages."""
        times = self.times
        if type(times) is str:
            return self.text.replace(AGE, ages[times])
        first, *others = self.text.split(AGE)
        return first + b"".join(ages[time] + rest for time, rest in zip(times, others, strict=True))


_BARE_AGE = msgspec.Raw(b'"%b"' % AGE)


def written(cells: list[Any], conditions: list[TableRowCondition]) -> tuple[bytes, Times]:
    """The JSON of a row with these cells, but for its ages, and the times that these depend on."""
    times = [sys.intern(cell.time) for cell in cells if type(cell) is Ago]
    text = b'{"cells":' + codec.encode([_age(cell) if type(cell) is Ago else cell for cell in cells])
    if conditions:
        text += b',"conditions":' + codec.encode(conditions)
    return text, times[0] if len(times) == 1 else tuple(times)


def _age(cell: Ago) -> msgspec.Raw:
    if not cell.before and not cell.after:
        return _BARE_AGE
    return msgspec.Raw(codec.encode(cell.before)[:-1] + AGE + codec.encode(cell.after)[1:])
