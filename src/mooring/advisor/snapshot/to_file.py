"""Write a snapshot into one file, which `--from` reads.

The file is a `v1 List` in JSON with one object per line, so that kubectl, jq and diff can read it too. Beside its items
it records the server's versions and gates and what could not be read. Called by `mooring dump`; ``from_files.py`` reads
the file.
"""

from typing import IO, Any

import msgspec

from mooring.advisor.snapshot.objects import Snapshot
from mooring.api import times


def write_snapshot(snapshot: Snapshot, to: IO[bytes]) -> int:
    """Write all objects and return their number."""
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "metadata": {}, "missing": dict(snapshot.missing)}
    if snapshot.taken_at is not None:
        head["takenAt"] = times.to_seconds(snapshot.taken_at)
    if snapshot.server:
        head["server"] = snapshot.server
    to.write(msgspec.json.encode(head)[:-1] + b',"items":[')
    count = 0
    for count, each in enumerate(snapshot.raw(), 1):
        to.write((b"\n" if count == 1 else b",\n") + msgspec.json.encode(each.tree))
    to.write(b"\n]}\n")
    return count
