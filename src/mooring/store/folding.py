"""Delta compression of values that only history holds: each is stored as a difference to the version after it.

A pod of 3 KB whose status was updated shrinks to 80 bytes, so history is long and takes little memory. `mvcc` folds
events that are no longer recent; reading a folded value costs a few microseconds more:

    event 4: pod = A        event 7: A → B        event 9: B → C        (C is the current value)
    event 4: pod = A'       event 7: A' → B'      event 9: B' → C       A' is a delta to B', and B' to C

If two versions differ in one short span of the first half only, as when a deletion timestamp is set, that span is kept;
otherwise zlib compresses one with the other as dictionary, leaving out an identical second half.
"""

import zlib
from struct import Struct
from typing import Any, cast

from msgspec import structs

from mooring.store.kv import Event, KeyValue

_MIN_FOLDED_BYTES = 256
"""Smaller values are not folded."""
_MAX_CHAIN = 16
"""Longest chain of deltas: reading the oldest version unfolds all of them."""
_MAX_SPAN_BYTES = 128
"""Longest span that is stored verbatim; the search for it steps by half of that."""
_LEVEL, _WINDOW, _MEMORY = 2, -14, 5
"""Level 1 finds fewer matches and is slower overall. More memory takes longer to set up than it saves."""
_SMALL, _SMALL_WINDOW = 7 * 1024, -13
"""Values up to this size use a smaller window, which takes two thirds of the time to set up."""

_DELTA_HEADER = Struct("<iI")
"""Lengths of the prefix and suffix shared with the other version; `~prefix` marks a zlib-compressed middle."""
_stored_bytes = cast("Any", KeyValue.value).__get__


class Folded(KeyValue, frozen=True, gc=False):
    """A version of a key whose value is decompressed on access."""

    newer: KeyValue | None = None
    """The version that this delta refers to; None for one that is compressed on its own."""
    chain_length: int = 0
    """Length of the chain of older versions that depend on this one."""

    @property  # type: ignore[misc] # it is read like the field, and never set
    def value(self) -> bytes:
        chain: list[Folded] = []
        version: KeyValue | None = self
        while isinstance(version, Folded):
            chain.append(version)
            version = version.newer
        value = version.value if version else b""
        for folded in reversed(chain):
            value = _apply_delta(_stored_bytes(folded), value)
        return value


def memory_size(kv: KeyValue) -> int:
    """Return the bytes that a version takes in memory, folded or not."""
    return len(_stored_bytes(kv))


def fold(event: Event, before: Event | None) -> int:
    """Fold the value that an event replaced. `before` is the event that wrote it, if known. Return the bytes saved."""
    old, new = event.previous, event.current
    if old is None or new is None or isinstance(old, Folded) or len(old.value) < _MIN_FOLDED_BYTES:
        return 0
    older = before.previous if before else None
    chain_length = older.chain_length + 1 if isinstance(older, Folded) and older.newer is old else 0
    alone = chain_length >= _MAX_CHAIN
    text = _encode_delta(old.value, b"" if alone else new.value)
    newer = None if alone else new
    folded = Folded(
        old.key, text, old.create_revision, old.mod_revision, old.expires, newer, 0 if alone else chain_length
    )
    structs.force_setattr(event, "previous", folded)
    if before:
        structs.force_setattr(before, "current", folded)
    if chain_length and older:
        structs.force_setattr(older, "newer", folded)
    return len(old.value) - len(text)


def _encode_delta(value: bytes, like: bytes) -> bytes:
    begin = end = 0
    half = value[len(value) // 2 :]
    if like.endswith(half):
        begin = _common_prefix_length(value, like)
        place, rest = value[begin : begin + _MAX_SPAN_BYTES], value[begin + _MAX_SPAN_BYTES :]
        if like.endswith(rest):
            return _DELTA_HEADER.pack(begin, len(rest)) + place
        end = len(half)
        value, like = value[begin:-end], like[begin:-end]
    window = _WINDOW if len(value) > _SMALL or len(like) > _SMALL else _SMALL_WINDOW
    folder = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, _MEMORY, zlib.Z_DEFAULT_STRATEGY, like)
    return _DELTA_HEADER.pack(~begin, end) + folder.compress(value) + folder.flush()


def _apply_delta(folded: bytes, like: bytes) -> bytes:
    begin, end = _DELTA_HEADER.unpack_from(folded)
    text = folded[_DELTA_HEADER.size :]
    rest = len(like) - end
    if begin < 0:
        begin = ~begin
        text = zlib.decompressobj(_WINDOW, like[begin:rest]).decompress(text)
    return b"".join((like[:begin], text, like[rest:]))


def _common_prefix_length(one: bytes, other: bytes) -> int:
    low, high = 0, len(one)
    while high - low > _MAX_SPAN_BYTES // 2:
        middle = (low + high) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle
    return low
