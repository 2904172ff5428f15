"""A snapshot written into one file, which `--from` of every question reads again.

The file is a `v1 List` in JSON, an object a line, so that kubectl, jq and diff can read it too. Besides its items it
says how the server ran and what could not be read. `mooring dump` calls this; ``from_files.py`` is the way back.
"""

from typing import IO, Any

import msgspec

from mooring.advisor.snapshot.objects import Snapshot


def write(snapshot: Snapshot, to: IO[bytes], *, server: dict[str, Any] | None = None) -> int:
    """Write all objects; how many there were."""
    head = {"apiVersion": "v1", "kind": "List", "metadata": {}, "missing": dict(snapshot.missing)}
    if server:
        head["server"] = server
    to.write(msgspec.json.encode(head)[:-1] + b',"items":[')
    count = 0
    for count, each in enumerate(snapshot.raw(), 1):
        to.write((b"\n" if count == 1 else b",\n") + msgspec.json.encode(each.tree))
    to.write(b"\n]}\n")
    return count
