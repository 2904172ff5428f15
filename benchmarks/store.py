"""How fast the store is: durable writes, lists, watch fan-out, opening. Run as `python benchmarks/store.py`."""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from mooring.store.kv import Event, Put, Store
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

_VALUE = os.urandom(1500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each row is measured")
    parser.add_argument(
        "--directory", type=Path, default=None, help="where to write; a temporary directory if not given"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        asyncio.run(_run(Path(directory), options.seconds))


async def _run(directory: Path, seconds: float) -> None:
    store = await SqliteStore.open(directory)
    for writers in (1, 32, 256):
        _report(f"sqlite: durable puts, {writers} writers", await _puts(store, writers, seconds), "/s")
    _report("sqlite: durable compare-and-swap, 32 writers", await _swaps(store, 32, seconds), "/s")
    _report("sqlite: durable puts in groups of 100, 1 writer", await _groups(store, 100, seconds), "/s")
    await store.close()
    memory = await MemoryStore.open()
    _report("memory: puts, 32 writers", await _puts(memory, 32, seconds), "/s")
    await memory.close()
    await _reads(directory / "reads")


async def _puts(store: Store, writers: int, seconds: float) -> float:
    async def write(writer: int) -> int:
        done = 0
        while time.perf_counter() < end:
            await store.write(Put(f"/registry/pods/default/pod-{writer}-{done % 100}", _VALUE))
            done += 1
            if done % 100 == 0:
                await asyncio.sleep(0)  # a store in memory never waits, so the others would never begin
        return done

    end = time.perf_counter() + seconds
    return sum(await asyncio.gather(*map(write, range(writers)))) / seconds


async def _swaps(store: Store, writers: int, seconds: float) -> float:
    async def swap(writer: int) -> int:
        done, key = 0, f"/registry/leases/default/lease-{writer}"
        revision = 0
        while time.perf_counter() < end:
            outcome = await store.write(Put(key, _VALUE, expect=revision))
            assert isinstance(outcome, Event)
            revision = outcome.revision
            done += 1
        return done

    end = time.perf_counter() + seconds
    return sum(await asyncio.gather(*map(swap, range(writers)))) / seconds


async def _groups(store: Store, size: int, seconds: float) -> float:
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        await store.write_all([Put(f"/registry/pods/default/group-{i}", _VALUE) for i in range(size)])
        done += size
    return done / seconds


async def _reads(directory: Path) -> None:
    store = await SqliteStore.open(directory)
    for start in range(0, 50_000, 1000):
        await store.write_all([Put(f"/registry/pods/ns-{i % 50}/pod-{i}", _VALUE) for i in range(start, start + 1000)])
    await store.write_all([Put(f"/registry/nodes/node-{i}", _VALUE) for i in range(5000)])
    began = time.perf_counter()
    page = await store.range("/registry/nodes/")
    _report(f"list of {len(page.items)} among 55,000 keys", (time.perf_counter() - began) * 1e3, " ms")
    began, pages, after_key = time.perf_counter(), 0, ""
    revision = await store.revision()
    await store.write_all([Put(f"/registry/pods/ns-0/new-{i}", _VALUE) for i in range(1000)])
    while True:
        page = await store.range("/registry/pods/", after_key=after_key, limit=500, revision=revision)
        pages += 1
        if not page.remaining:
            break
        after_key = page.items[-1].key
    _report("one page of 500 out of 50,000, 1,000 revisions ago", (time.perf_counter() - began) * 1e3 / pages, " ms")
    await _fan_out(store, 500)
    await store.close()
    began = time.perf_counter()
    store = await SqliteStore.open(directory)
    _report("open with 56,000 keys", (time.perf_counter() - began) * 1e3, " ms")
    await store.close()


async def _fan_out(store: Store, count: int) -> None:
    revision = await store.revision()
    watchers = [store.watch("/registry/nodes/", after=revision) for _ in range(count)]
    for changes in (1, 100):
        tasks = [asyncio.ensure_future(watcher.next()) for watcher in watchers]
        await asyncio.sleep(0)
        await store.write_all([Put(f"/registry/nodes/node-{i}", _VALUE) for i in range(changes)])
        began = time.perf_counter()
        batches = await asyncio.gather(*tasks)
        assert all(len(batch.events) == changes for batch in batches)
        _report(f"{changes} changes to {count} watchers, after the commit", (time.perf_counter() - began) * 1e3, " ms")
    for watcher in watchers:
        watcher.close()


def _report(what: str, value: float, unit: str) -> None:
    print(f"{what:55} {value:10,.1f}{unit}" if unit == " ms" else f"{what:55} {value:10,.0f}{unit}")


if __name__ == "__main__":
    main()
