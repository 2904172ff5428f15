"""The mark beside the log of `sqlite`: up to which revision writes were acknowledged, in a small file of its own.

SQLite ends its write-ahead log at the first frame that makes no sense, without a word: that is how it knows what a
crash left half written. So a log with a wrong bit, a short one and one that is gone look like stores to which less was
written. The mark says what was: a store whose log ends before it has lost acknowledged writes, and must not be served
as if nothing had happened. It also counts the rows, so that none can be lost in the middle, or come back.

    state.head   two places of 64 bytes, written in turn: revision, floor, rows, the sum of their revisions, a checksum

It is written after every transaction and before anybody is told, which holds however the process ends; and brought to
the disk once a second rather than with each of them, which would cost a second trip to the disk. So it is certain up to
the last second before a power cut. ``sqlite_file.py`` is the only one to use it, beside the tools that replace a store.
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
_PLACE = struct.Struct("<8sQQQQI")
_MAGIC = b"MOORHEAD"
_PLACE_BYTES = 64
_MASK = 2**64 - 1


class Head(msgspec.Struct, frozen=True):
    """What a log holds."""

    revision: int
    floor: int
    rows: int = 0
    total: int = 0
    """The sum of the revisions of its rows, without what 64 bits cannot hold."""

    def after(self, added: range, dropped: list[int], floor: int) -> "Head":
        """The head after a transaction."""
        total = self.total + sum(added) - sum(dropped)
        revision = added[-1] if added else self.revision
        return Head(revision, floor, self.rows + len(added) - len(dropped), total & _MASK)

    def encoded(self) -> bytes:
        fields = (_MAGIC, self.revision, self.floor, self.rows, self.total)
        checksum = zlib.crc32(_PLACE.pack(*fields, 0))
        return _PLACE.pack(*fields, checksum).ljust(_PLACE_BYTES, b"\0")

    @classmethod
    def decoded(cls, data: bytes) -> Self | None:
        """None for bytes that are no head, or not a whole one."""
        if len(data) < _PLACE.size:
            return None
        magic, revision, floor, rows, total, checksum = _PLACE.unpack_from(data)
        if magic != _MAGIC or checksum != zlib.crc32(_PLACE.pack(magic, revision, floor, rows, total, 0)):
            return None
        return cls(revision, floor, rows, total)


def read_head(directory: Path) -> Head | None:
    """The mark of a data directory; None where none was ever written. Raises `Damaged`."""
    path = directory / HEAD
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = [Head.decoded(data[place : place + _PLACE_BYTES]) for place in (0, _PLACE_BYTES)]
    whole = [head for head in found if head is not None]
    if not whole and data.strip(b"\0"):
        raise Damaged(f"{path} is damaged, so that nobody knows whether the store has all that was written to it")
    return max(whole, key=lambda head: (head.revision, head.floor), default=None)


def missing(mark: Head | None, log: Head) -> str:
    """What is missing from a log, in words; empty if nothing is. A log may be ahead of its mark, after a crash."""
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
    """The open file of the mark."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / HEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = 0
        self._synced = True
        if os.fstat(self._file).st_size < 2 * _PLACE_BYTES:  # so that a disk that fills up has room for it
            os.pwrite(self._file, bytes(2 * _PLACE_BYTES), 0)

    def write(self, head: Head) -> None:
        """In the place whose turn it is, so that a write which is cut off leaves the other one."""
        os.pwrite(self._file, head.encoded(), self._turn * _PLACE_BYTES)
        self._turn = 1 - self._turn
        self._synced = False

    def reset(self, head: Head) -> None:
        """Make it the only one."""
        os.pwrite(self._file, head.encoded() + bytes(_PLACE_BYTES), 0)
        self._turn, self._synced = 1, False
        self.sync()

    def sync(self) -> None:
        """Bring it to the disk, if it is not there."""
        if not self._synced:
            os.fsync(self._file)
            self._synced = True

    def close(self) -> None:
        with suppress(OSError):  # what it says is in the kernel's hands already
            self.sync()
        os.close(self._file)
