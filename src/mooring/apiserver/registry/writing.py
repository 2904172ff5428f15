"""Writing objects: create, update and patch, of the object itself and of its subresources.

All of them are a read, a change and a compare-and-swap. `change` is that loop: it is given a function that makes the
new object from the old one, runs admission, keeps `managedFields`, and writes. What an update makes deletable (the last
finalizer is gone) is deleted. Who may change a field and how is admission's affair. Read next: ``deleting.py``.

Where a kind says that a large object takes long, it is read and judged in a thread, so that other requests need not
wait for it: nobody but the request knows the object, and what judges it looks at nothing else.
"""

from asyncio import gather, to_thread
from collections.abc import Callable
from functools import partial

import msgspec

from mooring.admission.pipeline import (
    another_like,
    begin_create,
    begin_update,
    finish_create,
    finish_update,
    generate_another_name,
    mutate_again,
)
from mooring.api import codec, errors, field_errors
from mooring.api.admissionregistration_v1 import CREATE, UPDATE
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.core_v1 import Event as CoreEvent
from mooring.api.core_v1 import Namespace, Pod, Service
from mooring.api.field_path import Path
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.struct_times import WrongTimeError, put_times
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.apply.field_managers import Applier, FieldManagers, Manager, Tree
from mooring.apiserver.registry.context import Call, HandlerContext, Reserved
from mooring.apiserver.registry.like_objects import Found, LikeObjects
from mooring.apiserver.registry.parameters import WriteOptions, check_type, read_object, write_options
from mooring.apiserver.registry.patch import PatchError, patcher_for
from mooring.apiserver.registry.pods.like_pods import LikePods
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.views import respond as responded
from mooring.apiserver.registry.views import view_for
from mooring.store.kv import Delete, Event, KeyValue, Put, Write

_LARGE = 50_000
"""From so many bytes on, an object that may take long is judged in a thread."""
_NAME_ATTEMPTS = 8
_ATTEMPTS = 10
"""How often a change is made anew because somebody else was faster. Each time, somebody made progress."""

EVENT_SECONDS = 3600.0
APPLY = "application/apply-patch+yaml"


class Written(msgspec.Struct, frozen=True):
    """What a write left behind: the stored bytes and their revision (0 if nothing was stored: dry run)."""

    value: bytes
    revision: int
    created: bool = False
    metadata: ObjectMeta | None = None
    """Of what was created."""

    @property
    def identity(self) -> bytes:
        """What the server has made up for a new object, for those who do not want to read all of it."""
        meta = self.metadata
        if meta is None:
            return b""
        known = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": str(self.revision)}
        return codec.encode({"metadata": known})


Change = Callable[[Resource], Resource]
"""Makes the new object from the old one, both in the newest version. The old one is not to be changed."""


class View(msgspec.Struct, frozen=True):
    """What a subresource shows in place of an object, such as its scale."""

    kind: Kind
    of: Callable[[Resource], Resource]
    into: Callable[[Resource, Resource | None], None]
    """Writes into an object what somebody has changed in what it shows."""


class Writing:
    """`create`, `update` and `patch`."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._managers = FieldManagers(context.scheme)
        self._like_pods = LikePods(context)
        self._like_objects = LikeObjects(context)

    async def create(self, call: Call) -> Response:
        options = write_options(call.request, "CreateOptions")
        if call.kind.type is Pod:
            pod = await self._like_pods.find(call, options)
            if pod is not None:
                made_up = bool(pod.metadata.generate_name)
                return await self.respond(call, await self._store_named(call, pod, options, made_up=made_up))
        elif (found := await self._like_objects.find(call, options)) is not None:
            return await self.respond(call, await self._store_found(call, found))
        obj = await to_thread(self.read, call, options) if self._takes_long(call) else self.read(call, options)
        check_new(obj, options)
        return await self.respond(call, await self.create_object(call, obj, options))

    async def admitted(self, call: Call, options: WriteOptions) -> Resource:
        """The new object that a call asks for, admitted and with a name, which may be taken."""
        pod = await self._like_pods.find(call, options) if call.kind.type is Pod else None
        if pod is not None:
            return pod
        obj = self.read(call, options)
        check_new(obj, options)
        return await self.admit_new(call, obj, options)

    async def update(self, call: Call) -> Response:
        options = write_options(call.request, "UpdateOptions")
        first = await to_thread(self.read, call, options) if self._takes_long(call) else self.read(call, options)
        strategy = self._context.strategy(call.stored)
        if strategy.allow_create_on_update and not call.subresource and not await self._exists(call):
            _check_name(call, first)
            self._context.require_create(call)
            return await self.respond(call, await self.create_object(call, first, options))
        drafts = [first]

        def replaced(old: Resource) -> Resource:  # noqa: ARG001 - a replacement owes nothing to what was there
            return drafts.pop() if drafts else self.read(call, options)

        return await self.respond(call, await self.change(call, options, replaced))

    async def patch(self, call: Call) -> Response:
        is_apply = call.request.content_type == APPLY
        options = write_options(call.request, "PatchOptions", is_apply=is_apply)
        if is_apply:
            return await self.respond(call, await self._apply(call, options))
        return await self.respond(call, await self.change(call, options, self.patched(call, options)))

    async def create_object(
        self, call: Call, obj: Resource, options: WriteOptions, *, managed_already: bool = False
    ) -> Written:
        """Admit and store a new object of the newest version."""
        made_up = bool(obj.metadata.generate_name and not obj.metadata.name)
        obj = await self.admit_new(call, obj, options, managed_already=managed_already)
        return await self._store_named(call, obj, options, made_up=made_up)

    async def create_alike(self, call: Call, count: int) -> list[Response | Exception] | None:
        """Create so many pods that differ in nothing but the names that are made up for them, judged once for all.

        None where they have to be judged one by one: policies or webhooks want to know of each, or they have names.
        """
        options = write_options(call.request, "CreateOptions")
        first = self.read(call, options)
        meta = first.metadata
        has_own = bool(meta.name or meta.resource_version or not meta.generate_name)
        if has_own or options.dry_run or self._context.extended(call, CREATE, first, None) is not None:
            return None
        first = await self.admit_new(call, first, options)
        pods = [first, *(another_like(first) for _ in range(count - 1))]
        outcomes = await gather(*(self._created_alike(call, pod, options) for pod in pods), return_exceptions=True)
        return [outcome if not isinstance(outcome, BaseException) else _error(outcome) for outcome in outcomes]

    async def _created_alike(self, call: Call, pod: Resource, options: WriteOptions) -> Response:
        return await self.respond(call, await self._store_named(call, pod, options, made_up=True))

    async def admit_new(
        self, call: Call, obj: Resource, options: WriteOptions, *, managed_already: bool = False
    ) -> Resource:
        """What is to be stored of a new object: with defaults and owners, admitted, and with a name."""
        context, stored = self._context, call.stored
        request = await context.admission_request(call, obj)
        request.warnings = call.warnings
        context.strategy(stored).default(obj)
        if not managed_already and not self._managers.forgets(obj):
            # before admission, whose additions belong to nobody
            self._managers.create(call.kind, obj, Manager(options.manager, call.subresource, request.now))
        begin_create(obj, request, defaulted=True)
        attributes = context.extended(call, CREATE, obj, None)
        is_own = attributes is None or not context.extensions.may_change(attributes.sort)
        if attributes is not None:
            await context.extensions.mutate(attributes, lambda changed: mutate_again(changed, None, request))
            obj = attributes.obj or obj
        if self._takes_long(call):
            await to_thread(finish_create, obj, request)
        else:
            finish_create(obj, request)
        context.guard(call.request.user, obj, None, "")
        if call.learn is not None and is_own:
            call.learn(call, obj, request)
        if attributes is not None:
            attributes.replace_object(obj)
            attributes.name = obj.metadata.name
            await context.extensions.validate(attributes)
        return obj

    async def _store_named(self, call: Call, obj: Resource, options: WriteOptions, *, made_up: bool) -> Written:
        """Store a new object, under another name where one that was made up is taken. Raises AlreadyExists."""
        taken = ""
        for _ in range(_NAME_ATTEMPTS if made_up else 1):
            store = self._put_new_service if isinstance(obj, Service) else self._put_new
            written = await store(call.stored, obj, dry_run=options.dry_run)
            if written is not None:
                return written
            taken = obj.metadata.name
            if made_up:
                generate_another_name(obj)
        raise _name_taken(call, taken, made_up=made_up)

    async def _store_found(self, call: Call, found: Found) -> Written:
        """As `_store_named`, for what a new object comes to, which no quota counts."""
        taken = ""
        for _ in range(_NAME_ATTEMPTS if found.has_made_up_name else 1):
            name, value = found.named()
            outcome = await self._context.store.write(Put(call.stored.key(call.namespace, name), value, expect=0))
            if isinstance(outcome, Event):
                return Written(value, outcome.revision, created=True)
            taken = name
        raise _name_taken(call, taken, made_up=found.has_made_up_name)

    async def _put_new_service(self, stored: Stored, obj: Resource, *, dry_run: bool) -> Written | None:
        """As `_put_new`, with an address for the object."""
        async with _Taken(await self._context.reserve(obj, None, dry_run=dry_run)) as taken:
            written = await self._put_new(stored, obj, dry_run=dry_run)
            taken.is_written = written is not None and not dry_run
            return written

    async def _put_new(self, stored: Stored, obj: Resource, *, dry_run: bool) -> Written | None:
        """Write a new object; None if there is one of its name."""
        context = self._context
        key = stored.key(obj.metadata.namespace, obj.metadata.name)
        value = await stored.encoded(obj) if stored.asks else stored.encode(obj)
        if dry_run:
            await context.accounting.check(stored.hub, obj, None)
            return Written(value, 0, created=True) if await context.store.get(key) is None else None
        outcome = await context.accounting.write(Put(key, value, expect=0, ttl=ttl_of(obj)), stored.hub, obj, None)
        if not isinstance(outcome, Event):
            return None
        return Written(value, outcome.revision, created=True, metadata=obj.metadata)

    async def change(
        self,
        call: Call,
        options: WriteOptions,
        change: Change,
        *,
        subresource: str | None = None,
        managed_already: bool = False,
        view: View | None = None,
    ) -> Written:
        """Read, change, admit and write until nobody comes in between. Raises Conflict for a stale resourceVersion.

        `view` is what the call shows in place of the object.
        """
        part = call.subresource if subresource is None else subresource
        for _ in range(_ATTEMPTS):
            kv = await self._context.find(call)
            old, new = await self.judged(call, options, kv, change, part, managed_already=managed_already, view=view)
            written = await self._store_change(call, kv, old, new, part, dry_run=options.dry_run)
            if written is not None:
                return written
        raise errors.conflict(call.kind.plural, call.name, group=call.kind.group)

    async def judged(
        self,
        call: Call,
        options: WriteOptions,
        kv: KeyValue,
        change: Change,
        part: str,
        *,
        managed_already: bool = False,
        view: View | None = None,
    ) -> tuple[Resource, Resource]:
        """An object as it is stored, and as it is to be stored after a change."""
        long = self._takes_long(call, len(kv.value))

        def changed() -> tuple[Resource, Resource]:
            old = call.stored.decode(kv.value, kv.mod_revision)
            return old, change(old)

        old, new = await to_thread(changed) if long else changed()
        check_preconditions(call, new, old)
        keep_managers = managed_already or self._managers.forgets(new)
        new = await self.admit_update(call, new, old, part, view, long=long)
        if not keep_managers:
            await to_thread(self.own, call, options, old, new) if long else self.own(call, options, old, new)
        return old, new

    async def admit_update(
        self, call: Call, new: Resource, old: Resource, part: str, view: View | None = None, *, long: bool = False
    ) -> Resource:
        """Admission of a change, with policies and webhooks; what is to be stored."""
        context = self._context
        request = await context.admission_request(call, None if part == "status" else new)  # it looks nothing up
        request.warnings = call.warnings
        begin_update(new, old, request, part)
        if view is None:
            attributes = context.extended(call, UPDATE, new, old)
        else:
            attributes = context.extended(call, UPDATE, view.of(new), view.of(old), kind=view.kind)
        if attributes is None:
            await to_thread(finish_update, new, old, request, part) if long else finish_update(new, old, request, part)
            context.guard(call.request.user, new, old, part)
            return new
        if view is None:
            await context.extensions.mutate(attributes, lambda changed: mutate_again(changed, old, request, part))
            new = attributes.obj or new
        else:
            await context.extensions.mutate(attributes, lambda _: None)
            view.into(new, attributes.obj)
        await to_thread(finish_update, new, old, request, part) if long else finish_update(new, old, request, part)
        context.guard(call.request.user, new, old, part)
        attributes.replace_object(new if view is None else view.of(new))
        await context.extensions.validate(attributes)
        return new

    async def _store_change(
        self, call: Call, kv: KeyValue, old: Resource, new: Resource, subresource: str, *, dry_run: bool
    ) -> Written | None:
        """Write a changed object; None if somebody else was faster."""
        if call.subresource or not isinstance(new, Service):
            return await self._put_changed(call, kv, old, new, subresource, dry_run=dry_run)
        async with _Taken(await self._context.reserve(new, old, dry_run=dry_run)) as taken:
            written = await self._put_changed(call, kv, old, new, subresource, dry_run=dry_run)
            taken.is_written = written is not None and written.revision > kv.mod_revision
            return written

    async def _put_changed(
        self, call: Call, kv: KeyValue, old: Resource, new: Resource, subresource: str, *, dry_run: bool
    ) -> Written | None:
        context, stored = self._context, call.stored
        value, kind = await stored.encoded(new) if stored.asks else stored.encode(new), stored.hub
        if dry_run:
            await context.accounting.check(kind, new, old, subresource)
        if dry_run or value == kv.value:
            return Written(value, kv.mod_revision)
        write = write_of(kv, new, value)
        gone = isinstance(write, Delete)
        if gone and isinstance(new, Namespace):
            await context.clear_unserved(new.metadata.name)
        outcome = await context.accounting.write(write, kind, None if gone else new, old, subresource)
        if isinstance(outcome, Event):
            if gone:
                await context.released(new)
            return Written(value, outcome.revision)
        if outcome.current is None:
            raise call.not_found()
        return None

    def own(self, call: Call, options: WriteOptions, old: Resource, new: Resource) -> None:
        """Note in `managedFields` who has changed what."""
        self._managers.update(call.kind, old, new, self._manager(call, options))

    async def _apply(self, call: Call, options: WriteOptions) -> Written:
        read = partial(self.read_config, call, call.kind, options.validation)
        applied = self.applier(call, options, await to_thread(read) if self._takes_long(call) else read())
        while True:
            if not call.subresource and not await self._exists(call):
                self._context.require_create(call)
                obj = await to_thread(applied.create) if self._takes_long(call) else applied.create()
                try:
                    return await self.create_object(call, obj, options, managed_already=True)
                except errors.AlreadyExists:
                    continue  # somebody was faster: then it is an update
            return await self.change(call, options, applied.change, managed_already=True)

    def read_config(self, call: Call, kind: Kind, validation: FieldValidation = FieldValidation.IGNORE) -> Tree:
        """The configuration in the body of an apply, of a kind; raises BadRequest."""
        return self._managers.read_config(call.request.body, kind, call.namespace, call.name, validation)

    def applier(self, call: Call, options: WriteOptions, config: Tree) -> Applier:
        return self._managers.applier(call.kind, config, self._manager(call, options), force=options.force)

    def patched(self, call: Call, options: WriteOptions) -> Change:
        """What a patch makes of an object; raises BadRequest and the like for what is none."""
        scheme, patcher = self._context.scheme, patcher_for(call.request.content_type, call.request.body, call.kind)

        def patched(old: Resource) -> Resource:
            tree = codec.to_tree(scheme.convert(old, call.kind))
            try:
                decoded = codec.decode_tree(
                    patcher.apply(tree), call.kind.type, options.validation, is_plain=patcher.is_plain
                )
            except PatchError as error:
                raise error.status(call.kind, call.name) from None
            except DecodeError as error:
                raise errors.bad_request(f"error decoding patch: {error}") from None
            except RecursionError:
                raise errors.bad_request("error decoding patch: nested too deeply") from None
            check_type(decoded.object, call.kind)
            try:
                put_times(decoded.object)
            except WrongTimeError as error:
                wrong = field_errors.invalid(Path(error.path), field_errors.OMIT_VALUE, error.why)
                raise errors.invalid(call.kind.kind, call.name, [wrong], group=call.kind.group) from None
            call.warn(*decoded.warnings)
            return scheme.convert(decoded.object, call.stored.hub)

        return patched

    def read(self, call: Call, options: WriteOptions) -> Resource:
        """The object in the body, in the newest version."""
        decoded = read_object(call.request, call.kind, options.validation)
        if decoded.warnings:
            call.warn(*decoded.warnings)
        hub = call.stored.hub
        return decoded.object if hub is call.kind else self._context.scheme.convert(decoded.object, hub)

    def _takes_long(self, call: Call, more: int = 0) -> bool:
        """Whether to do what concerns an object in a thread; `more` is the size of what is there already."""
        return len(call.request.body) + more > _LARGE and self._context.strategy(call.stored).may_take_long

    async def _exists(self, call: Call) -> bool:
        return await self._context.store.get(call.stored.key(call.namespace, call.name)) is not None

    def _manager(self, call: Call, options: WriteOptions) -> Manager:
        return Manager(options.manager, call.subresource, self._context.clock.now())

    async def respond(self, call: Call, written: Written) -> Response:
        """What the client is told of a write: the object as it is stored."""
        if call.request.is_unread:
            return Response(201 if written.created else 200, written.identity, warnings=call.warnings)
        if call.stored.asks:
            await call.stored.prepare([written.value], call.kind)
        if call.accepted.shown_as:
            body = view_for(self._context, call).object(written.value, written.revision)
        else:
            body = self._context.read_by(call).render(written.value, written.revision, call.kind)
        return responded(call, body, 201 if written.created else 200)


class _Taken(msgspec.Struct):
    """Commits at its end what was taken for an object that was written, else lets it go."""

    reserved: Reserved | None
    is_written: bool = False

    async def __aenter__(self) -> "_Taken":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.reserved is not None:
            await (self.reserved.commit() if self.is_written else self.reserved.undo())


def _error(outcome: BaseException) -> Exception:
    """What went wrong with one of many; what is no mistake of its own ends all of them."""
    if isinstance(outcome, Exception):
        return outcome
    raise outcome


def _name_taken(call: Call, name: str, *, made_up: bool) -> errors.AlreadyExists:
    refusal = errors.generate_name_conflict if made_up else errors.already_exists
    return refusal(call.kind.plural, name, group=call.kind.group)


def check_new(obj: Resource, options: WriteOptions) -> None:
    """Nobody has a version of what is not there yet."""
    version = obj.metadata.resource_version
    if version.isdecimal() and int(version[:20]) and not options.dry_run:
        raise errors.version_on_create()


def _check_name(call: Call, obj: Resource) -> None:
    """An object that an update creates has the name of the path."""
    if obj.metadata.name not in {"", call.name}:
        raise errors.bad_request(
            f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({call.name})"
        )
    obj.metadata.name = call.name


def check_preconditions(call: Call, new: Resource, old: Resource) -> None:
    """What a client says of the object it changes must be true of the one that is there."""
    given, stored = new.metadata, old.metadata
    if given.resource_version == "0":
        given.resource_version = ""  # the same as none
    if given.resource_version and given.resource_version != stored.resource_version:
        raise errors.conflict(call.kind.plural, call.name, group=call.kind.group)
    if given.uid and given.uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {given.uid}, UID in object meta: {stored.uid}"
        raise errors.conflict(call.kind.plural, call.name, why, group=call.kind.group)


def write_of(kv: KeyValue, new: Resource, value: bytes) -> Write:
    """What puts a changed object in place of the old one, or removes it where nothing holds it any longer."""
    if is_deletable(new):
        return Delete(kv.key, expect=kv.mod_revision)
    return Put(kv.key, value, expect=kv.mod_revision, ttl=ttl_of(new))


def is_deletable(obj: Resource) -> bool:
    """Whether an object whose deletion was asked for has nothing left to wait for."""
    metadata = obj.metadata
    if metadata.deletion_timestamp is None or metadata.finalizers or metadata.deletion_grace_period_seconds:
        return False
    return not (isinstance(obj, Namespace) and obj.spec.finalizers)


def ttl_of(obj: Resource) -> float | None:
    """How many seconds an object lives; None for ever."""
    return EVENT_SECONDS if isinstance(obj, CoreEvent) else None
