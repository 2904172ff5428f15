"""Values that only history holds, folded: kept as what tells them from the version that replaced them.

A pod of 3 KB whose status was written becomes 80 bytes, so that history is long and takes little memory. `mvcc` folds
events that are not new any more; whoever reads one of them again notices nothing but a few microseconds:

    event 4: pod = A        event 7: A → B        event 9: B → C        (C is what the key holds now)
    event 4: pod = A'       event 7: A' → B'      event 9: B' → C       A' leans on B', and B' on C

Where they differ in one place of the first half alone, as when a deletion is noted, that place is kept; else zlib
writes the one in terms of the other, but for a second half that is the same, as when a finalizer goes.
"""

import zlib
from struct import Struct
from typing import Any, cast

from msgspec import structs

from mooring.store.kv import Event, KeyValue

_SMALLEST = 256
"""What is smaller stays as it is."""
_LONGEST = 16
"""So many versions lean on each other at most: to read the first of them, all have to be unfolded."""
_PLACE = 128
"""How long one place may be; it is searched for in steps of half of that."""
_LEVEL, _WINDOW, _MEMORY = 2, -14, 5
"""The first level finds less that is alike, which takes longer. More memory takes longer to set up than to use."""
_SMALL, _SMALL_WINDOW = 7 * 1024, -13
"""In which all of such a value is within reach; setting it up takes two thirds of the time."""

_AROUND = Struct("<iI")
"""How many bytes of the other stand before and behind what was kept; where zlib wrote that, the first is `~` of it."""
_kept = cast("Any", KeyValue.value).__get__


class Folded(KeyValue, frozen=True, gc=False):
    """A version of a key whose value is worked out when somebody asks for it."""

    newer: KeyValue | None = None
    """The version that this one leans on; None for one that stands alone."""
    leaning: int = 0
    """How many versions lean on this one, directly or not."""

    @property  # type: ignore[misc] # it is read like the field, and never set
    def value(self) -> bytes:
        chain: list[Folded] = []
        version: KeyValue | None = self
        while isinstance(version, Folded):
            chain.append(version)
            version = version.newer
        value = version.value if version else b""
        for folded in reversed(chain):
            value = _unfolded(_kept(folded), value)
        return value


def held(kv: KeyValue) -> int:
    """The bytes that a version takes, folded or not."""
    return len(_kept(kv))


def fold(event: Event, before: Event | None) -> int:
    """Fold what an event replaced; `before` is the event that had made it, if that is known. Returns bytes saved."""
    old, new = event.previous, event.current
    if old is None or new is None or isinstance(old, Folded) or len(old.value) < _SMALLEST:
        return 0
    older = before.previous if before else None
    leaning = older.leaning + 1 if isinstance(older, Folded) and older.newer is old else 0
    alone = leaning >= _LONGEST
    text = _folded(old.value, b"" if alone else new.value)
    newer = None if alone else new
    folded = Folded(old.key, text, old.create_revision, old.mod_revision, old.expires, newer, 0 if alone else leaning)
    structs.force_setattr(event, "previous", folded)
    if before:
        structs.force_setattr(before, "current", folded)
    if leaning and older:
        structs.force_setattr(older, "newer", folded)
    return len(old.value) - len(text)


def _folded(value: bytes, like: bytes) -> bytes:
    """What tells a value from another."""
    begin = end = 0
    half = value[len(value) // 2 :]
    if like.endswith(half):
        begin = _beginning(value, like)
        place, rest = value[begin : begin + _PLACE], value[begin + _PLACE :]
        if like.endswith(rest):
            return _AROUND.pack(begin, len(rest)) + place
        end = len(half)
        value, like = value[begin:-end], like[begin:-end]
    window = _WINDOW if len(value) > _SMALL or len(like) > _SMALL else _SMALL_WINDOW
    folder = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, _MEMORY, zlib.Z_DEFAULT_STRATEGY, like)
    return _AROUND.pack(~begin, end) + folder.compress(value) + folder.flush()


def _unfolded(folded: bytes, like: bytes) -> bytes:
    begin, end = _AROUND.unpack_from(folded)
    text = folded[_AROUND.size :]
    rest = len(like) - end
    if begin < 0:
        begin = ~begin
        text = zlib.decompressobj(_WINDOW, like[begin:rest]).decompress(text)
    return b"".join((like[:begin], text, like[rest:]))


def _beginning(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike, or a few less."""
    low, high = 0, len(one)
    while high - low > _PLACE // 2:
        middle = (low + high) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle
    return low
