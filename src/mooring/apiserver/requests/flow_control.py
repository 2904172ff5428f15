"""Create and restore the default FlowSchemas and priority levels of Kubernetes, and write the status of all.

`FlowControl.run` is a task of ``server.py``. Deleted mandatory objects are recreated at once, suggested ones within a
minute. They limit nothing: ``limiter.py`` limits requests.
"""

import asyncio
from contextlib import suppress
from typing import Any

from mooring.admission import flow_control as defaults
from mooring.api import errors, times
from mooring.api.base import copy_of
from mooring.api.flowcontrol_v1 import FlowSchema, FlowSchemaCondition, PriorityLevelConfiguration
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.storage.objects import Follower
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.base.tasks import run_until_one_ends
from mooring.store.errors import StoreError
from mooring.store.kv import Store

log = logs.get(__name__)

_AGAIN_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_DANGLING = "Dangling"


class FlowControl:
    """Maintains the default FlowSchemas and PriorityLevelConfigurations, which limit nothing here."""

    def __init__(self, store: Store, scheme: Scheme, calls: LoopbackClient, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._changed = asyncio.Event()
        schema, level = scheme.hub_of(FlowSchema), scheme.hub_of(PriorityLevelConfiguration)
        self._schemas: Follower[FlowSchema] = Follower(store, scheme, schema, self._changed.set)
        self._levels: Follower[PriorityLevelConfiguration] = Follower(store, scheme, level, self._changed.set)

    async def run(self) -> None:
        """Create and restore the default objects and write their statuses, until the store is closed."""
        await asyncio.gather(self._schemas.run(), self._levels.run(), self._maintain())

    async def _maintain(self) -> None:
        await self._schemas.synced.wait()
        await self._levels.synced.wait()
        due = self._clock.monotonic()
        while True:
            self._changed.clear()
            now = self._clock.monotonic()
            try:
                await self._ensure(suggested=now >= due)
                due = now + _AGAIN_SECONDS if now >= due else due
                await self._write_statuses()
            except (errors.StatusError, StoreError) as error:
                log.warning("FlowSchemas and priority levels cannot be restored", extra={"fields": {"why": str(error)}})
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            await run_until_one_ends(self._changed.wait(), self._clock.sleep(due - now))

    async def _ensure(self, *, suggested: bool) -> None:
        levels = [*defaults.MANDATORY_LEVELS.values(), *(defaults.SUGGESTED_LEVELS if suggested else ())]
        schemas = [*defaults.MANDATORY_SCHEMAS.values(), *(defaults.SUGGESTED_SCHEMAS if suggested else ())]
        await asyncio.gather(*(self._calls.ensure(copy_of(each), _restore_mandatory) for each in (*levels, *schemas)))

    async def _write_statuses(self) -> None:
        for schema in [*self._schemas.objects.values()]:
            condition = self._dangling_condition(schema)
            if condition is not None:
                updated = copy_of(schema)
                others = [each for each in schema.status.conditions if each.type != _DANGLING]
                updated.status.conditions = [*others, condition]
                with suppress(errors.Conflict, errors.NotFound):  # its new state is seen next
                    await self._calls.update(updated, "status")

    def _dangling_condition(self, schema: FlowSchema) -> FlowSchemaCondition | None:
        """Return the condition `Dangling` that a FlowSchema should get; None if it has it already."""
        level = schema.spec.priority_level_configuration.name
        if level in self._levels.objects:
            status, reason, what = "False", "Found", "and it exists"
        else:
            status, reason, what = "True", "NotFound", "but there is no such object"
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {what}'
        there = next((each for each in schema.status.conditions if each.type == _DANGLING), None)
        if there is not None and (there.status, there.reason, there.message) == (status, reason, message):
            return None
        now = times.to_seconds(self._clock.now())
        return FlowSchemaCondition(
            type=_DANGLING, status=status, last_transition_time=now, reason=reason, message=message
        )


def _restore_mandatory(current: FlowSchema | PriorityLevelConfiguration, wanted: Any) -> bool:
    """Set an object's spec to the default if its annotation asks for that; return whether it differed."""
    if current.metadata.annotations.get(defaults.AUTO_UPDATE) != "true" or current.spec == wanted.spec:
        return False
    current.spec = wanted.spec
    return True
