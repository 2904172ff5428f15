"""The process that `test_crash.py` kills: writers and a watcher on one store, each reporting on stdout what it knows.

open R                 the store is at revision R
ack KEY REVISION N     the write of N to KEY was acknowledged
seen REVISION KEY N    the watcher received it (N is "-" for a delete)
"""

import asyncio
import os
import sys
from pathlib import Path

from mooring.store.kv import Delete, Event, Put, Write
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore


def say(line: str) -> None:
    os.write(
        1, line.encode() + b"\n"
    )  # one system call: in the pipe for good, even if the next instruction is never run


async def write(store: SqliteStore, writer: int, start: int) -> None:
    key = f"/r/{writer}"
    number = start
    while True:
        number += 1
        change: Write = Delete(key) if number % 10 == 0 else Put(key, b"%d" % number + bytes(writer * 50))
        outcome = await store.write(change)
        if isinstance(outcome, Event):
            say(f"ack {key} {outcome.revision} {number if outcome.current else '-'}")


async def watch(store: SqliteStore, after: int) -> None:
    with store.watch("/r/", after=after) as watcher:
        while True:
            for event in (await watcher.next()).events:
                value = event.current.value.rstrip(b"\0").decode() if event.current else "-"
                say(f"seen {event.revision} {event.key} {value}")


async def main(directory: Path, writers: int, start: int, after: int) -> None:
    # A short history, so that files are compacted while they are written.
    store = await SqliteStore.open(directory, limits=HistoryLimits(events=5_000))
    say(f"open {await store.revision()}")
    await asyncio.gather(watch(store, after), *(write(store, writer, start) for writer in range(writers)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
