"""Writes of one sort that came in one group: judged one after the other by the same rules, and stored in one round.

Called by ``handler.py`` for what components write by the hundred: pods with their status and their end, events, leases.
What cannot be done so is done by the handler of single writes: where a quota counts it, or where somebody else was
faster. Policies and webhooks that want to hear of a sort keep it away from here (`concerns`).
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mooring.admission.policy.attributes import Sort
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.meta_v1 import Resource
from mooring.apiserver.http import Response
from mooring.apiserver.resources.context import Call, HandlerContext
from mooring.apiserver.resources.deleting import Deleting
from mooring.apiserver.resources.parameters import delete_options, write_options
from mooring.apiserver.resources.writing import Writing, Written, ttl_of, write_of
from mooring.store.kv import Delete, Event, Put, Write

Outcome = Response | Exception
_OPERATIONS = {"create": CREATE, "update": UPDATE, "delete": DELETE}
_SORTS = frozenset(
    {
        ("", "pods", "create", ""),
        ("", "pods", "update", "status"),
        ("", "pods", "delete", ""),
        ("", "events", "create", ""),
        ("events.k8s.io", "events", "create", ""),
        ("coordination.k8s.io", "leases", "update", ""),
    }
)
"""Group, resource, verb and subresource of what many are written of, and what nothing else depends on."""


class _Draft(msgspec.Struct, frozen=True):
    """A write that was judged, and how its outcome is told. Without a write it has happened already."""

    write: Write | None
    told: Callable[[int], Awaitable[Response]]
    """What the client is told, given the revision."""


class Together:
    """Does writes of one sort."""

    def __init__(self, context: HandlerContext, writing: Writing, deleting: Deleting) -> None:
        self._context = context
        self._writing = writing
        self._deleting = deleting
        self._judges = {"create": self._created, "update": self._updated, "delete": self._deleted}
        self._alone = {"create": writing.create, "update": writing.update, "delete": deleting.delete}

    def concerns(self, call: Call, verb: str) -> bool:
        """Whether writes such as a call can be done here."""
        if (call.kind.group, call.kind.plural, verb, call.subresource) not in _SORTS:
            return False
        sort = Sort(call.kind, call.subresource, _OPERATIONS[verb], bool(call.namespace))
        return self._context.extensions.is_idle or self._context.extensions.spares(sort)

    async def write(self, verb: str, calls: Sequence[Call]) -> list[Outcome]:
        """Do all writes that can be done; what became of each, in the same order."""
        await self._context.store.revision()  # once for all of them
        judge, alone = self._judges[verb], self._alone[verb]
        outcomes: dict[int, Outcome] = {}
        drafts: list[tuple[int, _Draft, Write]] = []
        for index, call in enumerate(calls):
            try:
                draft = await judge(call)
                if draft is not None and draft.write is None:
                    outcomes[index] = await draft.told(0)
                elif draft is not None and draft.write is not None:
                    drafts.append((index, draft, draft.write))
            except Exception as error:
                outcomes[index] = error
        if drafts:
            results = await self._context.store.write_all([write for _, _, write in drafts])
            for (index, draft, _), result in zip(drafts, results, strict=True):
                if isinstance(result, Event):
                    outcomes[index] = await draft.told(result.revision)
        left = [index for index in range(len(calls)) if index not in outcomes]
        found = await gather(*(alone(calls[index]) for index in left), return_exceptions=True)
        for index, each in zip(left, found, strict=True):
            if isinstance(each, BaseException) and not isinstance(each, Exception):
                raise each
            outcomes[index] = each
        return [outcomes[index] for index in range(len(calls))]

    async def _created(self, call: Call) -> _Draft | None:
        writing, stored = self._writing, call.stored
        options = write_options(call.request, "CreateOptions")
        if options.dry_run:
            return None
        obj = await writing.admitted(call, options)
        if self._context.ledger.change(stored.hub, obj, None, "") is not None:
            return None
        value = stored.encode(obj)
        put = Put(stored.key(obj.metadata.namespace, obj.metadata.name), value, expect=0, ttl=ttl_of(obj))
        meta = obj.metadata
        return _Draft(
            put, lambda revision: writing.respond(call, Written(value, revision, created=True, metadata=meta))
        )

    async def _updated(self, call: Call) -> _Draft | None:
        writing, stored, part = self._writing, call.stored, call.subresource
        options = write_options(call.request, "UpdateOptions")
        kv = self._context.store.peek(stored.key(call.namespace, call.name))
        if options.dry_run or kv is None:
            return None  # where it is not there, it may have to be created
        given = writing.read(call, options)

        def replaced(old: Resource) -> Resource:  # noqa: ARG001 - a replacement owes nothing to what was there
            return given

        old, new = await writing.judged(call, options, kv, replaced, part)
        value = stored.encode(new)
        if value == kv.value:
            return _Draft(None, lambda _: writing.respond(call, Written(value, kv.mod_revision)))
        write = write_of(kv, new, value)
        if isinstance(write, Delete) or self._context.ledger.change(stored.hub, new, old, part) is not None:
            return None
        return _Draft(write, lambda revision: writing.respond(call, Written(value, revision)))

    async def _deleted(self, call: Call) -> _Draft | None:
        deleting = self._deleting
        options = delete_options(call.request)
        kv = self._context.find_known(call)
        if options.dry_run:
            return None
        deletion = await deleting.judged(call, options, kv)
        obj, write = deletion.obj, deletion.write
        if deletion.is_last and self._context.ledger.change(call.stored.hub, None, deletion.before, "") is not None:
            return None
        value = write.value if isinstance(write, Put) else kv.value

        def told(revision: int) -> Awaitable[Response]:
            written = Written(value, revision or kv.mod_revision)
            return deleting.respond(call, options, written, obj, gone=deletion.is_last)

        return _Draft(write, told)
