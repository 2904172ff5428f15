"""Delete one object or a collection, as writes for the executor (``executor.py``).

If a deletion has to wait for a grace period (pods) or for finalizers, it sets `deletionTimestamp` and returns the
object. The update that removes the last finalizer, or the kubelet's deletion, completes it (`is_deletable` in
``changes.py``).
"""

from asyncio import sleep
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from msgspec.structs import replace

from mooring.api import codec, errors, times
from mooring.api.admissionregistration_v1 import DELETE
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import DeleteOptions, ListMeta, Resource, Status, StatusDetails
from mooring.api.response_limits import add_warning
from mooring.api.states import has_ended
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.definition_status import mark_for_deletion
from mooring.apiserver.registry.parameters import delete_options
from mooring.apiserver.registry.verbs.changes import Update, delete_unserved, is_deletable, release
from mooring.apiserver.registry.verbs.executor import CommittedWrite, Draft, ResponsePair, Write, WriteExecutor
from mooring.apiserver.registry.verbs.reading import Reading
from mooring.apiserver.registry.verbs.templates import ChangeTemplate, ReusedAdmission
from mooring.apiserver.registry.verbs.views import make_response, respond_with_object, view_for
from mooring.store.kv import JUST_WRITTEN, Delete, KeyValue, Put

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_AT_ONCE = 64
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})

_SHOWN_WHEN_DELETED = frozenset(
    {
        "csidrivers",
        "csinodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourcequotas",
        "resourceslices",
        "deviceclasses",
        "serviceaccounts",
        "services",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
    }
)
"""Resources for which a deletion responds with the deleted object; for others with a Status."""

_ORPHANS_BY_DEFAULT = frozenset({("", "ReplicationController"), ("batch", "Job")})
"""Kinds older than garbage collection, whose dependents are orphaned unless the client requests otherwise."""
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class Deletion(Write, eq=False):
    """A write that removes an object or, if it must wait for finalizers or a grace period, marks it terminating."""

    operation = DELETE
    deleting: "Deleting"
    read: Callable[[], DeleteOptions]
    is_admitted: bool = False
    """Whether policies and webhooks have already admitted the deletion."""
    template: ChangeTemplate | None = None
    options: DeleteOptions | None = None

    async def draft(self) -> Draft:
        context, call = self.context, self.call
        kv = context.store.peek(call.stored.key(call.namespace, call.name))
        if kv is None:
            self.read()  # for its errors, which come first
            raise call.not_found()
        if (reused := self._reuse_outcome(kv)) is not None:
            write = Delete(kv.key, kv.mod_revision) if reused.is_gone else Put(kv.key, reused.value, kv.mod_revision)
            return self.draft_deletion(kv, write, reused.uid)
        self.options = self.options or self.read()
        return await self.draft_of(kv, self.options)

    def _reuse_outcome(self, kv: KeyValue) -> ReusedAdmission | None:
        """Return what this deletion would store, if the batch deleted an equal object before; else None."""
        row = self.call.request.row
        if self.template is None or row is None:
            return None
        reused = self.template.reuse(self.call.stored, kv, None)
        if reused is None or row.uid not in {"", reused.uid} or row.resource_version not in {"", str(kv.mod_revision)}:
            return None  # a full admission finds the error
        if reused.is_gone and not self.call.request.omit_body:
            return None
        return reused

    async def draft_of(self, kv: KeyValue, options: DeleteOptions) -> Draft:
        """Return the store operations that delete an object, not yet committed; raise the error of a refusal."""
        context, deleting, call, stored = self.context, self.deleting, self.call, self.call.stored
        if call.name in _IMMORTAL and stored.hub.type is Namespace:
            raise errors.forbidden("namespaces", call.name, "this namespace may not be deleted")
        size = len(call.request.body) + len(kv.value)
        obj = await stored.decode_by_size(kv.value, kv.mod_revision, size)
        context.admission.access.check_write(call.request.user, None, obj, call.subresource)
        check_preconditions(call, obj, options)
        if isinstance(obj, Job) and options.propagation_policy is None and options.orphan_dependents is None:
            add_warning(call.warnings, _PODS_STAY)
        if not self.is_admitted and not _is_pending(obj, options):
            await deleting.admit(call, obj, options)
        before = replace(obj, metadata=replace(obj.metadata))
        is_gone = not deleting.mark_terminating(obj, options)
        value = kv.value if is_gone else await stored.encode_by_size(obj, size)
        if is_gone and not options.dry_run and isinstance(obj, Namespace):
            await delete_unserved(context, call.name)
        charge = context.accounting.usage_change(stored.hub, None, before, "") if is_gone else None
        if self.template is not None and charge is None and not call.warnings and _may_repeat(options, call.request):
            self.template.keep(stored, kv, value, None, is_gone=is_gone)
        if is_gone and isinstance(obj, Pod) and not call.request.omit_body:
            value = await stored.encode_by_size(obj, size)  # the response shows the mark
        if options.dry_run or not is_gone:
            is_changed = value != kv.value and not options.dry_run
            put = Put(kv.key, value, expect=kv.mod_revision) if is_changed else None
            return self.draft_deletion(kv, put, obj.metadata.uid, is_gone=is_gone, last=value)
        draft = self.draft_deletion(kv, Delete(kv.key, expect=kv.mod_revision), obj.metadata.uid, last=value)
        return replace(draft, charge=charge, settle=partial(release, context, obj))

    def draft_deletion(
        self, kv: KeyValue, write: Put | Delete | None, uid: str, *, is_gone: bool = False, last: bytes = b""
    ) -> Draft:
        """Return a draft that commits `write` (None: nothing, as in a dry run) and responds with the deleted object."""
        value = write.value if isinstance(write, Put) else last or kv.value
        is_gone = is_gone or isinstance(write, Delete)

        async def respond(revisions: Sequence[int]) -> Response:
            if self.call.request.omit_body:
                return Response(warnings=self.call.warnings)
            written = CommittedWrite(value, revisions[-1] if revisions else kv.mod_revision)
            return await self.deleting.respond(self.call, self.options or self.read(), written, uid, gone=is_gone)

        return Draft((write,) if write is not None else (), respond, value=value)


class LastUpdate(Write, eq=False):
    """Two writes in one: updates an object and then deletes it.

    Both are committed together, except where the deletion must see the committed update: the executor then commits the
    update, and the deletion follows before the response.
    """

    update: Update
    deletion: Deletion

    @property
    def is_extended(self) -> bool:
        return self.update.is_extended or self.deletion.is_extended

    async def draft(self) -> Draft:
        update, deletion, call = self.update, self.deletion, self.call
        kv = self.context.store.peek(call.stored.key(call.namespace, call.name))
        if kv is not None and deletion.call.request.omit_body:
            reused = update.reuse(kv)
            if reused is not None and reused.is_gone:
                first = update.draft_update(kv, reused.value)
                expected = JUST_WRITTEN if first.puts else kv.mod_revision
                return self._combine(first, deletion.draft_deletion(kv, Delete(kv.key, expect=expected), reused.uid))
        template, update.template = update.template, None  # it keeps only pairs of update and deletion
        first = await update.draft()
        update.template = template
        try:
            options = deletion.options = deletion.options or deletion.read()
            if update.options.dry_run or options.dry_run or _requires_version(options):
                return replace(first, respond=partial(self._delete_after, first))
            if kv is None or first.charge is not None or _removes_object(first):
                return replace(first, respond=partial(self._delete_after, first))
            stored_at = JUST_WRITTEN if first.puts else kv.mod_revision
            after = KeyValue(kv.key, first.value, kv.create_revision, stored_at)
            last = await deletion.draft_of(after, options)
        except errors.StatusError as error:
            return replace(first, respond=partial(_respond_with_rejection, first, error))
        if last.charge is not None:
            return replace(first, respond=partial(self._delete_after, first))
        has_warnings = call.warnings or deletion.call.warnings
        may_repeat = _removes_object(last) and not has_warnings and _may_repeat(options, deletion.call.request)
        if template is not None and may_repeat:
            template.keep(call.stored, kv, first.value, update.given, is_gone=True)
        return self._combine(first, last)

    def _combine(self, first: Draft, last: Draft) -> Draft:
        async def respond(revisions: Sequence[int]) -> ResponsePair:
            at = len(first.puts)
            done, deleted = await first.respond(revisions[:at]), await last.respond(revisions[at:])
            return ResponsePair(cast("Response", done), cast("Response", deleted))

        return Draft((*first.puts, *last.puts), respond, settle=last.settle, value=last.value)

    async def _delete_after(self, first: Draft, revisions: Sequence[int]) -> ResponsePair:
        """Delete the object after its update was committed; return both responses."""
        done = cast("Response", await first.respond(revisions))
        try:
            return ResponsePair(done, await WriteExecutor(self.context).execute_one(self.deletion))
        except errors.StatusError as error:
            return ResponsePair(done, error)


def _may_repeat(options: DeleteOptions, request: Request) -> bool:
    """Return whether the outcome of a deletion holds for other rows: it happened, and only its row named the object."""
    is_bound = options.preconditions is not None and (request.row is None or not request.row.uid)
    return not (options.dry_run or is_bound or _requires_version(options))


def _requires_version(options: DeleteOptions) -> bool:
    return options.preconditions is not None and bool(options.preconditions.resource_version)


def _removes_object(draft: Draft) -> bool:
    return any(isinstance(put, Delete) for put in draft.puts)


async def _respond_with_rejection(first: Draft, error: errors.StatusError, revisions: Sequence[int]) -> ResponsePair:
    return ResponsePair(cast("Response", await first.respond(revisions)), error)


class Deleting:
    """Creates the writes for `delete` requests, and handles `deletecollection`."""

    def __init__(self, context: HandlerContext, executor: WriteExecutor, reading: Reading) -> None:
        self.context = context
        self._executor = executor
        self._reading = reading

    def delete(self, call: Call, template: ChangeTemplate | None = None) -> Deletion:
        """Return the write that deletes the object a request names; it is executed by the caller."""
        return Deletion(self.context, call, self, partial(delete_options, call.request), template=template)

    def admitted_deletion(self, call: Call, options: DeleteOptions) -> Write:
        """Return the write for a deletion that policies and webhooks have admitted already (an eviction)."""
        return Deletion(self.context, call, self, lambda: options, is_admitted=True)

    async def respond(
        self, call: Call, options: DeleteOptions, written: CommittedWrite, uid: str, *, gone: bool
    ) -> Response:
        """Return the response to a deletion: the object if it remains (or its kind is shown), else a Status."""
        if gone and call.kind.plural not in _SHOWN_WHEN_DELETED:
            details = StatusDetails(name=call.name, group=call.kind.group, kind=call.kind.plural, uid=uid)
            status = Status(kind="Status", api_version="v1", status="Success", details=details)
            return make_response(call, codec.encode(status))
        code = 202 if not gone and options.orphan_dependents is False else 200
        return await respond_with_object(self.context, call, written.value, written.revision, code)

    async def delete_collection(self, call: Call) -> Response:
        """Delete all objects that a request's selectors match; respond with the list of them."""
        options = delete_options(call.request)
        selection = self.context.selections.selection_for(call.request, call.kind, call.stored)
        view = view_for(self.context, call)
        found = (await self._reading.scan(call, selection)).items
        shown = await self._delete_each(call, found, options)
        await call.stored.prepare((kv.value for kv in shown), call.kind)
        revision = await self.context.store.revision()
        return make_response(call, view.list(shown, ListMeta(resource_version=str(revision))))

    async def _delete_each(
        self, call: Call, found: Sequence[KeyValue], options: DeleteOptions, *, is_admitted: bool = False
    ) -> list[KeyValue]:
        """Delete objects in groups; return those that still existed. Raise the first error except NotFound."""
        shown: list[KeyValue] = []
        for start in range(0, len(found), _AT_ONCE):
            await sleep(0)  # other requests go on, even if the store answers without waiting
            group = found[start : start + _AT_ONCE]
            calls = (_deletion_call(call, kv) for kv in group)
            writes = [Deletion(self.context, each, self, lambda: options, is_admitted=is_admitted) for each in calls]
            for kv, outcome in zip(group, await self._executor.execute(writes), strict=True):
                if not isinstance(outcome, Exception):
                    shown.append(kv)
                elif not isinstance(outcome, errors.NotFound):
                    raise outcome
        return shown

    async def delete_all(self, kind: Kind) -> bool:
        """Delete all objects of a terminating definition's kind; return whether none remains."""
        stored = self.context.kinds.find(kind)
        call = Call(Request(method="DELETE", path=""), kind, stored, "", "", "", Accepted())
        found = (await self.context.store.range(stored.prefix)).items
        await self._delete_each(call, found, DeleteOptions(), is_admitted=True)
        return not (await self.context.store.range(stored.prefix, limit=1)).items

    async def admit(self, call: Call, obj: Resource, options: DeleteOptions) -> None:
        """Have policies and webhooks admit a deletion; raise the error of a refusal."""
        if self.context.admission.extensions.is_idle:
            return
        tree = {**codec.to_tree(options), "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        await self.context.admission.admit(call, DELETE, None, obj, options=tree)

    def mark_terminating(self, obj: Resource, options: DeleteOptions) -> bool:
        """Set an object's deletion timestamp and finalizers; return whether it must remain until these are done."""
        metadata = obj.metadata
        metadata.finalizers = _finalizers(obj, options)
        grace = _grace_seconds(obj, options)
        if metadata.deletion_timestamp is None:
            until = times.add_seconds(self.context.clock.now(), grace)
            metadata.deletion_timestamp = times.to_seconds(until)
            metadata.deletion_grace_period_seconds = None if isinstance(obj, Namespace) else grace
            metadata.generation += metadata.generation > 0
            if isinstance(obj, CustomResourceDefinition):
                mark_for_deletion(obj, times.to_seconds(self.context.clock.now()))
        elif grace < (before := metadata.deletion_grace_period_seconds or 0):
            until = times.add_seconds(times.parse(metadata.deletion_timestamp), grace - before)
            metadata.deletion_timestamp = times.to_seconds(until)
            metadata.deletion_grace_period_seconds = grace
        if isinstance(obj, Namespace):
            obj.status.phase = "Terminating"
        return not is_deletable(obj)


def _deletion_call(call: Call, kv: KeyValue) -> Call:
    namespace, _, name = kv.key.removeprefix(call.stored.prefix).rpartition("/")
    return Call(call.request, call.kind, call.stored, namespace, name, "", call.accepted, call.warnings)


def check_preconditions(call: Call, obj: Resource, options: DeleteOptions) -> None:
    """Raise Conflict if a deletion's preconditions name another uid or resourceVersion than the object has."""
    wanted = options.preconditions
    if wanted is None:
        return
    for what, given, found in (
        ("UID", wanted.uid, obj.metadata.uid),
        ("ResourceVersion", wanted.resource_version, obj.metadata.resource_version),
    ):
        if given is not None and given != found:
            why = f"Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}"
            raise errors.conflict(call.kind.plural, call.name, why, group=call.kind.group)


def _grace_seconds(obj: Resource, options: DeleteOptions) -> int:
    """Return the grace period of a deletion: for a pod on a node, the client's or the pod's; else 0."""
    if not isinstance(obj, Pod):
        return 0
    seconds = options.grace_period_seconds
    if seconds is None:
        seconds = obj.spec.termination_grace_period_seconds
    if seconds is None or not obj.spec.node_name or has_ended(obj):
        seconds = 0
    return 1 if seconds < 0 else seconds


def _is_pending(obj: Resource, options: DeleteOptions) -> bool:
    """Return whether a pod is terminating already and this deletion does not shorten that: no new admission."""
    if not isinstance(obj, Pod) or obj.metadata.deletion_timestamp is None:
        return False
    return _grace_seconds(obj, options) >= (obj.metadata.deletion_grace_period_seconds or 0)


def _finalizers(obj: Resource, options: DeleteOptions) -> list[str]:
    """Return the object's finalizers after a deletion request: its own, and that of the propagation policy."""
    wanted = _propagation_finalizer(obj, options)
    kept = [name for name in obj.metadata.finalizers if name not in {ORPHAN, FOREGROUND}]
    found = [*kept, wanted] if wanted else kept
    return found if {*found} != {*obj.metadata.finalizers} else obj.metadata.finalizers


def _propagation_finalizer(obj: Resource, options: DeleteOptions) -> str:
    policy = options.propagation_policy
    if policy is not None:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy, "")
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    present = [name for name in obj.metadata.finalizers if name in {ORPHAN, FOREGROUND}]
    if present:
        return present[0]
    group = obj.api_version.rpartition("/")[0]
    return ORPHAN if (group, obj.kind) in _ORPHANS_BY_DEFAULT else ""
