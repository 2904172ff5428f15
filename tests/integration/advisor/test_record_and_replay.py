"""A trace that was recorded from a live Mooring under load gives the same placements when it is replayed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.opening import Trace
from mooring.advisor.simulate.traces.recording import Pseudonyms, Recorder, TraceFile, record_cluster
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.snapshot import Snapshot
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("T.7")


@asynccontextmanager
async def recorded(cluster: Rig, trace: TraceFile, pseudonyms: Pseudonyms | None = None) -> AsyncIterator[Recorder]:
    """Record from the objects that exist now until all objects that exist then are recorded."""
    recorder, stop = Recorder(trace.write, trace.now, pseudonyms), asyncio.Event()
    recorder.restore_state(trace.earlier)
    recording = asyncio.ensure_future(record_cluster(cluster.admin, recorder, stop))

    def knows_all() -> bool:
        return recording.done() or (
            all(recorder._tracker.pods.values()) and len(recorder._tracker.pods) == len(cluster.pods)
        )

    with closing(trace):
        await cluster.until(knows_all)
        yield recorder
        await cluster.until(knows_all)
        stop.set()
        await recording


async def add_pods(cluster: Rig, start: int, number: int, workers: int = 4) -> None:
    """Several clients create pods of four shapes at the same time."""

    async def some(worker: int) -> None:
        for place in range(start + worker, start + number, workers):
            await cluster.add_pod(f"p{place}", cpu=("100m", "250m", "500m", "1")[place % 4])

    await asyncio.gather(*(some(worker) for worker in range(workers)))
    names = [f"p{place}" for place in range(start, start + number)]
    await cluster.until(lambda: all(cluster.node_of(name) for name in names))


def replayed(path: Path) -> Replay:
    replay = Replay(Snapshot("nothing", []), Settings(), ReplayOptions(keeps_placements=True))
    replay.run(Trace((path,)).events())
    return replay


def test_a_recording_under_load_is_replayed_to_the_same_placements(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"

    async def live() -> dict[str, str]:
        async with rig(tmp_path / "data") as cluster:
            async with recorded(cluster, TraceFile(path)):
                scheduler = cluster.start()
                for number in range(12):
                    await cluster.add_node(f"n{number}", cpu="16")
                await add_pods(cluster, 0, 160)
                for number in range(0, 60, 2):
                    await cluster.remove_pod(f"p{number}")
                await cluster.until(lambda: len(cluster.pods) == len(list(scheduler._pods.objects())) == 130)
                await add_pods(cluster, 160, 60)
            return {f"default/{name}": found.spec.node_name for name, found in cluster.pods.items()}

    placements = asyncio.run(live())
    replay = replayed(path)
    assert len(replay.recorded) == 220
    assert {name: replay.placements[name] for name in placements} == placements
    assert {name for name, node in replay.recorded.items() if replay.placements[name] != node} == set()


def test_a_recording_goes_on_after_it_was_stopped_and_can_be_anonymous(tmp_path: Path) -> None:
    path, secret = tmp_path / "trace.csv", Pseudonyms(b"secret")
    times = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for second in range(1000))

    async def part(cluster: Rig, *, adds: int, removes: str = "") -> None:
        async with recorded(cluster, TraceFile(path, lambda: next(times)), secret):
            if removes:
                await cluster.remove_pod(removes)
            await add_pods(cluster, adds, 2)

    async def live() -> None:
        async with rig(tmp_path / "data") as cluster:
            cluster.start()
            await cluster.add_node("very-secret-node", labels={"team": "private"})
            await part(cluster, adds=0)
            await cluster.remove_pod("p0")  # while there is no recording
            with path.open("a") as stream:
                stream.write("99,add,Po")  # the recording was killed
            for other in (None, Pseudonyms(b"another secret")):
                with pytest.raises(TraceError, match="none of its nodes is there"):
                    async with recorded(cluster, TraceFile(path, lambda: next(times)), other):
                        pass
            await part(cluster, adds=2, removes="p1")

    asyncio.run(live())
    text = path.read_text()
    assert text.count(",begin,Trace,") == 1
    assert "very-secret-node" not in text
    assert "private" not in text
    assert "p1" not in text.replace("app:1", "")
    replay = replayed(path)
    assert replay.tally.arrived == 4
    assert replay.world.running == 2
    assert not replay.tally.odd
