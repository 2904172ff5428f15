"""Copy a `Source` into a `Target` in rounds: everything first, then what has changed meanwhile.

    round 1   source at revision 5000      20,000 keys written
    round 2   source at revision 5170      160 changed keys written, 10 removed keys deleted
    round 3   source at revision 5170      no changes: the target is finished, at revision 5170

A round compares complete snapshots, which needs no history of the source and takes a tenth of a second for 100,000
keys. `mooring store` calls it; `contents` has the interfaces.
"""

import asyncio
from collections.abc import Callable, Collection

import msgspec

from mooring.store.tools.contents import Snapshot, Source, Target

Progress = Callable[[str, int, int], None]
"""Called with a label, the amount done and the total."""

_BATCH_SIZE = 500
_MAX_ROUNDS = 10
_WAIT_SECONDS = 1.0


class CopyResult(msgspec.Struct, frozen=True):
    """The result of a copy."""

    revision: int
    """The target holds the source's state at this revision."""
    keys: int
    rounds: int
    caught_up: bool
    """Whether the source had no later changes at the last check."""


async def copy(
    source: Source, target: Target, progress: Progress, *, once: bool = False, stop: asyncio.Event | None = None
) -> CopyResult:
    """Fill a target and finish it: after one round, when there are no changes, or, with `stop`, when that is set."""
    written: dict[str, int] = {}
    snapshot = await source.snapshot()
    present = await target.begin(snapshot)
    await _copy_changes(snapshot, target, written, present, progress)
    rounds, caught_up = 1, once
    while not caught_up:
        stopping = stop is not None and stop.is_set()
        if stop is not None and not stopping and not await source.wait_for_change(_WAIT_SECONDS):
            continue
        snapshot = await source.snapshot()
        changes = await _copy_changes(snapshot, target, written, written, progress)
        rounds += 1
        if stop is None:
            caught_up = not changes
            if rounds >= _MAX_ROUNDS:
                break
        elif stopping:
            caught_up = True
    await target.finish(snapshot.revision)
    return CopyResult(snapshot.revision, len(written), rounds, caught_up)


async def _copy_changes(
    snapshot: Snapshot, target: Target, written: dict[str, int], present: Collection[str], progress: Progress
) -> int:
    """Bring the target to a snapshot; return how many keys were written or deleted."""
    items = [kv for kv in snapshot.items if written.get(kv.key) != kv.mod_revision]
    wanted = {kv.key for kv in snapshot.items}
    gone = [key for key in present if key not in wanted]
    total, done = len(items) + len(gone), 0
    progress("keys", done, total)
    for start in range(0, len(gone), _BATCH_SIZE):
        chunk = gone[start : start + _BATCH_SIZE]
        await target.delete(chunk)
        for key in chunk:
            written.pop(key, None)
        done += len(chunk)
        progress("keys", done, total)
    for start in range(0, len(items), _BATCH_SIZE):
        batch = items[start : start + _BATCH_SIZE]
        await target.put(batch)
        written.update((kv.key, kv.mod_revision) for kv in batch)
        done += len(batch)
        progress("keys", done, total)
        await asyncio.sleep(0)  # so that Ctrl-C is handled
    return total
