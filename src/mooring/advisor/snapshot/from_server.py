"""Read a snapshot of a live cluster: Mooring, or any Kubernetes that a kubeconfig names.

Every kind that advice uses is listed page by page, in the newest version that both the server and Mooring have. Kinds
that the server does not serve, or that the user may not read, are noted in `missing`; only a server that does not
respond is an error. If the user may not list a kind in all namespaces, one namespace is tried. Nothing is written.
Secrets and ConfigMaps are never read; of Events only those that ``events.py`` selects, and only if asked for.
"""

import asyncio
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

import msgspec

from mooring.advisor.snapshot import objects
from mooring.advisor.snapshot.events import field_selector_of
from mooring.advisor.snapshot.server_info import read_server
from mooring.api import codec, errors
from mooring.api.core_v1 import Event
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import APIResourceList, Resource
from mooring.client import Client, ClientError
from mooring.client.wire import path_prefix

PAGE_SIZE = 500
_AT_ONCE = 4
NOT_READ = frozenset({"secrets", "configmaps", "events", "leases", "endpoints", "endpointslices", "bindings"})
"""Kinds that are read only if they are asked for: they are private, or have many objects."""


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


async def live(
    client: Client,
    origin: str = "the cluster",
    *,
    kinds: Collection[type[Resource]] = (),
    raw: bool = True,
    namespace: str = "",
) -> objects.Snapshot:
    """Read the current state of a cluster, or only some `kinds`.

    Without `raw`, the original JSON of objects is dropped.
    If the user may not list all namespaces, `namespace` is tried.
    """
    reading = _ClusterReader(client, namespace, keeps_text=raw)
    try:
        await reading.discover(read_families(kinds))
        await reading.list_all()
        server = await read_server(client)
    except (ClientError, errors.StatusError) as error:
        raise objects.SnapshotError(f"cannot read {origin}: {error}") from error
    return objects.Snapshot(
        origin,
        (obj for found in reading.found.values() for obj in found),
        [each for found in reading.texts.values() for each in found] if raw else None,
        missing=reading.missing,
        notes=reading.notes,
        server=server,
        taken_at=datetime.now(UTC),
    )


def read_families(kinds: Collection[type[Resource]]) -> list[tuple[Kind, ...]]:
    """Return the kinds to list, each as all of its API versions, the newest first."""
    families = dict.fromkeys(
        objects.full_scheme().family(kind)
        for kind in objects.full_scheme().known
        if kind.plural
        and "list" in kind.verbs
        and not kind.is_internal
        and (kind.plural not in NOT_READ or kind.type in kinds)
    )
    return [family for family in families if not kinds or any(kind.type in kinds for kind in family)]


class _ClusterReader:
    def __init__(self, client: Client, namespace: str, *, keeps_text: bool) -> None:
        self.found: dict[Kind, list[Resource]] = {}
        self.texts: dict[Kind, list[objects.RawObject]] = {}
        self.missing: dict[str, str] = {}
        self.notes: list[objects.Note] = []
        self._client = client
        self._namespace = namespace
        self._keeps_text = keeps_text

    async def discover(self, families: Iterable[tuple[Kind, ...]]) -> None:
        """Choose the newest version of each kind that the server lists; record the other kinds as missing."""
        families = list(families)
        prefixes = sorted({path_prefix(kind) for family in families for kind in family})
        answers = dict(zip(prefixes, await asyncio.gather(*map(self._listable_resources, prefixes)), strict=True))
        for family in families:
            chosen = next((kind for kind in family if kind.plural in answers[path_prefix(kind)]), None)
            if chosen is None:
                self.missing[family[0].plural] = "the server does not serve them"
            else:
                self.found[chosen] = []

    async def list_all(self) -> None:
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(kind: Kind) -> None:
            async with room:
                await self._list_kind(kind)

        await asyncio.gather(*map(one, self.found))

    async def _listable_resources(self, prefix: str) -> set[str]:
        try:
            answer = await self._client.raw("GET", prefix)
        except (errors.NotFound, errors.Forbidden):
            return set()
        found = msgspec.json.decode(answer.body, type=APIResourceList).resources
        return {each.name for each in found if "list" in each.verbs}

    async def _list_kind(self, kind: Kind) -> None:
        try:
            items = await self._list_permitted(kind)
        except (errors.NotFound, errors.MethodNotAllowed):
            self.missing[kind.plural] = "the server does not list them"
            return
        for item in items:
            self._add_object(kind, bytes(item))

    async def _list_permitted(self, kind: Kind) -> list[msgspec.Raw]:
        try:
            return await self._list_pages(kind, "")
        except errors.Forbidden as error:
            refused = error
        if kind.type is not Event:  # others answer the question too
            self.missing[kind.plural] = objects.format_not_allowed(refused)
        if not kind.namespaced or not self._namespace:
            return []
        try:
            items = await self._list_pages(kind, self._namespace)
        except errors.Forbidden:
            return []
        if kind.type is not Event:
            self.missing[kind.plural] = objects.format_not_allowed(refused, self._namespace)
        return items

    async def _list_pages(self, kind: Kind, namespace: str, *, in_pages: bool = True) -> list[msgspec.Raw]:
        """List a kind in pages, or all at once, also when the continue token has expired."""
        below = f"namespaces/{namespace}/" if namespace else ""
        path, token = f"{path_prefix(kind)}/{below}{kind.plural}", ""
        items: list[msgspec.Raw] = []
        while True:
            query = [("limit", str(PAGE_SIZE))] if in_pages else []
            query += [("continue", token)] if token else []
            query += [("fieldSelector", selector)] if (selector := field_selector_of(kind.type)) else []
            try:
                answer = await self._client.raw("GET", path, query=query)
            except errors.Expired:
                return await self._list_pages(kind, namespace, in_pages=False)
            page = msgspec.json.decode(answer.body, type=_Page)
            items += page.items or []
            token = page.metadata.continue_
            if not token:
                return items

    def _add_object(self, kind: Kind, text: bytes) -> None:
        try:
            obj = codec.decode_own(text, kind.type)
        except codec.DecodeError as error:
            why = f"one of them cannot be read: {error}"
            self.notes.append(objects.Note(f"{path_prefix(kind)}/{kind.plural}", why, is_unread=True))
            return
        obj.kind, obj.api_version = kind.kind, kind.api_version
        obj.metadata.managed_fields = []
        self.found[kind].append(objects.to_newest(obj))
        if self._keeps_text:
            metadata = obj.metadata
            entry = objects.RawObject(kind.api_version, kind.kind, metadata.namespace, metadata.name, _body=text)
            self.texts.setdefault(kind, []).append(entry)
