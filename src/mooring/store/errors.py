"""Exceptions of a store. A write whose precondition fails returns `kv.Conflict` and raises nothing.

The API server turns these into HTTP errors; the command line prints the message and exits.
"""

# ruff: noqa: N818 - the names say what is the case, as those of httpx do

from pathlib import Path


class StoreError(Exception):
    """The base class. Its message is fit for a user."""


class RevisionError(StoreError):
    """A revision cannot be read or watched from."""


class Compacted(RevisionError):
    """History before `floor` was compacted. List again, and watch from the revision of that list."""

    def __init__(self, requested: int, floor: int) -> None:
        super().__init__(f"revision {requested} has been compacted: the oldest one still known is {floor}")
        self.requested = requested
        self.floor = floor


class FutureRevision(RevisionError):
    """The store has not reached the requested revision."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"revision {requested} is in the future: the current one is {current}")
        self.requested = requested
        self.current = current


class Closed(StoreError):
    """The store or the watcher is closed."""


class OpenError(StoreError):
    """The store was not opened."""


class InUse(OpenError):
    """Another process has the data directory open; a second one would corrupt it."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the data directory {directory} is in use by {who}; stop it, or choose another directory")
        self.pid = pid


class Foreign(OpenError):
    """The file or prefix belongs to another program."""


class NewerSchema(OpenError):
    """The store was written by a newer release; downgrades across schema versions are not supported."""


class Incomplete(OpenError):
    """A copy or restore into this store was not finished. Run it again: it resumes or starts over."""


class NotEmpty(OpenError):
    """The target of a copy holds data, and overwriting was not requested."""


class StorageError(StoreError):
    """The disk, the database file or etcd does not accept an operation."""


class DiskFull(StorageError):
    """The write was rolled back. Writes succeed again once there is space, without a restart."""


class ReadOnly(StorageError):
    """The data directory or the file cannot be written."""


class TooLarge(StorageError):
    """The value exceeds the backend's size limit."""


class Unreachable(StorageError):
    """No etcd member answered in time. The outcome of a write is unknown: try again."""


class Refused(StorageError):
    """etcd rejected us: wrong credentials, no permission for the prefix, or a certificate that is not accepted."""


class Damaged(StorageError):
    """The file's content does not match its checksums or its schema: restore a backup."""


class StorageFailed(StorageError):
    """The disk reported an I/O error, so its content is unknown: nothing is written until a restart."""
