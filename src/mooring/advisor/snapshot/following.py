"""Snapshots of a live cluster, one after each change: for commands that watch."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mooring.advisor.snapshot.from_server import NOT_READ
from mooring.advisor.snapshot.objects import Snapshot, SnapshotError, scheme
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.client import Client, ClientError, Informer, Informers


async def following(client: Client, origin: str, pause: float) -> AsyncIterator[Snapshot]:
    """The cluster now, and again whenever it has changed; changes within `pause` seconds are one."""
    try:
        kinds = await client.served(_wanted())
    except (ClientError, StatusError) as error:
        raise SnapshotError(f"cannot read {origin}: {error}") from error
    changed = asyncio.Event()
    informers = Informers(client)
    followed: list[Informer[Any]] = []
    for cls in sorted(kinds, key=lambda each: each.__name__):
        informer: Informer[Any] = informers.of(cls)
        informer.add_batch_handler(lambda _changes: changed.set())
        followed.append(informer)
    async with informers:
        await informers.wait_for_sync()
        while True:
            changed.clear()
            yield Snapshot(origin, (obj for informer in followed for obj in informer.objects()))
            await changed.wait()
            await asyncio.sleep(pause)


def _wanted() -> Sequence[type[Resource]]:
    return [
        kind.type
        for kind in scheme().known
        if kind.plural and {"list", "watch"} <= set(kind.verbs) and kind.plural not in NOT_READ
    ]
