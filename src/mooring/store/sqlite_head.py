"""The head mark of the SQLite log: the last acknowledged revision, in a small file of its own.

SQLite silently ends its write-ahead log at the first invalid frame, because a crash leaves half-written frames. So a
log that is corrupted, truncated or missing looks like a store with fewer writes. The mark detects this: a log that ends
before the mark has lost acknowledged writes and must not be served. It also counts the rows, so that none can be lost
in the middle, or reappear.

    state.head   two slots of 64 bytes, written in turn: revision, floor, rows, the sum of their revisions, a checksum

It is written after every transaction and before the write is acknowledged, so it survives a crash of the process. It is
flushed to disk once a second, because a flush per transaction would double the cost: after a power cut it may miss the
last second. ``sqlite_file.py`` and the tools that replace a store use it.
"""

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from mooring.store.errors import Damaged

HEAD = "state.head"
_SLOT = struct.Struct("<8sQQQQI")
_MAGIC = b"MOORHEAD"
_SLOT_BYTES = 64
_MASK = 2**64 - 1


class Head(msgspec.Struct, frozen=True):
    """A summary of a log: last revision, floor, number of rows."""

    revision: int
    floor: int
    rows: int = 0
    total: int = 0
    """The sum of the rows' revisions, modulo 2^64."""

    def after(self, added: range, dropped: list[int], floor: int) -> "Head":
        """Return the head after a transaction that appends the revisions `added` and deletes the rows `dropped`."""
        total = self.total + sum(added) - sum(dropped)
        revision = added[-1] if added else self.revision
        return Head(revision, floor, self.rows + len(added) - len(dropped), total & _MASK)

    def encode(self) -> bytes:
        fields = (_MAGIC, self.revision, self.floor, self.rows, self.total)
        checksum = zlib.crc32(_SLOT.pack(*fields, 0))
        return _SLOT.pack(*fields, checksum).ljust(_SLOT_BYTES, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """Decode a slot; return None if it is invalid."""
        if len(data) < _SLOT.size:
            return None
        magic, revision, floor, rows, total, checksum = _SLOT.unpack_from(data)
        if magic != _MAGIC or checksum != zlib.crc32(_SLOT.pack(magic, revision, floor, rows, total, 0)):
            return None
        return cls(revision, floor, rows, total)


def read_head(directory: Path) -> Head | None:
    """Read the head mark of a data directory; None if there is none. Raise `Damaged`."""
    path = directory / HEAD
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = [Head.decode(data[place : place + _SLOT_BYTES]) for place in (0, _SLOT_BYTES)]
    whole = [head for head in found if head is not None]
    if not whole and data.strip(b"\0"):
        raise Damaged(f"{path} is damaged, so it is unknown whether the store has all acknowledged writes")
    return max(whole, key=lambda head: (head.revision, head.floor), default=None)


def describe_loss(mark: Head | None, log: Head) -> str:
    """Describe what a log lacks compared with its mark; empty if nothing. A log may be newer than its mark."""
    if mark is None or log.revision > mark.revision:
        return ""
    if log.revision < mark.revision:
        return (
            f"writes up to revision {mark.revision} were acknowledged, and the log ends at {log.revision}: its end "
            "was damaged, cut off or removed"
        )
    if log.floor == mark.floor and (log.rows, log.total) != (mark.rows, mark.total):
        return f"the log had {mark.rows} records at revision {mark.revision}, and has {log.rows} now, or others"
    return ""


class HeadFile:
    """The open file of the head mark, which has two slots that are written in turn."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / HEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._slot = 0
        self._synced = True
        if os.fstat(self._file).st_size < 2 * _SLOT_BYTES:  # so that a disk that fills up has room for it
            os.pwrite(self._file, bytes(2 * _SLOT_BYTES), 0)

    def write(self, head: Head) -> None:
        """Write the next slot, so that an interrupted write leaves the other one valid."""
        os.pwrite(self._file, head.encode(), self._slot * _SLOT_BYTES)
        self._slot = 1 - self._slot
        self._synced = False

    def reset(self, head: Head) -> None:
        """Write one slot and clear the other."""
        os.pwrite(self._file, head.encode() + bytes(_SLOT_BYTES), 0)
        self._slot, self._synced = 1, False
        self.sync()

    def sync(self) -> None:
        """Flush to disk if there are unflushed writes."""
        if not self._synced:
            os.fsync(self._file)
            self._synced = True

    def close(self) -> None:
        with suppress(OSError):  # the kernel has the written bytes already
            self.sync()
        os.close(self._file)
