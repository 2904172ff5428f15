"""Track the pods of each node and the objects they refer to, for the Node authorizer.

Tracking starts with the first request of a node. From then on a watch of the store collects changes, which are applied
when the next node makes a request: the state is never older than the request, and servers without nodes pay nothing.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress

import msgspec

from mooring.apiserver.access.nodes import references
from mooring.apiserver.access.nodes.references import Reference
from mooring.apiserver.output import json_bytes
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.base.bounded_cache import BoundedCache
from mooring.store.errors import RevisionError
from mooring.store.kv import KeyValue, Store, Watcher

_PODS = f"{ROOT}pods/"
_AT_ONCE = 500
"""The number of pods that are processed before other tasks of the event loop run."""
_REMEMBERED = 10_000
"""The maximum number of deleted pods whose node is remembered."""


class NodePods:
    """An index of pods by node, and of the objects they refer to, kept current from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watcher: Watcher | None = None
        self._nodes: dict[str, dict[str, frozenset[Reference]]] = defaultdict(dict)
        self._node_of: dict[str, str] = {}
        self._last_node_of: BoundedCache[str, str] = BoundedCache(_REMEMBERED)
        self._lock = asyncio.Lock()

    def is_on(self, node: str, namespace: str, name: str) -> bool:
        return self._node_of.get(f"{_PODS}{namespace}/{name}") == node

    def was_on(self, node: str, namespace: str, name: str) -> bool:
        """Return whether the last pod of a name was on a node and is deleted."""
        return self._last_node_of.get(f"{_PODS}{namespace}/{name}") == node

    def has_reference(self, node: str, reference: Reference) -> bool:
        """Return whether any pod on a node refers to an object."""
        return any(reference in held for held in self._nodes.get(node, {}).values())

    async def catch_up(self) -> None:
        """Apply the pod changes since the last call; the first call reads all pods."""
        async with self._lock:
            await self._store.revision()  # where several servers share a store, others may have written
            if self._watcher:
                with suppress(RevisionError):
                    await self._apply_events(self._watcher)
                    return
                self._watcher.close()  # its revision was compacted
            await self._load_pods()

    async def _load_pods(self) -> None:
        self._nodes.clear()
        self._node_of.clear()
        self._last_node_of = BoundedCache(_REMEMBERED)
        page = await self._store.range(_PODS)
        self._watcher = self._store.watch(_PODS, after=page.revision)
        for number, kv in enumerate(page.items):
            self._add_pod(kv)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        await self._apply_events(self._watcher)

    async def _apply_events(self, watcher: Watcher) -> None:
        while events := (await watcher.next(timeout=0, limit=_AT_ONCE)).events:
            for event in events:
                if event.current:
                    self._add_pod(event.current)
                else:
                    if node := self._node_of.get(event.key):
                        self._last_node_of.put(event.key, node)
                    self._remove_pod(event.key)

    def _add_pod(self, kv: KeyValue) -> None:
        self._remove_pod(kv.key)
        if kv.key in self._last_node_of:
            self._last_node_of.put(kv.key, "")
        if json_bytes.has_string(kv.value, "nodeName"):
            pod = msgspec.json.decode(kv.value)
            node = pod["spec"].get("nodeName", "")
            if node:
                self._nodes[node][kv.key] = references.references_of_pod(pod)
                self._node_of[kv.key] = node

    def _remove_pod(self, key: str) -> None:
        node = self._node_of.pop(key, "")
        if node:
            del self._nodes[node][key]
            if not self._nodes[node]:
                del self._nodes[node]
