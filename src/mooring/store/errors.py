"""What can go wrong in a store. A write whose precondition fails is no error but an outcome: see `kv.Conflict`.

    StoreError
    ├── RevisionError
    │   ├── Compacted          the revision is gone: list again and watch from there (HTTP 410 Gone)
    │   └── FutureRevision     the revision is yet to come: wait and try again (HTTP 504, "Too large resource version")
    ├── Closed                 the store, or the watcher, was closed
    ├── OpenError              the store cannot be opened; nothing in the data directory was changed
    │   ├── InUse              another process has it
    │   ├── Foreign            the file is not a Mooring store
    │   ├── NewerSchema        the file was written by a newer Mooring
    │   ├── Incomplete         a copy into it was not finished
    │   └── NotEmpty           a copy would overwrite what is there
    └── StorageError           the disk, or etcd, refuses; nothing that was acknowledged is lost
        ├── DiskFull           free some space and try again; the store goes on by itself
        ├── ReadOnly           make the data directory writable
        ├── TooLarge           the value is larger than the store takes (HTTP 413)
        ├── Unreachable        etcd did not answer in time: a write may or may not be done (HTTP 504); try again
        ├── Refused            etcd did not let us in; the message says what to change
        ├── Damaged            restore from a backup; the message says what is broken
        └── StorageFailed      the disk reported an input/output error: writes stop until a restart, reads go on

The API server turns these into answers; the command line prints the message and stops.
"""

# ruff: noqa: N818 - the names say what is the case, as those of httpx do; the tree above says that they are errors

from pathlib import Path


class StoreError(Exception):
    """The root. Its message is fit for a user."""


class RevisionError(StoreError):
    """A revision that cannot be read or watched from."""


class Compacted(RevisionError):
    """The history before `floor` was thrown away. List again, and watch from the revision of that list."""

    def __init__(self, requested: int, floor: int) -> None:
        super().__init__(f"revision {requested} has been compacted: the oldest one still known is {floor}")
        self.requested = requested
        self.floor = floor


class FutureRevision(RevisionError):
    """The store has not reached that revision."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"revision {requested} is in the future: the current one is {current}")
        self.requested = requested
        self.current = current


class Closed(StoreError):
    """Nothing more comes from here."""


class OpenError(StoreError):
    """The store was not opened."""


class InUse(OpenError):
    """A second process on the same data directory would corrupt it, so it is refused."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the data directory {directory} is in use by {who}; stop it, or choose another directory")
        self.pid = pid


class Foreign(OpenError):
    """Some other program's file stands where ours should."""


class NewerSchema(OpenError):
    """Downgrades across schema versions are refused rather than guessed at."""


class Incomplete(OpenError):
    """Half of a store must not be served. Copy or restore again; that goes on where it can, or starts over."""


class NotEmpty(OpenError):
    """Only whoever says so may overwrite a store."""


class StorageError(StoreError):
    """The disk, or the file on it, refuses."""


class DiskFull(StorageError):
    """The write was undone. Once there is space again, writes succeed again."""


class ReadOnly(StorageError):
    """The data directory or the file cannot be written."""


class TooLarge(StorageError):
    """The store has a limit, and this value is above it."""


class Unreachable(StorageError):
    """No server of etcd answered in time. If this was a write, nobody knows yet whether it is done."""


class Refused(StorageError):
    """Wrong user or password, no permission for the prefix, or a certificate that one side does not accept."""


class Damaged(StorageError):
    """The file is not as it was written."""


class StorageFailed(StorageError):
    """After an input/output error nobody knows what the disk holds, so nothing more is written until a restart."""
