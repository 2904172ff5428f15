"""Admit the objects of writes: built-in admission, with policies and webhooks between its halves, and field managers.

``verbs/changes.py`` has new and changed objects admitted; deletions, bindings and evictions pass policies and webhooks
alone. Built-in admission is ``admission/pipeline.py``; ``chain.py`` calls policies and webhooks.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from mooring.admission import pipeline
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.known_specs import ValidSpecCache
from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, MatchKey
from mooring.admission.registry import strategy_of
from mooring.admission.strategy import Request
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.authentication_v1 import UserInfo
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.messages import users
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.admission.lookups import AdmissionLookups
from mooring.apiserver.registry.apply.field_managers import FieldManagers, Manager
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.parameters import WriteOptions, options_tree
from mooring.base.clock import Clock
from mooring.base.tasks import run_by_size

WriteCheck = Callable[[UserInfo, Resource | None, Resource | None, str], None]
"""A check that raises Forbidden for an admitted write: of user, new object, old object and subresource.

The old object is None for a create, the new one for a delete or an eviction.
"""

CreateCheck = Callable[[UserInfo, Kind, str, str], None]
"""A check that raises Forbidden if an update or patch may not create an object: of kind, namespace and name."""

_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


class AccessChecks(msgspec.Struct, frozen=True):
    """The checks of ``access/`` on the objects of authorized writes; without any, as in tests, all are allowed."""

    by_kind: Mapping[type[Any], WriteCheck] = {}
    for_nodes: WriteCheck = lambda *_: None
    """The check on writes by kubelets."""
    require_create: CreateCheck = lambda *_: None

    def check_write(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        """Raise Forbidden if a check refuses an admitted write."""
        if users.NODES in user.groups:
            self.for_nodes(user, new, old, subresource)
        check = self.by_kind.get(type(new)) if new is not None else None
        if check is not None:
            check(user, new, old, subresource)


class Projection(msgspec.Struct, frozen=True):
    """Two functions for a subresource of another kind, such as Scale: to read it from its object and write it back."""

    kind: Kind
    of: Callable[[Resource], Resource]
    into: Callable[[Resource, Resource | None], None]
    """Writes a changed projection back into the object."""


class WriteAdmission(msgspec.Struct, eq=False):
    """Admits the objects of writes, and requests that only policies and webhooks concern."""

    scheme: Scheme
    options: AdmissionOptions
    clock: Clock
    lookups: AdmissionLookups
    access: AccessChecks
    managers: FieldManagers
    extensions: Chain
    """The chain of policies and webhooks."""
    known_specs: ValidSpecCache = msgspec.field(default_factory=ValidSpecCache)

    def may_match_extensions(self, call: Call, operation: str) -> bool:
        """Return whether a policy or webhook may match a write, so that the write must consult them."""
        key = MatchKey(call.kind, call.subresource, operation, bool(call.namespace))
        return not (self.extensions.is_idle or self.extensions.ignores(key))

    def _attributes_of(
        self,
        call: Call,
        operation: str,
        obj: Resource | None,
        old: Resource | None,
        *,
        kind: Kind | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Attributes | None:
        """Return a write as policies and webhooks see it; None if none can match.

        `kind` is the kind of the object in a subresource; `options` replace those of the query.
        """
        if self.extensions.is_idle or call.request.user is users.SERVER:
            return None  # the server does not wait for webhooks
        name = call.name or (obj.metadata.name if obj is not None else "")
        of_namespace = call.kind.group == "" and call.kind.plural == "namespaces"
        namespace = name if of_namespace else call.namespace
        if self.extensions.ignores(MatchKey(call.kind, call.subresource, operation, bool(namespace))):
            return None
        given = options or options_tree(call.request, _OPTIONS[operation])
        attributes = Attributes(
            scheme=self.scheme,
            operation=operation,
            resource_kind=call.kind,
            kind=GroupVersionKind.of_kind(kind or call.kind),
            resource=GroupVersionResource.of_kind(call.kind),
            subresource=call.subresource,
            namespace=namespace,
            name=name,
            obj=obj,
            old=old,
            user=call.request.user,
            dry_run="dryRun" in given,
            options=given,
            audit_annotations=call.request.audit_annotations,
            warnings=call.warnings,
        )
        return None if attributes.is_policy else attributes

    async def admit(self, call: Call, operation: str, obj: Resource | None, old: Resource | None, **other: Any) -> None:
        """Have policies and webhooks admit a request without built-in admission; raise the error of a refusal."""
        attributes = self._attributes_of(call, operation, obj, old, **other)
        if attributes is not None:
            await self.extensions.admit(attributes)

    async def admit_new(
        self, call: Call, obj: Resource, options: WriteOptions, *, managed_already: bool = False
    ) -> Resource:
        """Run all of admission on a new object, and record who manages its fields; return it as it will be stored."""
        request = await self._make_request(call, obj)

        def begin() -> None:
            strategy_of(call.stored.hub.type).default(obj)
            if not managed_already and not self.managers.clear_if_requested(obj):
                # before admission: what it adds has no field manager
                self.managers.create(call.kind, obj, Manager(options.manager, call.subresource, request.now))
            pipeline.begin_create(obj, request, defaulted=True)

        size = len(call.request.body)
        await run_by_size(begin, size)
        return await self._admit(call, request, obj, None, size=size)

    async def admit_update(
        self, call: Call, new: Resource, old: Resource, part: str, view: Projection | None, *, size: int
    ) -> Resource:
        """Run all of admission on a changed object; return it as it will be stored."""
        request = await self._make_request(call, None if part == "status" else new)
        await run_by_size(partial(pipeline.begin_update, new, old, request, part), size)
        return await self._admit(call, request, new, old, part=part, view=view, size=size)

    async def _admit(
        self,
        call: Call,
        request: Request,
        new: Resource,
        old: Resource | None,
        *,
        part: str = "",
        view: Projection | None = None,
        size: int,
    ) -> Resource:
        """Run policies, webhooks and the rest of built-in admission; return the object as it will be stored."""
        operation = CREATE if old is None else UPDATE
        shown, before = (new, old) if view is None else (view.of(new), old and view.of(old))
        attributes = self._attributes_of(call, operation, shown, before, kind=view.kind if view else None)
        if attributes is not None and view is None:
            await self.extensions.mutate(attributes, lambda changed: pipeline.mutate_again(changed, old, request, part))
            new = attributes.obj or new
        elif attributes is not None and view is not None:
            await self.extensions.mutate(attributes, lambda _: None)
            view.into(new, attributes.obj)
        if old is None:
            await run_by_size(partial(pipeline.finish_create, new, request), size)
        else:
            await run_by_size(partial(pipeline.finish_update, new, old, request, part), size)
        self.access.check_write(call.request.user, new, old, part)
        if attributes is not None:
            attributes.replace_object(new if view is None else view.of(new))
            attributes.name = new.metadata.name
            await self.extensions.validate(attributes)
        return new

    async def _make_request(self, call: Call, obj: Resource | None) -> Request:
        """Return the input of built-in admission: user, operation, and lookups for a write of `obj`."""
        return Request(
            options=self.options,
            lookups=await self.lookups.load_for(obj, call.namespace),
            now=self.clock.now(),
            namespace=call.namespace,
            name=call.name,
            user=call.request.user,
            known_specs=self.known_specs,
            warnings=call.warnings,
        )

    def record_managers(self, call: Call, options: WriteOptions, old: Resource, new: Resource) -> None:
        """Update `metadata.managedFields` of `new` for the fields that a request changed."""
        self.managers.update(call.kind, old, new, self.field_manager_of(call, options))

    def field_manager_of(self, call: Call, options: WriteOptions) -> Manager:
        return Manager(options.manager, call.subresource, self.clock.now())
