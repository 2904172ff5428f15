"""Replays that are interrupted and gone on with: the same outcome, however often."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces import own
from mooring.advisor.simulate.traces.checkpoints import Checkpoints
from mooring.advisor.simulate.traces.events import (
    Event,
    NodeArrival,
    NodeDeparture,
    ObjectArrival,
    PodArrival,
    PodBinding,
    PodDeparture,
    TraceError,
)
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.simulate.traces.results import Replayed, build_replay_result
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.api.meta_v1 import Resource
from mooring.cli.main import mooring
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("T.1")
EVERY = 20


def eventful(seed: int) -> list[Event]:
    """Pods of two priorities, more than there is room for; nodes come, fail and get taints."""
    lot = random.Random(seed)
    events: list[Event] = [NodeArrival(0.0, node(f"n{number}", cpu="4")) for number in range(4)]
    for number in range(100):
        at, name = float(number), f"p{number}"
        lasts = lot.choice((None, 5.0, 30.0))
        events.append(PodArrival(at, pod(name, cpu=str(lot.randint(1, 3)), priority=lot.choice((0, 0, 10))), lasts))
        if not number % 9:
            events.append(PodDeparture(at, f"default/p{lot.randint(0, number)}"))
        if not number % 11:
            events.append(PodBinding(at, f"default/{name}", "n1"))
        if not number % 17:
            events.append(NodeDeparture(at, f"n{lot.randrange(4)}", fails=True))
        if not number % 23:
            tainted = node(f"n{lot.randrange(4)}", cpu="4", taints=["slow:NoExecute"])
            events.append(NodeArrival(at + 0.5, tainted if number % 2 else node(f"m{number}", cpu="4")))
    return sorted(events, key=lambda event: event.at)


class KilledError(Exception):
    """Stand for the end of the replaying process."""


def until(events: Sequence[Event], number: int) -> Iterator[Event]:
    yield from islice(events, number)
    raise KilledError


def replay_of(path: Path, objects: Sequence[Resource] = (), **options: Any) -> Replay:
    wanted = ReplayOptions(prices=Prices("price"), keeps_placements=True, **options)
    return Replay(Snapshot("test", objects), Settings(), wanted, None, Checkpoints(path, "d", EVERY))


def outcome(replay: Replay) -> Replayed:
    return build_replay_result(replay, "c", "w", "s")


@pytest.mark.parametrize("gives_up", [False, True], ids=["pods wait", "pods give up"])
@pytest.mark.parametrize("seed", range(3))
def test_outcome_is_the_same_however_often_it_is_interrupted(seed: int, gives_up: bool, tmp_path: Path) -> None:
    events, before = eventful(seed), [node("n9", cpu="2", labels={"price": "3"})]
    whole = replay_of(tmp_path / "whole", before, seed=seed, gives_up=gives_up)
    whole.run(iter(events))
    assert whole.is_complete
    assert not (tmp_path / "whole").exists()  # there is nothing to continue
    for place in (5, 25, 26, 77, 110):
        with pytest.raises(KilledError):
            replay_of(tmp_path / "cut", before, seed=seed, gives_up=gives_up).run(until(events, place))
    assert (tmp_path / "cut").exists()
    last = replay_of(tmp_path / "cut", before, seed=seed, gives_up=gives_up)
    last.run(iter(events))
    assert outcome(last) == outcome(whole)
    assert last.tally.odd == whole.tally.odd
    assert outcome(whole).numbers["evicted"] > 0


def test_a_resumed_replay_does_not_repeat_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = eventful(1)
    with pytest.raises(KilledError):
        replay_of(tmp_path / "cut").run(until(events, 105))
    created: list[str] = []
    monkeypatch.setattr(World, "create", lambda _world, pod, _owner: created.append(pod.metadata.name))
    with pytest.raises(KeyError):  # a world that makes no pods does not come far
        replay_of(tmp_path / "cut").run(iter(events))
    assert created == [next(event.pod.metadata.name for event in events[100:] if isinstance(event, PodArrival))]


CANNOT: tuple[tuple[str, list[Event], tuple[Resource, ...], str], ...] = (
    ("objects", [ObjectArrival(0.0, node("x"))], (), "the trace has objects beside pods and nodes"),
    (
        "volumes",
        [PodArrival(0.0, pod("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}))],
        (),
        "the pod default/p has claims for volumes or devices",
    ),
    ("pods", [], (pod("old", on="n1"),), "the cluster has pods of its own"),
)


@pytest.mark.parametrize(("events", "objects", "expected"), [case[1:] for case in CANNOT], ids=[c[0] for c in CANNOT])
def test_what_cannot_be_resumed_is_reported_at_once(
    events: list[Event], objects: tuple[Resource, ...], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=f"--checkpoint: this replay cannot be resumed, .*{expected}"):
        replay_of(tmp_path / "c", objects).run(iter(events))


def written(tmp_path: Path, pods: int = 100) -> Path:
    path = tmp_path / "trace.csv"
    with path.open("w") as stream:
        own.TraceWriter(stream).write(eventful(2)[:pods])
    return path


def words(trace: Path, checkpoint: Path, result: Path) -> list[str]:
    options = ["--checkpoint-every", str(EVERY), "--checkpoint", str(checkpoint), "--measures", str(result)]
    return ["simulate", "--trace", str(trace), "--keep-placements", *options]


WRONG = (
    ("cut o", "not a checkpoint"),
    ('{"digest": "other"}', "not a checkpoint"),
    (None, "a checkpoint of another replay, or of changed files"),
)


@pytest.mark.req("T.8")
def test_a_checkpoint_that_cannot_be_written_is_reported_before_the_replay(tmp_path: Path) -> None:
    reported = CliRunner().invoke(mooring, words(written(tmp_path), tmp_path / "none" / "c.json", tmp_path / "r.json"))
    assert (reported.exit_code, "there is no folder" in reported.output) == (1, True)


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=["cut off", "of another form", "of another seed"])
def test_a_checkpoint_of_something_else_is_reported(text: str | None, expected: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.json"
    if text is None:
        with pytest.raises(KilledError):
            replay_of(checkpoint).run(until(eventful(2), 50))
    else:
        checkpoint.write_text(text)
    reported = CliRunner().invoke(mooring, words(written(tmp_path), checkpoint, tmp_path / "r.json"))
    assert reported.exit_code == 1
    assert expected in reported.output


KILLED = """
import os, signal, sys
from mooring.advisor.simulate.traces.checkpoints import Checkpoints
from mooring.cli.main import mooring

write, standings = Checkpoints.write, []

def killed(self, standing):
    write(self, standing)
    standings.append(standing)
    if len(standings) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoints.write = killed
mooring(sys.argv[1:])
"""


def test_a_command_that_was_killed_goes_on(tmp_path: Path) -> None:
    trace, checkpoint = written(tmp_path), tmp_path / "checkpoint.json"
    results = [tmp_path / "whole.json", tmp_path / "resumed.json"]
    assert CliRunner().invoke(mooring, words(trace, tmp_path / "other.json", results[0])).exit_code == 0
    killed = subprocess.run([sys.executable, "-c", KILLED, *words(trace, checkpoint, results[1])], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not results[1].exists()
    reported = CliRunner().invoke(mooring, words(trace, checkpoint, results[1]))
    assert reported.exit_code == 0, reported.output
    assert not checkpoint.exists()
    assert msgspec.json.decode(results[1].read_bytes()) == msgspec.json.decode(results[0].read_bytes())
