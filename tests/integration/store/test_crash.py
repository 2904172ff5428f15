"""`kill -9` at random moments, again and again on the same data directory: nothing acknowledged is ever lost."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.store.errors import InUse
from mooring.store.kv import KeyValue
from mooring.store.sqlite import SqliteStore

WRITERS = 64
ROUNDS = 50 if os.environ.get("MOORING_FULL") else 5
PROGRAM = Path(__file__).with_name("crash_writer.py")


class Ledger:
    """Hold all that the killed processes ever reported."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[str, str]] = {}
        self.seen: list[tuple[int, str, str]] = []

    @property
    def last_seen(self) -> int:
        return self.seen[-1][0] if self.seen else 0

    def read(self, output: str) -> None:
        for line in output.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # cut off by the kill
            match line.split():
                case ["open", revision]:
                    assert int(revision) >= max(self.acknowledged, default=0), "the counter went back"
                    assert int(revision) >= self.last_seen, "a watcher was told of a write that is gone"
                case ["ack", key, revision, value]:
                    assert int(revision) not in self.acknowledged, "a revision was given twice"
                    self.acknowledged[int(revision)] = (key, value)
                case ["seen", revision, key, value]:
                    self.seen.append((int(revision), key, value))
                case other:
                    pytest.fail(f"the writer said {other}")


def run_and_kill(directory: Path, start: int, after: int, seconds: float, opening: bool) -> str:
    """Let the writers write for some time, then end them without warning; what they said until then."""
    said = directory / "said"
    command = [sys.executable, str(PROGRAM), str(directory), str(WRITERS), str(start), str(after)]
    with said.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as child:
        while not opening and not said.stat().st_size and child.poll() is None:
            time.sleep(0.005)
        time.sleep(seconds)
        child.kill()
        _, errors = child.communicate()
    assert not errors, errors
    return said.read_text()


async def contents(directory: Path, after: int) -> tuple[dict[str, str], str]:
    """Return the keys that are there, and the rest of the watch in the words of `crash_writer`."""
    store = await SqliteStore.open(directory)
    present = {kv.key: value_of(kv) for kv in (await store.range("/r/")).items}
    with store.watch("/r/", after=after) as watcher:
        events = (await watcher.next(timeout=0, limit=1_000_000)).events
    await store.close()
    return present, "".join(f"seen {event.revision} {event.key} {value_of(event.current)}\n" for event in events)


def value_of(kv: KeyValue | None) -> str:
    return kv.value.rstrip(b"\0").decode() if kv else "-"


@pytest.mark.req("S.2")
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    ledger = Ledger()
    chance = random.Random(5)
    for turn in range(ROUNDS):
        opening = turn % 5 == 3  # now and then in the middle of opening
        ledger.read(run_and_kill(tmp_path, turn * 1_000_000, ledger.last_seen, chance.uniform(0.02, 0.3), opening))
    present, rest = asyncio.run(contents(tmp_path, ledger.last_seen))
    ledger.read(rest)

    # The watcher, resumed after every crash, received each revision once and in order.
    assert [revision for revision, _, _ in ledger.seen] == list(range(1, ledger.last_seen + 1))
    # Each write that was acknowledged is the one that was done at its revision.
    reported = {revision: (key, value) for revision, key, value in ledger.seen}
    assert {revision: reported.get(revision) for revision in ledger.acknowledged} == ledger.acknowledged
    # And all that was done is there.
    done = {key: value for _, key, value in ledger.seen}
    assert present == {key: value for key, value in done.items() if value != "-"}
    assert len(ledger.acknowledged) > 100 * ROUNDS


@pytest.mark.req("S.2")
def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = [sys.executable, str(PROGRAM), str(tmp_path), "1", "0", "0"]
    with said.open("w") as output, subprocess.Popen(command, stdout=output) as child:
        while not said.stat().st_size and child.poll() is None:
            time.sleep(0.005)
        with pytest.raises(InUse, match=f"in use by process {child.pid}"):
            asyncio.run(contents(tmp_path, 0))
        child.kill()
        child.wait()
    assert asyncio.run(contents(tmp_path, 0))
