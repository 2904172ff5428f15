"""How fast the stores are, side by side: SQLite, and etcd with one and with three members.

`python -m benchmarks store`, or `python benchmarks/store.py --seconds 3 --clients`. With `--clients`, also what etcd's
protocol reaches without a store around it, over gRPC and over its JSON gateway.
"""

import argparse
import asyncio
import base64
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the code that starts an etcd is

from etcd_servers import EtcdServers, etcd_cluster
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Event, Put, Store, Watcher
from mooring.store.sqlite import SqliteStore

_VALUE = os.urandom(1500)
_OBJECTS = 5000
_WRITERS = (1, 32, 256)
_ROUNDS = 5

Open = Callable[[], Awaitable[Store]]
Row = tuple[str, float, str]
Work = Callable[[int, int], Awaitable[None]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each row is measured")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory if not given")
    parser.add_argument("--clients", action="store_true", help="measure etcd's protocol too")
    options, _ = parser.parse_known_args()
    columns = uvloop.run(_all(options.directory, options.seconds, clients=options.clients))
    _print(columns)
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


async def _all(directory: Path | None, seconds: float, *, clients: bool) -> dict[str, list[Row]]:
    columns: dict[str, list[Row]] = {}
    for name in ("SQLite", "etcd, 1 member", "etcd, 3 members"):
        with tempfile.TemporaryDirectory(dir=directory) as folder, _opener(name, Path(folder)) as (open_, etcd):
            columns[name] = await _store(open_, seconds)
            if clients and etcd:
                columns[name] += await _clients(etcd, seconds)
    return columns


@contextmanager
def _opener(name: str, directory: Path) -> Iterator[tuple[Open, EtcdServers | None]]:
    if name == "SQLite":
        yield lambda: SqliteStore.open(directory), None
        return
    with etcd_cluster(directory, members=3 if "3" in name else 1) as etcd:
        yield lambda: EtcdStore.open(etcd.config()), etcd


async def _store(open_: Open, seconds: float) -> list[Row]:
    rows: list[Row] = []
    async with _closing(await open_()) as store:
        rows += [(f"puts, {_writers(writers)}", await _puts(store, writers, seconds), "/s") for writers in _WRITERS]
        rows += [
            (f"compare-and-swap, {_writers(writers)}", await _swaps(store, writers, seconds), "/s")
            for writers in _WRITERS
        ]
        rows.append(("puts in groups of 100, 1 writer", await _groups(store, 100, seconds), "/s"))
        rows.append(("gets, 1 reader", await _gets(store, 1, seconds), "/s"))
        rows.append(("gets, 32 readers", await _gets(store, 32, seconds), "/s"))
        rows += await _lists(store)
        rows += await _fan_out(store, 500)
        rows += await _latency(store, store, "a watcher")
        if isinstance(store, EtcdStore):
            async with _closing(await open_()) as other:
                rows += await _latency(store, other, "a watcher at another server")
    began = time.perf_counter()
    async with _closing(await open_()) as store:
        keys = await store.count("")
        rows.append((f"open with {round(keys, -3):,} keys", (time.perf_counter() - began) * 1e3, "ms"))
    return rows


@asynccontextmanager
async def _closing(store: Store) -> AsyncIterator[Store]:
    try:
        yield store
    finally:
        await store.close()


async def _rate(work: Work, workers: int, seconds: float) -> float:
    """How often a second so many workers do something, each again and again."""

    async def run(worker: int) -> int:
        done = 0
        while time.perf_counter() < end:
            await work(worker, done)
            done += 1
        return done

    end = time.perf_counter() + seconds
    return sum(await asyncio.gather(*map(run, range(workers)))) / seconds


async def _puts(store: Store, writers: int, seconds: float) -> float:
    async def put(writer: int, number: int) -> None:
        await store.write(Put(f"/registry/pods/default/pod-{writer}-{number % 100}", _VALUE))

    return await _rate(put, writers, seconds)


async def _swaps(store: Store, writers: int, seconds: float) -> float:
    revisions: dict[int, int] = {}

    async def swap(writer: int, number: int) -> None:  # noqa: ARG001 - what `_rate` calls
        key = f"/registry/leases/default/lease-{writers}-{writer}"
        outcome = await store.write(Put(key, _VALUE, expect=revisions.get(writer, 0)))
        assert isinstance(outcome, Event)
        revisions[writer] = outcome.revision

    return await _rate(swap, writers, seconds)


async def _groups(store: Store, size: int, seconds: float) -> float:
    async def write(writer: int, number: int) -> None:  # noqa: ARG001 - what `_rate` calls
        await store.write_all([Put(f"/registry/pods/default/group-{i}", _VALUE) for i in range(size)])

    return size * await _rate(write, 1, seconds)


async def _gets(store: Store, readers: int, seconds: float) -> float:
    async def get(reader: int, number: int) -> None:
        await store.get("/registry/pods/default/group-1")
        if reader == 0 and number % 100 == 0:
            await asyncio.sleep(0)  # a store on this machine never waits, so the others would never begin

    return await _rate(get, readers, seconds)


async def _lists(store: Store) -> list[Row]:
    for start in range(0, _OBJECTS, 500):
        await store.write_all([Put(f"/registry/nodes/node-{i}", _VALUE) for i in range(start, start + 500)])
    times: list[float] = []
    while len(times) < 9:
        began = time.perf_counter()
        page = await store.range("/registry/nodes/")
        times.append((time.perf_counter() - began) * 1e3)
        assert len(page.items) == _OBJECTS
    revision = await store.revision()
    await store.write_all([Put(f"/registry/nodes/node-{i}", _VALUE) for i in range(0, _OBJECTS, 5)])
    began, pages, after_key = time.perf_counter(), 0, ""
    while True:
        page = await store.range("/registry/nodes/", after_key=after_key, limit=500, revision=revision)
        pages += 1
        if not page.remaining:
            break
        after_key = page.items[-1].key
    old = (time.perf_counter() - began) * 1e3 / pages
    return [("list of 5,000", statistics.median(times), "ms"), ("page of 500, 1,000 revisions ago", old, "ms")]


async def _latency(store: Store, other: Store, who: str) -> list[Row]:
    """From the beginning of a write until a watcher has it."""
    times = []
    with other.watch("/registry/latency/", after=await other.revision()) as watcher:
        for number in range(200):
            began = time.perf_counter()
            writing = asyncio.ensure_future(store.write(Put("/registry/latency/key", b"%d" % number)))
            while not (await watcher.next()).events:
                pass
            times.append((time.perf_counter() - began) * 1e3)
            await writing
            await asyncio.sleep(0.002)
    times.sort()
    label = f"until {who} has a write"
    return [(f"{label}, median", times[100], "ms"), (f"{label}, 99 %", times[197], "ms")]


async def _fan_out(store: Store, count: int) -> list[Row]:
    rows: list[Row] = []
    revision = await store.revision()
    watchers = [store.watch("/registry/nodes/", after=revision) for _ in range(count)]
    for changes in (1, 100):
        tasks = [asyncio.ensure_future(_read(watcher, changes)) for watcher in watchers]
        await asyncio.sleep(0)
        began = time.perf_counter()
        await store.write_all([Put(f"/registry/nodes/node-{i}", _VALUE) for i in range(changes)])
        await asyncio.gather(*tasks)
        rows.append((f"{changes} changes to {count} watchers", (time.perf_counter() - began) * 1e3, "ms"))
    for watcher in watchers:
        watcher.close()
    return rows


async def _read(watcher: Watcher, count: int) -> None:
    while count > 0:
        count -= len((await watcher.next()).events)


async def _clients(etcd: EtcdServers, seconds: float) -> list[Row]:
    """Compare the store with bare puts (no precondition, watch or memory), in turns because the load varies."""
    import aiohttp  # noqa: PLC0415 - only this needs it
    import grpc  # noqa: PLC0415 - only this needs it

    from mooring.store.etcd.messages import message  # noqa: PLC0415 - brings gRPC in

    url = etcd.members[0].client_url
    async with (
        grpc.aio.insecure_channel(url.removeprefix("http://")) as channel,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        _closing(await EtcdStore.open(etcd.config())) as store,
    ):
        put = channel.unary_unary(
            "/etcdserverpb.KV/Put",
            request_serializer=message("PutRequest").SerializeToString,
            response_deserializer=message("PutResponse").FromString,
        )
        value = base64.b64encode(_VALUE).decode()

        async def by_store(writer: int, number: int) -> None:
            await store.write(Put(f"/registry/raw/{writer}-{number % 100}", _VALUE))

        async def by_grpc(writer: int, number: int) -> None:
            key = f"/raw/{writer}-{number % 100}".encode()
            await put(message("PutRequest")(key=key, value=_VALUE), timeout=10)

        async def by_json(writer: int, number: int) -> None:
            key = base64.b64encode(f"/raw/{writer}-{number % 100}".encode()).decode()
            async with session.post(f"{url}/v3/kv/put", json={"key": key, "value": value}) as answer:
                await answer.read()

        ways = {"the store": by_store, "gRPC alone": by_grpc, "the JSON gateway alone": by_json}
        return [row for writers in _WRITERS for row in await _in_turns(ways, writers, seconds)]


async def _in_turns(ways: Mapping[str, Work], writers: int, seconds: float) -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            before = time.process_time()
            rates[name].append(await _rate(way, writers, seconds))
            costs[name].append((time.process_time() - before) / (rates[name][-1] * seconds) * 1e6)
    rows = [(f"{name}, {_writers(writers)}", statistics.median(rates[name]), "/s") for name in ways]
    rows += [(f"{name}, {_writers(writers)}: our processor", statistics.median(costs[name]), "µs") for name in ways]
    return rows


def _writers(count: int) -> str:
    return "1 writer" if count == 1 else f"{count} writers"


def _print(columns: dict[str, list[Row]]) -> None:
    names = list(dict.fromkeys(what for rows in columns.values() for what, *_ in rows))
    width = max(map(len, names))
    print(" " * width, *(f"{name:>16}" for name in columns))
    found = {column: {what: (value, unit) for what, value, unit in rows} for column, rows in columns.items()}
    for what in names:
        cells = [_cell(*found[column][what]) if what in found[column] else "-" for column in columns]
        print(f"{what:{width}}", *(f"{cell:>16}" for cell in cells))


def _cell(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if unit == "/s" else f"{value:,.2f} {unit}"


if __name__ == "__main__":
    main()
