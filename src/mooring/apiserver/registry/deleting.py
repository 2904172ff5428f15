"""Deleting objects: with a grace period (pods), after finalizers, for dependents as the client asked, one or many.

A deletion that has to wait writes `deletionTimestamp` and returns the object; whoever removes the last finalizer, or
a node that has stopped the pod, completes it (``writing.py``, `is_deletable`).
"""

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from mooring.api import codec, errors, times
from mooring.api.admissionregistration_v1 import DELETE
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import DeleteOptions, ListMeta, Resource, Status, StatusDetails
from mooring.api.states import has_ended
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.definition_status import mark_for_deletion
from mooring.apiserver.registry.parameters import delete_options
from mooring.apiserver.registry.pods.ending_pods import given_time, glimpse
from mooring.apiserver.registry.reading import Reading
from mooring.apiserver.registry.views import respond as responded
from mooring.apiserver.registry.views import view_for
from mooring.apiserver.registry.writing import Written, is_deletable
from mooring.store.kv import Delete, Event, KeyValue, Put

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_ATTEMPTS = 10
_AT_ONCE = 64
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
"""Namespaces that every cluster keeps."""

_SHOWN_WHEN_DELETED = frozenset(
    {
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
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
    }
)
"""Resources whose deletion is answered with the object; the others' with a Status."""

_ORPHANS_BY_DEFAULT = frozenset({("", "ReplicationController"), ("batch", "Job")})
"""Kinds that are older than garbage collection: their dependents stay unless the client says otherwise."""


class Deletion(msgspec.Struct, frozen=True):
    """An object as its deletion leaves it, as it was before, and what has to be written; None where nothing has."""

    obj: Resource
    before: Resource
    write: Put | Delete | None

    @property
    def is_last(self) -> bool:
        """Whether nothing is left of the object then."""
        return isinstance(self.write, Delete)

    @property
    def value(self) -> bytes:
        """What is to be stored of the object while it waits; nothing where nothing changes."""
        return self.write.value if isinstance(self.write, Put) else b""


class Deleting:
    """`delete` and `deletecollection`."""

    def __init__(self, context: HandlerContext, reading: Reading) -> None:
        self._context = context
        self._reading = reading

    async def delete(self, call: Call) -> Response:
        options = delete_options(call.request)
        written, gone, obj = await self.delete_object(call, options)
        return await self.respond(call, options, written, obj, gone=gone)

    async def respond(
        self, call: Call, options: DeleteOptions, written: Written, obj: Resource, *, gone: bool
    ) -> Response:
        """What the client is told of a deletion."""
        if call.request.is_unread:
            return Response(warnings=call.warnings)
        if gone and call.kind.plural not in _SHOWN_WHEN_DELETED:
            return responded(call, codec.encode(_success(call, obj)))
        if call.stored.asks:
            await call.stored.prepare([written.value], call.kind)
        body = view_for(self._context, call).object(written.value, written.revision)
        accepted = not gone and options.orphan_dependents is False
        return responded(call, body, 202 if accepted else 200)

    async def delete_collection(self, call: Call) -> Response:
        options = delete_options(call.request)
        selection = self._context.selections.of(call.request, call.kind, call.stored)
        view = view_for(self._context, call)
        found = await self._reading.selected(call, selection)
        shown: list[KeyValue] = []
        for start in range(0, len(found), _AT_ONCE):
            group = found[start : start + _AT_ONCE]
            gone = await asyncio.gather(*(self._delete_one_of(call, kv, options) for kv in group))
            shown += [kv for kv, was_there in zip(group, gone, strict=True) if was_there]
        if call.stored.asks:
            await call.stored.prepare([kv.value for kv in shown], call.kind)
        revision = await self._context.store.revision()
        return responded(call, view.list(shown, ListMeta(resource_version=str(revision))))

    async def _delete_one_of(
        self, call: Call, kv: KeyValue, options: DeleteOptions, *, is_admitted: bool = False
    ) -> bool:
        """Delete an object of a collection; returns whether it was there at all."""
        namespace, _, name = kv.key.removeprefix(call.stored.prefix).rpartition("/")
        one = Call(call.request, call.kind, call.stored, namespace, name, "", call.accepted, call.warnings)
        try:
            await self.delete_object(one, options, is_admitted=is_admitted)
        except errors.NotFound:
            return False
        return True

    async def delete_all(self, kind: Kind) -> bool:
        """Delete every object of a kind, for the end of its definition; whether none is left."""
        stored = self._context.stored(kind)
        call = Call(Request(method="DELETE", path=""), kind, stored, "", "", "", Accepted())
        found = (await self._context.store.range(stored.prefix)).items
        for start in range(0, len(found), _AT_ONCE):
            group = found[start : start + _AT_ONCE]
            await asyncio.gather(*(self._delete_one_of(call, kv, DeleteOptions(), is_admitted=True) for kv in group))
        return not (await self._context.store.range(stored.prefix, limit=1)).items

    async def delete_object(
        self, call: Call, options: DeleteOptions, *, is_admitted: bool = False
    ) -> tuple[Written, bool, Resource]:
        """Delete, or begin to; returns the last state, and whether the object is gone.

        `is_admitted`: policies and webhooks have nothing more to say about it.
        """
        context = self._context
        for _ in range(_ATTEMPTS):
            kv = await context.find(call)
            deletion = await self.judged(call, options, kv, is_admitted=is_admitted)
            obj, write = deletion.obj, deletion.write
            if options.dry_run or write is None:
                return Written(kv.value, kv.mod_revision), deletion.is_last, obj
            if isinstance(write, Put):
                outcome = await context.store.write(write)
                if isinstance(outcome, Event):
                    return Written(write.value, outcome.revision), False, obj
                continue
            if isinstance(obj, Namespace):
                await context.clear_unserved(call.name)
            outcome = await context.accounting.write(write, call.stored.hub, None, deletion.before)
            if isinstance(outcome, Event):
                await context.released(obj)
                return Written(kv.value, outcome.revision), True, obj
        raise errors.conflict(call.kind.plural, call.name, group=call.kind.group)

    async def judged(
        self,
        call: Call,
        options: DeleteOptions,
        kv: KeyValue,
        *,
        is_admitted: bool = False,
        known: Resource | None = None,
    ) -> Deletion:
        """What the deletion of an object comes to; raises a `StatusError` when it is refused.

        `known` is the object, where it was decoded already and nobody else has it.
        """
        stored = call.stored
        if call.name in _IMMORTAL and stored.hub.type is Namespace:
            raise errors.forbidden("namespaces", call.name, "this namespace may not be deleted")
        obj = known if known is not None else stored.decode(kv.value, kv.mod_revision)
        self._context.guard(call.request.user, None, obj, call.subresource)
        _check_preconditions(call, obj, options)
        if not is_admitted and not _is_pending(obj, options):
            await self._admit(call, obj, options)
        before = replace(obj, metadata=replace(obj.metadata))
        if not self._mark(obj, options):
            return Deletion(obj, before, Delete(kv.key, expect=kv.mod_revision))
        value = await stored.encoded(obj)
        put = None if value == kv.value else Put(kv.key, value, expect=kv.mod_revision)
        return Deletion(obj, before, put)

    def begun(self, call: Call, options: DeleteOptions, kv: KeyValue) -> Deletion | None:
        """The same of a pod on a node that is only given time, where nobody else has to be asked; None for all else."""
        pod = glimpse(kv) if call.stored.hub.type is Pod else None
        if pod is None:
            return None
        self._context.guard(call.request.user, None, pod, call.subresource)
        _check_preconditions(call, pod, options)
        grace = _grace_seconds(pod, options)
        if not grace or _finalizers(pod, options) != pod.metadata.finalizers:
            return None
        value = given_time(kv.value, self._context.clock.now(), grace)
        return Deletion(pod, pod, Put(kv.key, value, expect=kv.mod_revision))

    async def _admit(self, call: Call, obj: Resource, options: DeleteOptions) -> None:
        """Ask policies and webhooks whether an object may be deleted."""
        if self._context.extensions.is_idle:
            return
        told = {**codec.to_tree(options), "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        attributes = self._context.extended(call, DELETE, None, obj, options=told)
        if attributes is not None:
            await self._context.extensions.admit(attributes)

    def _mark(self, obj: Resource, options: DeleteOptions) -> bool:
        """Write into the object that it is to be deleted; returns whether something must happen before it goes."""
        metadata = obj.metadata
        metadata.finalizers = _finalizers(obj, options)
        grace = _grace_seconds(obj, options)
        if metadata.deletion_timestamp is None:
            until = times.later(self._context.clock.now(), grace)
            metadata.deletion_timestamp = times.to_seconds(until)
            metadata.deletion_grace_period_seconds = grace
            metadata.generation += metadata.generation > 0
            if isinstance(obj, CustomResourceDefinition):
                mark_for_deletion(obj, times.to_seconds(self._context.clock.now()))
        elif grace < (metadata.deletion_grace_period_seconds or 0):
            before = metadata.deletion_grace_period_seconds or 0
            until = times.later(times.parse(metadata.deletion_timestamp), grace - before)
            metadata.deletion_timestamp = times.to_seconds(until)
            metadata.deletion_grace_period_seconds = grace
        if isinstance(obj, Namespace):
            obj.status.phase = "Terminating"
        return not is_deletable(obj)


def _check_preconditions(call: Call, obj: Resource, options: DeleteOptions) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    for what, given, found in (
        ("UID", wanted.uid, obj.metadata.uid),
        ("ResourceVersion", wanted.resource_version, obj.metadata.resource_version),
    ):
        if given is not None and given != found:
            short = "UID in object meta" if what == "UID" else "ResourceVersion in object meta"
            why = f"Precondition failed: {what} in precondition: {given}, {short}: {found}"
            raise errors.conflict(call.kind.plural, call.name, why, group=call.kind.group)


def _grace_seconds(obj: Resource, options: DeleteOptions) -> int:
    """How long the object has: pods on a node as long as they or the client say, everything else goes at once."""
    if not isinstance(obj, Pod):
        return 0
    seconds = options.grace_period_seconds
    if seconds is None:
        seconds = obj.spec.termination_grace_period_seconds
    if seconds is None or not obj.spec.node_name or has_ended(obj):
        seconds = 0
    return 1 if seconds < 0 else seconds


def _is_pending(obj: Resource, options: DeleteOptions) -> bool:
    """Whether a pod has been given its time already, and no less of it now: then nobody is asked again."""
    if not isinstance(obj, Pod) or obj.metadata.deletion_timestamp is None:
        return False
    return _grace_seconds(obj, options) >= (obj.metadata.deletion_grace_period_seconds or 0)


def _finalizers(obj: Resource, options: DeleteOptions) -> list[str]:
    """The finalizers with those that the propagation policy asks for, and without those that it excludes."""
    wanted = _propagation_finalizer(obj, options)
    kept: Iterable[str] = (name for name in obj.metadata.finalizers if name not in {ORPHAN, FOREGROUND})
    return [*kept, wanted] if wanted else [*kept]


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


def _success(call: Call, obj: Resource) -> Status:
    details = StatusDetails(name=obj.metadata.name, group=call.kind.group, kind=call.kind.plural, uid=obj.metadata.uid)
    return Status(kind="Status", api_version="v1", status="Success", details=details)
