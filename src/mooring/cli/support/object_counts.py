"""Count nodes and pods for the status line of `mooring up` by watching the store.

Of several changes of a pod within 0.3 s only the last is decoded, and only as far as its phase and node.
"""

import asyncio
import re
from collections import Counter
from functools import lru_cache

import msgspec

from mooring.api.scheme import Scheme
from mooring.apiserver.registry.stored import Stored
from mooring.base import logs
from mooring.store.errors import Closed, RevisionError, StoreError
from mooring.store.kv import KeyValue, Store

_RETRY_SECONDS = 1.0
_REST_SECONDS, _MAX_EVENTS = 0.3, 10_000
"""The interval between updates, and the most events per update."""
log = logs.get(__name__)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    status: _Status


_STATUS = b',"status":{'
_PHASE = re.compile(rb',"status":\{(?:"observedGeneration":[0-9]+,)?"phase":"([A-Za-z]+)"')
_decode = msgspec.json.Decoder(_Pod).decode


class ObjectCounts:
    """The number of nodes and pods."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._pod_prefix, self._node_prefix = (_prefix(scheme, kind) for kind in ("Pod", "Node"))
        self._pods: dict[str, tuple[str, bool]] = {}
        """Phase, and whether it has a node, by key."""
        self.phases: Counter[str] = Counter()
        self.bound = 0
        """Pods that were given a node since the counting began."""

    async def nodes(self) -> int:
        return await self._store.count(self._node_prefix)

    async def run(self) -> None:
        """Count until the store is closed."""
        while True:
            try:
                page = await self._store.range(self._pod_prefix)
                self._pods = {kv.key: _glimpse(kv) for kv in page.items}
                self.phases = Counter(phase for phase, _ in self._pods.values())
                await self._follow(page.revision)
            except RevisionError:
                continue
            except Closed:
                return
            except StoreError as error:
                log.debug("pods cannot be counted for a while: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, revision: int) -> None:
        with self._store.watch(self._pod_prefix, after=revision) as watcher:
            while True:
                latest = {event.key: event.current for event in (await watcher.next(limit=_MAX_EVENTS)).events}
                for key, current in latest.items():
                    self._take(key, current)
                await asyncio.sleep(_REST_SECONDS)  # so that of several changes of a pod only the last is looked at

    def _take(self, key: str, current: KeyValue | None) -> None:
        phase, had_node = self._pods.pop(key, ("", False))
        if phase:
            self.phases[phase] -= 1
        if current is None:
            return
        phase, has_node = self._pods[key] = _glimpse(current, had_node=had_node)
        self.phases[phase] += 1
        self.bound += has_node and not had_node


def _prefix(scheme: Scheme, name: str) -> str:
    kind = scheme.kind("v1", name)
    assert kind is not None  # noqa: S101 - every version serves the core kinds
    return Stored(scheme, kind).prefix


def _glimpse(kv: KeyValue, *, had_node: bool = False) -> tuple[str, bool]:
    if had_node and (found := _PHASE.match(kv.value, kv.value.rfind(_STATUS))):  # no pod loses its node
        return _intern(found[1].decode(), True)
    pod = _decode(kv.value)
    return _intern(pod.status.phase or "Pending", bool(pod.spec.node_name))


@lru_cache(maxsize=100)
def _intern(phase: str, has_node: bool) -> tuple[str, bool]:
    return phase, has_node
