"""Follow CustomResourceDefinitions in the store: set their accepted names and conditions, and serve their kinds.

Every server follows the definitions by itself, so that servers on one etcd serve the same kinds; the first one writes a
status. The response to a write of a definition waits until this server serves the kind (`catch_up`). A server without
definitions has one idle watch. Read next: ``registry/definition_status.py``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mooring.api import times
from mooring.api.apiextensions_v1 import (
    CLEANUP_FINALIZER,
    ESTABLISHED,
    TERMINATING,
    CustomResourceDefinition,
    CustomResourceDefinitionStatus,
    holds,
)
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.definition_status import (
    definitions_losing_names,
    finish_deletion,
    report_progress,
    status_of,
    without_names,
)
from mooring.apiserver.registry.storage.objects import KindsFollower
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError
from mooring.store.kv import Delete, Event, Put, Store

if TYPE_CHECKING:
    from mooring.api.custom_kinds import CustomKinds

log = logs.get(__name__)
_RETRY_SECONDS = 1.0
_MAX_REQUEST_SECONDS = 60.0
_ANY_REVISION = 2**63
"""A revision that means: any stored object may violate the schema, because it has changed."""
_ServingState = tuple[str, int, Any, bool]
"""The fields of a definition on which serving its kind depends: uid, generation, names, terminating or not."""


class Definitions(KindsFollower):
    """Follows the CustomResourceDefinitions of a cluster: writes their status and serves their kinds."""

    def __init__(self, store: Store, scheme: Scheme, resources: Resources, clock: Clock) -> None:
        kind = scheme.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        self.kind: Kind | None = kind if kind is not None and scheme.is_served(kind) else None
        self._store = store
        self._scheme = scheme
        self._resources = resources
        self._clock = clock
        self._served: dict[str, tuple[_ServingState, CustomKinds]] = {}
        self._accepting: dict[str, asyncio.Task[None]] = {}
        self._seen: dict[str, str] = {}
        """The resourceVersion at which each definition was last handled, by name."""
        self._pending_status: dict[str, CustomResourceDefinition] = {}
        """Definitions whose status is being written: their names are taken already."""
        self._cleaning_up: dict[str, asyncio.Task[None]] = {}
        self._late_writes: dict[str, asyncio.Task[None]] = {}
        super().__init__(store, scheme, [self.kind] if self.kind is not None else [])

    async def run(self) -> None:
        """Follow definitions until the store is closed."""
        try:
            await super().run()
        finally:
            for task in (*self._accepting.values(), *self._cleaning_up.values(), *self._late_writes.values()):
                task.cancel()

    async def catch_up(self) -> None:
        """Wait until this server has processed every definition that is in the store now."""
        await super().catch_up()
        if self._accepting:
            await asyncio.gather(*self._accepting.values(), return_exceptions=True)
            await super().catch_up()

    def find_definition(self, name: str) -> CustomResourceDefinition | None:
        """Return the definition with a name, as this server last read it; None if unread or missing."""
        return self._objects("CustomResourceDefinition").get(name)

    # -- what changes

    def _on_changes(self) -> None:
        """Serve and stop serving kinds, and accept names, after definitions have changed."""
        found: Mapping[str, CustomResourceDefinition] = self._objects("CustomResourceDefinition")
        for name in [name for name in self._served if name not in found]:
            self._stop_serving(name)
        self._pending_status = {
            name: promised
            for name, promised in self._pending_status.items()
            if name in found and found[name].metadata.resource_version == promised.metadata.resource_version
        }
        groups: dict[str, list[CustomResourceDefinition]] = {}
        for definition in found.values():
            groups.setdefault(definition.spec.group, []).append(definition)
        news = [each for each in found.values() if self._seen.get(each.metadata.name) != each.metadata.resource_version]
        self._seen = {name: definition.metadata.resource_version for name, definition in found.items()}
        for definition in found.values():
            self._handle_definition(definition, groups[definition.spec.group])
        for definition in news:
            group = groups[definition.spec.group]
            for loser in definitions_losing_names(definition, group):
                self._accept_names(loser, group, from_scratch=True)

    def _handle_definition(self, definition: CustomResourceDefinition, group: list[CustomResourceDefinition]) -> None:
        name = definition.metadata.name
        if definition.metadata.deletion_timestamp is None:
            if definition.spec.names != definition.status.accepted_names or not definition.status.conditions:
                self._accept_names(definition, group)
        elif CLEANUP_FINALIZER in definition.metadata.finalizers:
            _start_task(self._cleaning_up, name, self._delete_objects_and_finish(definition))
        if holds(definition, ESTABLISHED):
            self._serve_kind(definition)
        else:
            self._stop_serving(name)

    def _accept_names(
        self, definition: CustomResourceDefinition, group: list[CustomResourceDefinition], *, from_scratch: bool = False
    ) -> None:
        """Write a definition's status with the names that are free; `from_scratch` forgets accepted ones."""
        name = definition.metadata.name
        others = [self._pending_status.get(other.metadata.name, other) for other in group if other is not definition]
        status = status_of(without_names(definition) if from_scratch else definition, others, self._now())
        if status != definition.status and name not in self._accepting:
            self._pending_status[name] = structs.replace(definition, status=status)
            _start_task(self._accepting, name, self._write_status(definition, status))

    # -- serving

    def _serve_kind(self, definition: CustomResourceDefinition) -> None:
        name = definition.metadata.name
        state = _serving_state(definition)
        before = self._served.get(name)
        if before is not None and before[0] == state:
            return
        from mooring.api.custom_kinds import kinds_of  # noqa: PLC0415 - servers without definitions never need it

        changed = before is not None and before[0][:2] != state[:2]
        kinds = kinds_of(definition, revision=_ANY_REVISION if changed else int(definition.metadata.resource_version))
        self._stop_serving(name)
        self._scheme.register(kinds.versions, kinds.storage)
        self._resources.serve(kinds.versions)
        self._served[name] = (state, kinds)
        if changed:
            if waiting := self._late_writes.pop(name, None):
                waiting.cancel()
            _start_task(self._late_writes, name, self._wait_for_late_writes(kinds))
        log.info("Serving %s", name, extra={"fields": {"generation": definition.metadata.generation}})

    async def _wait_for_late_writes(self, kinds: "CustomKinds") -> None:
        """Wait until no write by the old schema can run; newer objects then need no pruning when read."""
        await self._clock.sleep(_MAX_REQUEST_SECONDS)
        with suppress(StoreError):
            self._resources.context.kinds.expect_current(kinds.versions, await self._store.revision())

    def _stop_serving(self, name: str) -> None:
        served = self._served.pop(name, None)
        if served is not None:
            kinds = served[1]
            self._scheme.unregister(kinds.storage.family)
            self._resources.stop_serving(kinds.versions)

    # -- writing

    async def _write_status(self, definition: CustomResourceDefinition, status: CustomResourceDefinitionStatus) -> None:
        """Write a definition's status; do nothing if the definition was changed meanwhile."""

        def set_status(found: CustomResourceDefinition) -> None:
            found.status = status

        if not await self._write_definition(definition, set_status, same_revision=True):
            self._pending_status.pop(definition.metadata.name, None)

    async def _write_definition(
        self,
        known: CustomResourceDefinition,
        change: Callable[[CustomResourceDefinition], None],
        *,
        same_revision: bool = False,
    ) -> bool:
        """Change a definition in the store; return False if it is another one now, or has another revision.

        A terminating definition without finalizers is removed.
        """
        name = known.metadata.name
        try:
            stored = self._resources.context.kinds.find_by_type(CustomResourceDefinition)
            kv = await self._store.get(stored.key("", name))
            if kv is None or (same_revision and str(kv.mod_revision) != known.metadata.resource_version):
                return False
            found = stored.decode_as(CustomResourceDefinition, kv)
            if found.metadata.uid != known.metadata.uid:
                return False
            change(found)
            if found.metadata.deletion_timestamp is not None and not found.metadata.finalizers:
                return isinstance(await self._store.write(Delete(kv.key, expect=kv.mod_revision)), Event)
            value = stored.encode(found)
            if value == kv.value:
                return True
            return isinstance(await self._store.write(Put(kv.key, value, expect=kv.mod_revision)), Event)
        except StoreError as error:
            log.warning("A definition could not be written", extra={"fields": {"name": name, "why": str(error)}})
            return False

    async def _delete_objects_and_finish(self, gone: CustomResourceDefinition) -> None:
        """Delete all objects of a terminating definition's kind, then remove the definition's finalizer.

        Another server may do the same, so that a new definition of that name may exist already.
        """
        name, uid = gone.metadata.name, gone.metadata.uid
        await self._write_definition(gone, partial(report_progress, now=self._now()))
        while (found := self.find_definition(name)) and found.metadata.uid == uid:
            if CLEANUP_FINALIZER not in found.metadata.finalizers:
                return
            served = self._served.get(name)
            is_empty = served is None or await self._resources.delete_all(served[1].storage)
            finish = partial(finish_deletion, now=self._now(), established=served is not None)
            if is_empty and await self._write_definition(gone, finish):
                return
            await self._clock.sleep(_RETRY_SECONDS)

    def _now(self) -> str:
        return times.to_seconds(self._clock.now())


def _start_task(tasks: dict[str, asyncio.Task[None]], name: str, work: Coroutine[Any, Any, None]) -> None:
    """Start a background task for a definition, unless it has one that runs."""
    if name in tasks:
        work.close()
        return
    task = tasks[name] = asyncio.create_task(work, name=f"definition {name}")
    task.add_done_callback(lambda _: tasks.pop(name, None) if tasks.get(name) is task else None)


def _serving_state(definition: CustomResourceDefinition) -> _ServingState:
    metadata = definition.metadata
    return metadata.uid, metadata.generation, definition.status.accepted_names, holds(definition, TERMINATING)
