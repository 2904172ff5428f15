"""Snapshots of a live cluster, one after each change: for commands that watch."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from mooring.advisor.snapshot.objects import NOT_ALLOWED, Snapshot, SnapshotError
from mooring.api.errors import Forbidden, StatusError
from mooring.api.meta_v1 import Resource
from mooring.client import Client, ClientError, Informer, Informers


async def following(
    client: Client, origin: str, wanted: Iterable[type[Resource]], pause: float
) -> AsyncIterator[Snapshot]:
    """Some kinds of a cluster now, and again whenever they have changed; changes within `pause` seconds are one."""
    missing: dict[str, str] = {}
    try:
        kinds = await client.served(wanted)
        for cls in sorted(kinds, key=lambda each: each.__name__):
            try:
                await client.page(cls, limit=1)
            except Forbidden as error:  # to follow it would be to wait for ever
                missing[client.kind(cls).plural] = f"{NOT_ALLOWED}: {error}"
                kinds.discard(cls)
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
            yield Snapshot(origin, (obj for informer in followed for obj in informer.objects()), missing=missing)
            await changed.wait()
            await asyncio.sleep(pause)
