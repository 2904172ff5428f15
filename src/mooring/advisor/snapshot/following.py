"""Yield snapshots of a live cluster after each change, for watching. The dashboard uses `find_readable_kinds`."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from mooring.advisor.snapshot.events import field_selector_of
from mooring.advisor.snapshot.objects import Snapshot, SnapshotError, format_not_allowed
from mooring.advisor.snapshot.server_info import read_server
from mooring.api.core_v1 import Event
from mooring.api.errors import Forbidden, StatusError
from mooring.api.meta_v1 import Resource
from mooring.client import Client, ClientError, Informer, Informers


async def find_readable_kinds(
    client: Client, wanted: Iterable[type[Resource]], namespace: str = ""
) -> tuple[dict[type[Resource], str], dict[str, str]]:
    """Return which kinds the user may watch and where (in all namespaces, or in one), and why not the others.

    A watch that is not permitted would never deliver a snapshot.
    """
    found: dict[type[Resource], str] = {}
    missing: dict[str, str] = {}
    for cls in sorted(await client.served(wanted), key=lambda each: each.__name__):
        kind = client.kind(cls)
        try:
            await client.page(cls, limit=1)
            found[cls] = ""
        except Forbidden as error:
            if cls is not Event:  # others answer the question too
                missing[kind.plural] = format_not_allowed(error)
            if kind.namespaced and namespace:
                with suppress(Forbidden):
                    await client.page(cls, namespace, limit=1)
                    found[cls] = namespace
                    if cls is not Event:
                        missing[kind.plural] = format_not_allowed(error, namespace)
    return found, missing


async def follow_snapshots(
    client: Client, origin: str, wanted: Iterable[type[Resource]], pause: float, namespace: str = ""
) -> AsyncIterator[Snapshot]:
    """Watch some kinds of a live cluster; yield a snapshot now and after changes, at most one in `pause` seconds."""
    try:
        kinds, missing = await find_readable_kinds(client, wanted, namespace)
        server = await read_server(client)
    except (ClientError, StatusError) as error:
        raise SnapshotError(f"cannot read {origin}: {error}") from error
    changed = asyncio.Event()
    informers = Informers(client)
    followed: list[Informer[Any]] = []
    for cls, where in kinds.items():
        informer: Informer[Any] = informers.of(cls, where, field_selector=field_selector_of(cls))
        informer.add_batch_handler(lambda _changes: changed.set())
        followed.append(informer)
    async with informers:
        await informers.wait_for_sync()
        while True:
            changed.clear()
            objects = (obj for informer in followed for obj in informer.objects())
            yield Snapshot(origin, objects, missing=missing, server=server, taken_at=datetime.now(UTC))
            await changed.wait()
            await asyncio.sleep(pause)
