"""Execute writes: decode → change → admit → commit → respond.

`WriteExecutor.execute` runs a list of writes; one request is a list of one. A `Write` drafts the value to store:
``changes.py`` has creates and updates, ``deleting.py`` deletions, ``pods.py`` bindings. The executor drafts all
writes of a list, commits them together (with the quotas of their namespace), and drafts those again that lost a
compare-and-swap.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import ClassVar, TypeAlias, cast

import msgspec

from mooring.admission.accounting.enforcement import UsageChange
from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.verbs.views import respond_with_object
from mooring.store.errors import StoreError, TooLarge, Unreachable
from mooring.store.kv import Conflict, Delete, Event, Put


class ResponsePair(msgspec.Struct, frozen=True):
    """The responses to an update and a deletion that a batch requested as one write."""

    first: Response
    last: Response | Exception


Outcome: TypeAlias = Response | ResponsePair | Exception
Result: TypeAlias = list[int] | Exception | None
"""The result of a commit: the revisions of the stored values, None for a conflict, or the error."""


class CommittedWrite(msgspec.Struct, frozen=True):
    """The result of a committed write: the stored JSON and its revision (0 for a dry run)."""

    value: bytes
    revision: int
    created: bool = False
    metadata: ObjectMeta | None = None
    """The metadata of a created object."""

    @property
    def identity(self) -> bytes:
        """The name, uid and resourceVersion of a new object, sent to clients that omit the rest."""
        meta = self.metadata
        if meta is None:
            return b""
        known = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": str(self.revision)}
        return codec.encode({"metadata": known})


Settle = Callable[[bool], Awaitable[None]]


class Draft(msgspec.Struct, frozen=True):
    """A write that is admitted but not committed: its store operations, its response, and the change of quota usage."""

    puts: Sequence[Put | Delete]
    respond: Callable[[Sequence[int]], Awaitable[Response | ResponsePair]]
    """A function that makes the response from the revisions of the stored values."""
    charge: UsageChange | None = None
    """The change of quota usage; a draft with one has exactly one put."""
    settle: Settle | None = None
    """Called after the commit with whether it succeeded, to keep or release reservations."""
    value: bytes = b""
    """The value as it will be stored; for a deletion, as it was stored."""


class Write(msgspec.Struct, eq=False):
    """A request's write of one object: `draft` prepares the store operations, which the executor commits."""

    operation: ClassVar[str]
    """The operation that policies and webhooks match."""
    reads_stored: ClassVar[bool] = True
    """Whether the change depends on the stored object, which another server may have changed."""
    max_attempts: ClassVar[int] = 10
    """The maximum number of times a write is tried. Each conflict means that another writer made progress."""
    context: HandlerContext
    call: Call

    @property
    def is_extended(self) -> bool:
        """Return whether policies or webhooks may match; if so, a batch's writes are prepared concurrently."""
        return self.context.admission.may_match_extensions(self.call, self.operation)

    async def draft(self) -> Draft:
        """Read, change and admit the object; return the store operations, not yet committed. Raise a `StatusError`."""
        raise NotImplementedError

    async def retry(self) -> None:
        """Prepare to repeat `draft` after a conflict; raise AlreadyExists if a new object's given name is taken."""

    def give_up(self) -> Exception:
        """Return (not raise) the error for the client after too many write conflicts."""
        return errors.conflict(self.call.kind.plural, self.call.name, group=self.call.kind.group)


def status_of(error: StoreError) -> StatusError:
    """Return the client's error for a failed commit: 504 if it may have happened, 413 if too large, else 503."""
    if isinstance(error, TooLarge):
        return errors.request_entity_too_large(str(error))
    if isinstance(error, Unreachable):
        return errors.timeout(str(error))
    return errors.service_unavailable(f"the store cannot do this now: {error}")


_reads_stored, _max_attempts = attrgetter("reads_stored"), attrgetter("max_attempts")


class WriteExecutor:
    """Executes writes: has each prepared, commits them together, and repeats those with a write conflict."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def execute_one(self, write: Write) -> Response:
        """Execute one write and return its response; raise its error."""
        [outcome] = await self.execute([write])
        if isinstance(outcome, Exception):
            raise outcome
        return cast("Response", outcome)

    async def execute(self, writes: Sequence[Write]) -> list[Outcome]:
        """Execute writes together; return a response or an error for each, in their order."""
        outcomes: dict[int, Outcome] = {}
        open_: Sequence[int] = range(len(writes))
        reads_stored = any(map(_reads_stored, writes))
        for _ in range(max(map(_max_attempts, writes), default=0)):
            if reads_stored:
                await self._context.store.revision()  # once for all writes: this server may be stale
            drafts = await self._drafts(writes, open_, outcomes)
            open_ = await self._commit(writes, drafts, outcomes) if drafts else []
            if not open_:
                break
        for index in open_:
            outcomes[index] = writes[index].give_up()
        return [outcomes[index] for index in range(len(writes))]

    async def _drafts(
        self, writes: Sequence[Write], indexes: Sequence[int], outcomes: dict[int, Outcome]
    ) -> list[tuple[int, Draft]]:
        drafts: list[tuple[int, Draft]] = []
        if len(indexes) == 1 or not any(writes[index].is_extended for index in indexes):
            for index in indexes:
                try:
                    drafts.append((index, await writes[index].draft()))
                except Exception as error:
                    outcomes[index] = error
            return drafts
        made = await gather(*(writes[index].draft() for index in indexes), return_exceptions=True)
        for index, each in zip(indexes, made, strict=True):
            if isinstance(each, Draft):
                drafts.append((index, each))
            elif isinstance(each, Exception):
                outcomes[index] = each
            else:
                raise each
        return drafts

    async def _commit(
        self, writes: Sequence[Write], drafts: Sequence[tuple[int, Draft]], outcomes: dict[int, Outcome]
    ) -> list[int]:
        """Commit prepared writes and set their outcomes; return the indexes of those with a write conflict."""
        conflicted: list[int] = []
        try:
            results = await self._store([draft for _, draft in drafts])
        except BaseException:
            for _, draft in drafts:
                if draft.settle is not None:
                    await draft.settle(False)
            raise
        for (index, draft), result in zip(drafts, results, strict=True):
            try:
                if draft.settle is not None:
                    await draft.settle(isinstance(result, list))
                if isinstance(result, list):
                    outcomes[index] = await draft.respond(result)
                elif result is not None:
                    outcomes[index] = result
                else:
                    await writes[index].retry()
                    conflicted.append(index)
            except Exception as error:
                outcomes[index] = error
        return conflicted

    async def _store(self, drafts: Sequence[Draft]) -> list[Result]:
        puts = [put for draft in drafts if draft.charge is None for put in draft.puts]
        counted = [draft for draft in drafts if draft.charge is not None]
        failure: Exception | None = None
        events: Iterator[Event | Conflict] = iter(())
        try:
            events = iter(await self._context.store.write_all(puts) if puts else ())
        except Exception as error:
            failure = error
        charged = iter(await gather(*map(self._store_counted, counted)) if counted else ())
        results: list[Result] = []
        for draft in drafts:
            if draft.charge is not None:
                results.append(next(charged))
            elif failure is not None and draft.puts:
                results.append(failure)
            else:
                own = list(islice(events, len(draft.puts)))
                revisions = [event.revision for event in own if isinstance(event, Event)]
                results.append(revisions if len(revisions) == len(own) else None)
        return results

    async def _store_counted(self, draft: Draft) -> Result:
        try:
            outcome = await self._context.accounting.write(draft.puts[0], cast("UsageChange", draft.charge))
        except Exception as error:
            return error
        return [outcome.revision] if isinstance(outcome, Event) else None


async def respond_to_write(context: HandlerContext, call: Call, written: CommittedWrite) -> Response:
    """Return the response to a create or update: the stored object, or less if the client wants less."""
    if call.request.omit_body:
        return Response(201 if written.created else 200, written.identity, warnings=call.warnings)
    return await respond_with_object(context, call, written.value, written.revision, 201 if written.created else 200)
