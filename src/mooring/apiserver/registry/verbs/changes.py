"""Create, update and patch objects and subresources, as writes for the executor (``executor.py``).

`Creation` admits a new object and stores it if its key is free. `Update` reads an object, changes it, admits the
change, updates `managedFields`, and stores it with a compare-and-swap; if it removes the last finalizer of a
terminating object, it deletes the object. Admission determines which fields may change. Large objects are decoded and
validated in a thread, so that other requests go on. Read next: ``deleting.py``.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from mooring.admission import pipeline
from mooring.admission.accounting.enforcement import UsageChange
from mooring.admission.registry import strategy_of
from mooring.api import codec, errors, field_errors
from mooring.api.admissionregistration_v1 import CREATE, UPDATE
from mooring.api.batch_writes import Row
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.core_v1 import Event as CoreEvent
from mooring.api.core_v1 import Namespace, Service
from mooring.api.field_path import Path
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.struct_times import WrongTimeError, normalize_times
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.admission.write_admission import Projection
from mooring.apiserver.registry.apply.field_managers import Applier, FieldManagers, Tree
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.parameters import WriteOptions, check_type, read_object, write_options
from mooring.apiserver.registry.patch import PatchError, patcher_for
from mooring.apiserver.registry.storage.stored import check_elements
from mooring.apiserver.registry.verbs.executor import CommittedWrite, Draft, Settle, Write, respond_to_write
from mooring.apiserver.registry.verbs.templates import ChangeTemplate, CreationTemplate, ReusedAdmission
from mooring.base.tasks import run_by_size
from mooring.store.kv import Delete, KeyValue, Put

_NAME_ATTEMPTS = 8

_MAY_NAME_FIELD_SET = re.compile(rb"fieldsV1|\\u")
"""Matches a patch that may read or change a field set, also if the name is escaped."""
EVENT_SECONDS = 3600.0
APPLY = "application/apply-patch+yaml"

Change = Callable[[Resource], Resource]
"""A function that returns the new object for the old one, both in the newest version."""
ResponseMaker = Callable[[CommittedWrite], Awaitable[Response]]


class Plan(msgspec.Struct, frozen=True):
    """The effect of an update or patch: a function that changes the object, and one that may create a missing one."""

    change: Change
    create: Callable[[], Resource] | None = None
    """Creates the object if it does not exist; None if that is an error."""


class Creation(Write, eq=False):
    """A write that creates an object, of any kind, if its key is free."""

    operation = CREATE
    reads_stored = False
    options: WriteOptions
    read: Callable[[], Resource]
    managed_already: bool = False
    template: CreationTemplate | None = None
    obj: Resource | None = None
    """The admitted object; it is kept for a retry with another generated name, which needs no other admission."""
    has_generated_name: bool = False
    attempts: int = _NAME_ATTEMPTS

    async def draft(self) -> Draft:
        if self.obj is None:
            self.obj = self._build_from_template() or await self._admit_object()
        return await self._draft_creation(self.obj)

    async def _admit_object(self) -> Resource:
        call = self.call
        obj = await run_by_size(self.read, len(call.request.body))
        self.has_generated_name = bool(obj.metadata.generate_name and not obj.metadata.name)
        obj = await self.context.admission.admit_new(call, obj, self.options, managed_already=self.managed_already)
        if self.template is not None:
            self.template.keep(obj, call.warnings)
        return obj

    def _build_from_template(self) -> Resource | None:
        """Return the object built from the one first admitted for the batch; None if it needs full admission."""
        row = self.call.request.row
        obj = self.template.build_object(self.call) if self.template is not None else None
        if obj is not None and row is not None:
            self.has_generated_name = not row.name
            self.context.admission.access.check_write(self.call.request.user, obj, None, "")
        return obj

    async def _draft_creation(self, obj: Resource) -> Draft:
        """Return a draft (not yet committed) that creates an admitted object if its key is free.

        A Service gets its addresses here. In a dry run, raise AlreadyExists if the key is not free.
        """
        context, call, options, meta = self.context, self.call, self.options, obj.metadata
        stored = call.stored
        settle = await reserve(context, obj, None, options) if isinstance(obj, Service) else None
        key = stored.key(meta.namespace, meta.name)
        value = await stored.encode_by_size(obj, len(call.request.body))
        check_elements(value, stored.hub)
        name = meta.name

        async def respond(revisions: Sequence[int]) -> Response:
            written = CommittedWrite(value, revisions[0] if revisions else 0, created=True, metadata=meta)
            return await respond_to_write(context, call, written)

        if options.dry_run:
            await context.accounting.check(stored.hub, obj, None)
            if await context.store.get(key) is not None:
                if settle is not None:
                    await settle(False)
                raise errors.already_exists(call.kind.plural, name, group=call.kind.group)
            return Draft((), respond, settle=settle, value=value)
        put = Put(key, value, expect=0, ttl=ttl_of(obj))
        return Draft((put,), respond, context.accounting.usage_change(stored.hub, obj, None, ""), settle, value)

    async def retry(self) -> None:
        self.attempts -= 1
        if self.obj is None or not self.has_generated_name or not self.attempts:
            raise self.give_up()
        pipeline.generate_another_name(self.obj)

    def give_up(self) -> Exception:
        kind, name = self.call.kind, self.obj.metadata.name if self.obj is not None else ""
        refusal = errors.generate_name_conflict if self.has_generated_name else errors.already_exists
        return refusal(kind.plural, name, group=kind.group)


class Update(Write, eq=False):
    """A write that changes an existing object or, if its plan allows that, creates a missing one."""

    operation = UPDATE
    options: WriteOptions
    read: Callable[[], Plan]
    part: str
    """The subresource (empty: main resource) whose admission rules apply."""
    managed_already: bool = False
    view: Projection | None = None
    respond: ResponseMaker | None = None
    template: ChangeTemplate | None = None
    plan: Plan | None = None

    @property
    def given(self) -> Row | None:
        """The object's own values in a batch (row) if the update writes them; otherwise None."""
        return self.call.request.row if self.part == "status" and self.call.request.method == "PUT" else None

    async def draft(self) -> Draft:
        context, call = self.context, self.call
        kv = context.store.peek(call.stored.key(call.namespace, call.name))
        if kv is not None and (reused := self.reuse(kv)) is not None:
            return self.draft_update(kv, reused.value, is_gone=reused.is_gone)
        if self.plan is None:
            self.plan = await run_by_size(self.read, len(call.request.body))
        if kv is not None:
            return await self._admit_change(kv, self.plan.change)
        if self.plan.create is None:
            raise call.not_found()
        context.admission.access.require_create(call.request.user, call.kind, call.namespace, call.name)
        options, read, managed = self.options, self.plan.create, self.managed_already
        return await Creation(context, call, options, read, managed_already=managed).draft()

    def reuse(self, kv: KeyValue) -> ReusedAdmission | None:
        """Return what this update would store, if an earlier write of the batch changed an equal object; else None."""
        row = self.call.request.row
        if self.template is None or row is None or row.resource_version not in {"", str(kv.mod_revision)}:
            return None
        reused = self.template.reuse(self.call.stored, kv, self.given)
        if reused is None or (row.uid and row.uid != reused.uid):
            return None  # a full admission finds the error
        return reused

    async def _admit_change(self, kv: KeyValue, change: Change) -> Draft:
        admission, call, part = self.context.admission, self.call, self.part
        size = len(call.request.body) + len(kv.value)
        old = await call.stored.decode_by_size(kv.value, kv.mod_revision, size)
        new = await run_by_size(partial(change, old), size)
        if (row := call.request.row) is not None:
            new.metadata.uid = row.uid or new.metadata.uid
            new.metadata.resource_version = row.resource_version or new.metadata.resource_version
        check_preconditions(call, new, old)
        keep_managers = self.managed_already or FieldManagers.clear_if_requested(new)
        new = await admission.admit_update(call, new, old, part, self.view, size=size)
        if not keep_managers:
            await run_by_size(partial(admission.record_managers, call, self.options, old, new), size)
        return await self._draft_change(kv, old, new)

    async def _draft_change(self, kv: KeyValue, old: Resource, new: Resource) -> Draft:
        context, call, part = self.context, self.call, self.part
        settle = None
        if isinstance(new, Service) and not call.subresource:
            settle = await reserve(context, new, old, self.options)
        value = await call.stored.encode_by_size(new, len(call.request.body) + len(kv.value))
        check_elements(value, call.stored.hub)
        if self.options.dry_run:
            await context.accounting.check(call.stored.hub, new, old, part)
            return self.draft_update(kv, value, settle=settle)
        is_gone = is_deletable(new)
        charge = None
        if is_gone or value != kv.value:
            charge = context.accounting.usage_change(call.stored.hub, None if is_gone else new, old, part)
        if self.template is not None and charge is None and not call.warnings:
            self.template.keep(call.stored, kv, value, self.given, is_gone=is_gone)
        if is_gone:
            settle = partial(release, context, new)
            if isinstance(new, Namespace):
                await delete_unserved(context, new.metadata.name)
        return self.draft_update(kv, value, is_gone=is_gone, charge=charge, settle=settle, ttl=ttl_of(new))

    def draft_update(
        self,
        kv: KeyValue,
        value: bytes,
        *,
        is_gone: bool = False,
        charge: UsageChange | None = None,
        settle: Settle | None = None,
        ttl: float | None = None,
    ) -> Draft:
        """Return a draft (not yet committed) that replaces the stored value or, with `is_gone`, deletes it."""
        if is_gone:
            puts: tuple[Put | Delete, ...] = (Delete(kv.key, expect=kv.mod_revision),)
        elif value == kv.value or self.options.dry_run:
            puts = ()
        else:
            puts = (Put(kv.key, value, expect=kv.mod_revision, ttl=ttl),)

        async def respond(revisions: Sequence[int]) -> Response:
            written = CommittedWrite(value, revisions[0] if revisions else kv.mod_revision)
            if self.respond is not None:
                return await self.respond(written)
            return await respond_to_write(self.context, self.call, written)

        return Draft(puts, respond, charge, settle, value)


class ObjectWrites:
    """Creates the writes for `create`, `update` and `patch` requests of any kind."""

    def __init__(self, context: HandlerContext) -> None:
        self.context = context
        self._scheme = context.kinds.scheme
        self._managers = context.admission.managers

    def create(self, call: Call, template: CreationTemplate | None = None) -> Write:
        options = write_options(call.request, "CreateOptions")

        def read() -> Resource:
            obj = self.read(call, options)
            version = obj.metadata.resource_version
            if version.isdecimal() and int(version[:20]) and not options.dry_run:
                raise errors.version_on_create()
            return obj

        return Creation(self.context, call, options, read, template=template)

    def update(self, call: Call, template: ChangeTemplate | None = None) -> Update:
        options = write_options(call.request, "UpdateOptions")

        def read() -> Plan:
            drafts = [self.read(call, options)]

            def decode_replacement(_: Resource | None = None) -> Resource:
                return drafts.pop() if drafts else self.read(call, options)

            def decode_named() -> Resource:
                obj = decode_replacement()
                _check_name(call, obj)
                return obj

            may_create = strategy_of(call.stored.hub.type).allow_create_on_update and not call.subresource
            return Plan(decode_replacement, decode_named if may_create else None)

        return Update(self.context, call, options, read, call.subresource, template=template)

    def patch(self, call: Call, template: ChangeTemplate | None = None) -> Write:
        is_apply = call.request.content_type == APPLY
        options = write_options(call.request, "PatchOptions", is_apply=is_apply)
        if not is_apply:
            read = partial(self._read_patch, call, options)
            return Update(self.context, call, options, read, call.subresource, template=template)

        def read_applied() -> Plan:
            applier = self.applier(call, options, self.read_config(call, call.kind, options.validation))
            return Plan(applier.change, None if call.subresource else applier.create)

        return Update(self.context, call, options, read_applied, call.subresource, managed_already=True)

    def read_config(self, call: Call, kind: Kind, validation: FieldValidation = FieldValidation.IGNORE) -> Tree:
        """Return the configuration in an apply's body; raise BadRequest if it is malformed."""
        return self._managers.read_config(call.request.body, kind, call.namespace, call.name, validation)

    def applier(self, call: Call, options: WriteOptions, config: Tree) -> Applier:
        manager = self.context.admission.field_manager_of(call, options)
        return Applier(self._managers, call.kind, config, manager, force=options.force)

    def _read_patch(self, call: Call, options: WriteOptions) -> Plan:
        """Return the change that a patch of any format makes; raise BadRequest if it is malformed."""
        scheme, patcher = self._scheme, patcher_for(call.request.content_type, call.request.body, call.kind)

        def apply_patch(old: Resource) -> Resource:
            names_no_field_set = not _MAY_NAME_FIELD_SET.search(call.request.body)
            tree = codec.to_tree(scheme.convert(old, call.kind), encoded_field_sets=names_no_field_set)
            try:
                decoded = codec.decode_tree(
                    patcher.apply(tree), call.kind.type, options.validation, is_plain=patcher.is_plain
                )
            except PatchError as error:
                raise error.status(call.kind, call.name) from None
            except DecodeError as error:
                raise _undecodable_patch_error(str(error)) from None
            except RecursionError:
                raise errors.bad_request("error decoding patch: nested too deeply") from None
            check_type(decoded.object, call.kind)
            try:
                normalize_times(decoded.object)
            except WrongTimeError as error:
                raise _undecodable_patch_error(str(error)) from None
            call.warn(*decoded.warnings)
            return scheme.convert(decoded.object, call.stored.hub)

        return Plan(apply_patch)

    def read(self, call: Call, options: WriteOptions) -> Resource:
        """Return the object in the body (with the batch's own values filled in), in the newest version."""
        decoded = read_object(call.request, call.kind, options.validation)
        if decoded.warnings:
            call.warn(*decoded.warnings)
        hub = call.stored.hub
        return decoded.object if hub is call.kind else self._scheme.convert(decoded.object, hub)


def _undecodable_patch_error(why: str) -> errors.StatusError:
    """Return the error for a patch whose result is not an object of the kind."""
    if why.startswith("strict decoding error: "):
        return errors.bad_request(f"error decoding patch: {why}")
    return errors.invalid("", "", [field_errors.invalid(Path("patch"), field_errors.OMIT_VALUE, why)])


def _check_name(call: Call, obj: Resource) -> None:
    if obj.metadata.name not in {"", call.name}:
        raise errors.bad_request(
            f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({call.name})"
        )
    obj.metadata.name = call.name


def check_preconditions(call: Call, new: Resource, old: Resource) -> None:
    """Raise Conflict if an update names another resourceVersion or uid than the stored object has."""
    given, stored = new.metadata, old.metadata
    if given.resource_version == "0":
        given.resource_version = ""  # the same as none
    if given.resource_version and given.resource_version != stored.resource_version:
        raise errors.conflict(call.kind.plural, call.name, group=call.kind.group)
    if given.uid and given.uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {given.uid}, UID in object meta: {stored.uid}"
        raise errors.conflict(call.kind.plural, call.name, why, group=call.kind.group)


def is_deletable(obj: Resource) -> bool:
    """Return whether an object is terminating, without finalizers and with a grace period of 0, so that it can go."""
    metadata = obj.metadata
    if metadata.deletion_timestamp is None or metadata.finalizers or metadata.deletion_grace_period_seconds:
        return False
    return not (isinstance(obj, Namespace) and obj.spec.finalizers)


def ttl_of(obj: Resource) -> float | None:
    """Return the seconds after which the store deletes a new object, which only Events have; None for never."""
    return EVENT_SECONDS if isinstance(obj, CoreEvent) else None


async def release(context: HandlerContext, deleted: Resource, is_written: bool) -> None:
    """Release the addresses and ports of a Service after its deletion was stored (`is_written`)."""
    if is_written and context.allocation is not None and isinstance(deleted, Service):
        await context.allocation.release(deleted)


async def reserve(context: HandlerContext, new: Service, old: Resource | None, options: WriteOptions) -> Settle | None:
    """Allocate addresses that a Service lacks; return a function to call with the commit's result, or None."""
    if context.allocation is None:
        return None
    before = old if isinstance(old, Service) else None
    return await context.allocation.reserve(new, before, dry_run=options.dry_run)


async def delete_unserved(context: HandlerContext, namespace: str) -> None:
    """Delete objects in a deleted namespace whose kinds this server does not serve.

    An emulated older version may lack their kinds, and a new namespace of the same name must not contain them.
    """
    for stored in context.kinds.unserved:
        page = await context.store.range(stored.prefix_of(namespace))
        await context.store.write_all([Delete(kv.key) for kv in page.items])
