"""Creates the FlowSchemas and priority levels that every cluster has, keeps them, and writes the status of all.

`FlowControl.run` is a task of ``server.py``. Mandatory objects come back at once when they are deleted, suggested ones
within a minute. Both are kept as Kubernetes has them, the latter as long as their annotation says so.
"""

import asyncio
from typing import TypeVar

from mooring.admission import flow_control_defaults as defaults
from mooring.api import errors, times
from mooring.api.base import copy_of
from mooring.api.flowcontrol_v1 import FlowSchema, FlowSchemaCondition, PriorityLevelConfiguration
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.loopback_client import LoopbackClient
from mooring.apiserver.registry.objects import Follower
from mooring.apiserver.requests.flow_control.classification import Classification
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError
from mooring.store.kv import Store

log = logs.get(__name__)

T = TypeVar("T", FlowSchema, PriorityLevelConfiguration)
_API = "flowcontrol.apiserver.k8s.io/v1"
_AGAIN_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_DANGLING = "Dangling"


class FlowControl:
    """What a cluster says about priorities, kept in order."""

    def __init__(
        self, store: Store, scheme: Scheme, calls: LoopbackClient, clock: Clock, classification: Classification
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._classification = classification
        self._news = asyncio.Event()
        schema, level = scheme.kind(_API, "FlowSchema"), scheme.kind(_API, "PriorityLevelConfiguration")
        assert schema is not None, "the scheme always has FlowSchemas"  # noqa: S101 - api/kinds.py lists them
        assert level is not None, "the scheme always has priority levels"  # noqa: S101 - as above
        self._schemas: Follower[FlowSchema] = Follower(store, scheme, schema, self._changed)
        self._levels: Follower[PriorityLevelConfiguration] = Follower(store, scheme, level, self._changed)

    def _changed(self) -> None:
        self._classification.replace(self._schemas.objects.values(), self._levels.objects.values())
        self._news.set()

    async def run(self) -> None:
        """Keep order until the store is closed."""
        await asyncio.gather(self._schemas.run(), self._levels.run(), self._keep())

    async def _keep(self) -> None:
        await self._schemas.synced.wait()
        await self._levels.synced.wait()
        due = self._clock.monotonic()
        while True:
            self._news.clear()
            now = self._clock.monotonic()
            try:
                await self._ensure(suggested=now >= due)
                due = now + _AGAIN_SECONDS if now >= due else due
                await self._write_statuses()
            except (errors.StatusError, StoreError) as error:
                log.warning("Priorities of requests cannot be kept in order", extra={"fields": {"why": str(error)}})
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            await self._wait(due - now)

    async def _wait(self, seconds: float) -> None:
        """For news, or until it is time to look again."""
        news, clock = asyncio.create_task(self._news.wait()), asyncio.create_task(self._clock.sleep(seconds))
        try:
            await asyncio.wait([news, clock], return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            clock.cancel()

    async def _ensure(self, *, suggested: bool) -> None:
        levels = [*defaults.MANDATORY_LEVELS.values(), *(defaults.SUGGESTED_LEVELS if suggested else ())]
        schemas = [*defaults.MANDATORY_SCHEMAS.values(), *(defaults.SUGGESTED_SCHEMAS if suggested else ())]
        await asyncio.gather(
            *(self._ensure_one(each, self._levels.objects.get(each.metadata.name)) for each in levels),
            *(self._ensure_one(each, self._schemas.objects.get(each.metadata.name)) for each in schemas),
        )

    async def _ensure_one(self, wanted: T, there: T | None) -> None:
        """Create an object that is missing, or put right one that wants to be as it is suggested."""
        try:
            if there is None:
                await self._calls.create(copy_of(wanted))
            elif there.metadata.annotations.get(defaults.AUTO_UPDATE) == "true" and there.spec != wanted.spec:
                updated = copy_of(there)
                updated.spec = copy_of(wanted.spec)
                await self._calls.update(updated)
        except (errors.AlreadyExists, errors.Conflict, errors.NotFound):
            pass  # another server is at it, and its work is looked at next

    async def _write_statuses(self) -> None:
        for schema in [*self._schemas.objects.values()]:
            condition = self._condition(schema)
            if condition is not None:
                updated = copy_of(schema)
                others = [each for each in schema.status.conditions if each.type != _DANGLING]
                updated.status.conditions = [*others, condition]
                try:
                    await self._calls.update_status(updated)
                except (errors.Conflict, errors.NotFound):
                    continue  # what has become of it is looked at next

    def _condition(self, schema: FlowSchema) -> FlowSchemaCondition | None:
        """Whether the level of a schema is missing; None if the schema says so already."""
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
