"""Writes of one sort that came in one group: judged one after the other by the same rules, and stored in one round.

Called by ``handler.py`` for what components write by the hundred: pods with their status and their end, events, leases.
Updates of pods that are like others before them are not judged again (``like_updates.py``). What cannot be done so is
done by the handler of single writes: where a quota counts it, or where somebody else was faster twice. Policies and
webhooks that want to hear of a sort keep it away from here (`concerns`).
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from mooring.admission.policy.attributes import Sort
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import DeleteOptions, Resource
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.deleting import Deleting, Deletion
from mooring.apiserver.registry.parameters import WriteOptions, delete_options, write_options
from mooring.apiserver.registry.pods.like_updates import LikeUpdates, Update
from mooring.apiserver.registry.writing import APPLY, Change, Writing, Written, ttl_of, write_of
from mooring.store.kv import JUST_WRITTEN, Delete, Event, KeyValue, Put, Write

C = TypeVar("C")
R = TypeVar("R")
Outcome = Response | Exception
Pair = tuple[Call, Call]
"""A write, and the deletion of what was written."""
PairOutcome = tuple[Outcome, Outcome | None]
"""What became of both; nothing of the deletion where the write was refused."""
_OPERATIONS = {"create": CREATE, "update": UPDATE, "patch": UPDATE, "delete": DELETE}
_SORTS = frozenset(
    {
        ("", "pods", "create", ""),
        ("", "pods", "update", "status"),
        ("", "pods", "patch", ""),
        ("", "pods", "patch", "status"),
        ("", "pods", "delete", ""),
        ("", "events", "create", ""),
        ("events.k8s.io", "events", "create", ""),
        ("coordination.k8s.io", "leases", "create", ""),
        ("coordination.k8s.io", "leases", "update", ""),
    }
)
"""Group, resource, verb and subresource of what many are written of, and what nothing else depends on."""
_ROUNDS = 2
"""Two controllers often write the same pods at once; who comes second is judged anew together, too."""


class _Draft(msgspec.Struct, Generic[R], frozen=True):
    """What was judged, and how its outcome is told. Without writes it has happened already."""

    writes: Sequence[Write]
    told: Callable[[Sequence[int]], Awaitable[R]]
    """What the client is told, given the revisions of the writes."""


class _Change(msgspec.Struct, frozen=True):
    """An object as it is stored, and as it is to be stored, with what has to be written; None where nothing has."""

    kv: KeyValue
    new: Resource | None
    """None where it was known at once what an update comes to."""
    value: bytes
    write: Write | None
    like: Update | None = None
    """What is to be learned of it."""


class BatchWriter:
    """Does writes of one sort."""

    def __init__(self, context: HandlerContext, writing: Writing, deleting: Deleting) -> None:
        self._context = context
        self._writing = writing
        self._deleting = deleting
        self._like_updates = LikeUpdates(context)
        self._judges = {
            "create": self._created,
            "update": self._updated,
            "patch": self._patched,
            "delete": self._deleted,
        }
        self._alone = {
            "create": writing.create,
            "update": writing.update,
            "patch": writing.patch,
            "delete": deleting.delete,
        }

    def concerns(self, call: Call, verb: str) -> bool:
        """Whether writes such as a call can be done here."""
        if (call.kind.group, call.kind.plural, verb, call.subresource) not in _SORTS:
            return False
        sort = Sort(call.kind, call.subresource, _OPERATIONS[verb], bool(call.namespace))
        return self._context.extensions.is_idle or self._context.extensions.spares(sort)

    async def write(self, verb: str, calls: Sequence[Call]) -> list[Outcome]:
        """Do all writes that can be done; what became of each, in the same order."""
        return await self._all(calls, self._judges[verb], self._alone[verb])

    async def end(self, pairs: Sequence[Pair]) -> list[PairOutcome]:
        """The same for updates, each with the deletion that follows at once where the update is done."""
        outcomes = await self._all(pairs, self._ended, self._end_alone)
        return [(each, None) if isinstance(each, Exception) else each for each in outcomes]

    async def _all(
        self,
        calls: Sequence[C],
        judge: Callable[[C], Awaitable[_Draft[R] | None]],
        alone: Callable[[C], Awaitable[R]],
    ) -> list[R | Exception]:
        await self._context.store.revision()  # once for all of them
        outcomes: dict[int, R | Exception] = {}
        again: Sequence[int] = range(len(calls))
        for _ in range(_ROUNDS):
            again = await self._round(calls, again, judge, outcomes)
            if not again:
                break
        left = [index for index in range(len(calls)) if index not in outcomes]
        done = await gather(*(alone(calls[index]) for index in left), return_exceptions=True)
        for index, each in zip(left, done, strict=True):
            if isinstance(each, BaseException) and not isinstance(each, Exception):
                raise each
            outcomes[index] = each
        return [outcomes[index] for index in range(len(calls))]

    async def _round(
        self,
        calls: Sequence[C],
        indexes: Sequence[int],
        judge: Callable[[C], Awaitable[_Draft[R] | None]],
        outcomes: dict[int, R | Exception],
    ) -> list[int]:
        """Judge calls and write what comes of them; returns those that somebody else was faster than."""
        drafts: list[tuple[int, _Draft[R]]] = []
        for index in indexes:
            try:
                draft = await judge(calls[index])
                if draft is not None and draft.writes:
                    drafts.append((index, draft))
                elif draft is not None:
                    outcomes[index] = await draft.told(())
            except Exception as error:
                outcomes[index] = error
        late: list[int] = []
        if drafts:
            writes = [write for _, draft in drafts for write in draft.writes]
            results = iter(await self._context.store.write_all(writes))
            for index, draft in drafts:
                found = list(islice(results, len(draft.writes)))
                revisions = [result.revision for result in found if isinstance(result, Event)]
                if len(revisions) == len(found):
                    outcomes[index] = await draft.told(revisions)
                else:
                    late.append(index)
        return late

    async def _created(self, call: Call) -> _Draft[Response] | None:
        writing, stored = self._writing, call.stored
        options = write_options(call.request, "CreateOptions")
        if options.dry_run:
            return None
        obj = await writing.admitted(call, options)
        if self._context.accounting.change(stored.hub, obj, None, "") is not None:
            return None
        value = stored.encode(obj)
        put = Put(stored.key(obj.metadata.namespace, obj.metadata.name), value, expect=0, ttl=ttl_of(obj))
        meta = obj.metadata

        def told(revisions: Sequence[int]) -> Awaitable[Response]:
            return writing.respond(call, Written(value, revisions[0], created=True, metadata=meta))

        return _Draft((put,), told)

    async def _updated(self, call: Call) -> _Draft[Response] | None:
        return await self._update(call, await self._replaced(call))

    async def _patched(self, call: Call) -> _Draft[Response] | None:
        if call.request.content_type == APPLY:
            return None
        options = write_options(call.request, "PatchOptions")

        def patched(old: Resource) -> Resource:
            return self._writing.patched(call, options)(old)  # which reads the patch, where nobody knows what it does

        return await self._update(call, await self._changed(call, options, patched))

    async def _update(self, call: Call, change: _Change | None) -> _Draft[Response] | None:
        if change is None:
            return None
        if change.like is not None:
            await self._learn(call, change.like, change)
        value, before = change.value, change.kv.mod_revision

        def told(revisions: Sequence[int]) -> Awaitable[Response]:
            return self._writing.respond(call, Written(value, revisions[0] if revisions else before))

        return _Draft((change.write,) if change.write is not None else (), told)

    async def _learn(self, call: Call, like: Update, change: _Change) -> None:
        """Remember what an update came to; of a status, admission looks nothing up."""
        pod = change.new if isinstance(change.new, Pod) and not call.subresource else None
        await self._like_updates.learn(like, change.value, is_gone=isinstance(change.write, Delete), pod=pod)

    async def _replaced(self, call: Call, ending: bytes = b"") -> _Change | None:
        options = write_options(call.request, "UpdateOptions")

        def replaced(old: Resource) -> Resource:  # noqa: ARG001 - a replacement owes nothing to what was there
            return self._writing.read(call, options)

        return await self._changed(call, options, replaced, ending)

    async def _changed(self, call: Call, options: WriteOptions, changed: Change, ending: bytes = b"") -> _Change | None:
        """What an update comes to, which a deletion with such options follows; None where it cannot be judged here."""
        writing, stored, part = self._writing, call.stored, call.subresource
        kv = self._context.store.peek(stored.key(call.namespace, call.name))
        if options.dry_run or kv is None:
            return None  # where it is not there, it may have to be created
        like = self._like_updates.read(call, kv, options, ending)
        if like is not None and (known := await self._like_updates.find(like)) is not None:
            return _Change(kv, None, known.value, known.write(kv))
        old, new = await writing.judged(call, options, kv, changed, part)
        value = stored.encode(new)
        write = write_of(kv, new, value) if value != kv.value else None
        left = None if isinstance(write, Delete) else new
        if write is not None and self._context.accounting.change(stored.hub, left, old, part) is not None:
            return None
        return _Change(kv, new, value, write, None if call.warnings else like)

    async def _deleted(self, call: Call) -> _Draft[Response] | None:
        kv, options = self._context.find_known(call), delete_options(call.request)
        deletion = await self._deletion(call, options, kv)
        if deletion is None:
            return None

        def told(revisions: Sequence[int]) -> Awaitable[Response]:
            written = Written(deletion.value or kv.value, revisions[0] if revisions else kv.mod_revision)
            return self._deleting.respond(call, options, written, deletion.obj, gone=deletion.is_last)

        return _Draft((deletion.write,) if deletion.write is not None else (), told)

    async def _deletion(
        self, call: Call, options: DeleteOptions, kv: KeyValue, known: Resource | None = None
    ) -> Deletion | None:
        """What a deletion comes to; None where it cannot be judged here."""
        if options.dry_run:
            return None
        deletion = self._deleting.begun(call, options, kv) if known is None else None
        if deletion is None:
            deletion = await self._deleting.judged(call, options, kv, known=known)
        if deletion.is_last and self._context.accounting.change(call.stored.hub, None, deletion.before, "") is not None:
            return None
        return deletion

    async def _ended(self, pair: Pair) -> _Draft[PairOutcome] | None:
        call, last = pair
        change = await self._replaced(call, last.request.body)
        if change is None or isinstance(change.write, Delete):
            return None
        revision = JUST_WRITTEN if change.write is not None else change.kv.mod_revision
        kv = KeyValue(change.kv.key, change.value, change.kv.create_revision, revision)
        if change.new is None and last.request.is_unread:
            return self._known_end(call, change, Delete(kv.key, expect=revision))
        try:
            options = delete_options(last.request)
            if options.preconditions and options.preconditions.resource_version:
                return None  # which is not known yet
            deletion = await self._deletion(last, options, kv, change.new)
        except StatusError:
            return None  # the update is to be done nevertheless
        if deletion is None:
            return None
        if change.like is not None and deletion.is_last and not last.warnings:
            await self._learn(call, change.like, change)

        async def told(revisions: Sequence[int]) -> PairOutcome:
            at = revisions[0] if change.write is not None else change.kv.mod_revision
            response = await self._writing.respond(call, Written(change.value, at))
            written = Written(deletion.value or change.value, revisions[-1] if revisions else at)
            return response, await self._deleting.respond(last, options, written, deletion.obj, gone=deletion.is_last)

        return _Draft([write for write in (change.write, deletion.write) if write is not None], told)

    def _known_end(self, call: Call, change: _Change, deletion: Delete) -> _Draft[PairOutcome]:
        """An update after which nothing held those like it: only such are learned."""

        async def told(revisions: Sequence[int]) -> PairOutcome:
            return await self._writing.respond(call, Written(change.value, revisions[0])), Response()

        return _Draft([write for write in (change.write, deletion) if write is not None], told)

    async def _end_alone(self, pair: Pair) -> PairOutcome:
        call, last = pair
        response = await self._writing.update(call)
        try:
            return response, await self._deleting.delete(last)
        except Exception as error:
            return response, error
