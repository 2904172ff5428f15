"""Dispatches requests for objects by verb and subresource: `requests/app.py` calls `Resources.handle`.

    resources = Resources(HandlerContext(store, StoredKinds(scheme), options, clock))
    response = await resources.handle(request, route)

Read next: ``context.py`` for what all handlers share, then ``verbs/reading.py`` and ``verbs/changes.py``.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.admission.registry import register, unregister
from mooring.api import errors
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.apiextensions_v1 import TERMINATING, holds
from mooring.api.kinds import Kind
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.output import protobuf as protobuf_output
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.verbs.changes import ObjectWrites
from mooring.apiserver.registry.verbs.deleting import Deleting, LastUpdate
from mooring.apiserver.registry.verbs.executor import Outcome, Write, WriteExecutor, status_of
from mooring.apiserver.registry.verbs.pods import Pods
from mooring.apiserver.registry.verbs.reading import Reading
from mooring.apiserver.registry.verbs.scaling import Scaling
from mooring.apiserver.registry.verbs.templates import ChangeTemplate, CreationTemplate, make_template
from mooring.apiserver.registry.verbs.watching import Watching
from mooring.store.errors import StoreError

Handler = Callable[[Call], Awaitable[Response]]
MakeWrite = Callable[[Call, Any], Write]
"""A function that makes a verb's write; its second argument is the verb's template, or None."""
_OPERATIONS = {"create": CREATE, "update": UPDATE, "patch": UPDATE, "delete": DELETE}


class Batch(msgspec.Struct, frozen=True):
    """Writes of one `POST /writes` that differ only in names and bodies, to be executed together."""

    requests: Sequence[Request]
    routes: Sequence[ResourceRoute] = ()
    deletions: Sequence[Request] = ()
    """For each update, the deletion that follows it."""


class Resources:
    """Handles the API requests for objects of every kind: finds the verb's handler and calls it."""

    def __init__(self, context: HandlerContext) -> None:
        self.context = context
        reading, self._executor = Reading(self.context), WriteExecutor(self.context)
        self._object_writes = object_writes = ObjectWrites(self.context)
        self._deleting = deleting = Deleting(self.context, self._executor, reading)
        self._watching = Watching(self.context)
        self._pods = Pods(self.context, self._executor, deleting)
        scaling = Scaling(self.context, self._executor, object_writes)
        self._writes: dict[tuple[str, str], MakeWrite] = {
            ("", "create"): object_writes.create,
            ("", "update"): object_writes.update,
            ("", "patch"): object_writes.patch,
            ("", "delete"): deleting.delete,
            ("binding", "create"): self._pods.bind,
        }
        """The makers of writes, by subresource and verb; those without a subresource serve other subresources too."""
        self._handlers: dict[tuple[str, str], Handler] = {
            ("", "get"): reading.get,
            ("", "list"): reading.list,
            ("", "watch"): self._watching.watch,
            ("", "deletecollection"): deleting.delete_collection,
            ("eviction", "create"): self._pods.evict,
            ("scale", "get"): scaling.get,
            ("scale", "update"): scaling.update,
            ("scale", "patch"): scaling.patch,
        }

    def serve(self, kinds: Collection[Kind]) -> None:
        """Start serving all versions of a custom kind; they must be in the scheme."""
        from mooring.admission.custom.strategy import CustomStrategy  # noqa: PLC0415 - most servers never need it

        for kind in kinds:
            self.context.kinds.add_custom(kind)
            register(CustomStrategy(kind))
        self.context.accounting.recount("")

    def stop_serving(self, kinds: Collection[Kind]) -> None:
        """Stop serving the versions of a custom kind, and end the watches of its objects."""
        for kind in kinds:
            self.context.kinds.remove_custom(kind)
            unregister(kind.type)
        self._watching.end_watches_of(kinds)

    async def delete_all(self, kind: Kind) -> bool:
        """Delete all objects of a custom kind; return whether none remains (finalizers may keep some)."""
        return await self._deleting.delete_all(kind)

    @property
    def open_watches(self) -> int:
        return self._watching.open_watches

    def end_watches(self) -> None:
        """End every watch cleanly, before the server stops."""
        self._watching.end_all()

    async def handle(self, request: Request, route: ResourceRoute) -> Response:
        """Return the response to a request for objects; raise a `StatusError` for the client if it fails."""
        kind, verb = route.kind, route.verb(request)
        try:
            self._check_verb(route, verb)
            accepted = _response_format(request, kind)
            is_binding = kind is self._pods.kind  # `POST bindings`, which binds the pod that the body names
            stored = self._pods.stored if is_binding else self.context.kinds.find(kind)
            call = Call(request, kind, stored, route.namespace, route.name, route.subresource, accepted)
            if warning := self.context.kinds.scheme.deprecation_warning(kind):
                call.warn(warning)
            handler = self._handlers.get((route.subresource, verb)) or self._handlers.get(("", verb))
            try:
                if handler is not None:
                    return await handler(call)
                make = self._pods.bind if is_binding else self._write_maker(route, verb)
                return await self._executor.execute_one(make(call, None))
            except errors.StatusError as error:
                error.warnings = call.warnings
                raise
        except StoreError as error:
            raise status_of(error) from None

    async def write(self, batch: Batch) -> Sequence[Outcome] | None:
        """Execute a batch; return a response or error for each write. Return None if they must be sent alone."""
        first, kind = batch.routes[0], batch.routes[0].kind
        verb = first.verb(batch.requests[0])
        place = (first.subresource, verb)
        is_special = place in self._handlers or ("", verb) not in self._writes
        creates_no_object = verb == "create" and bool(first.subresource)  # such as a token
        if is_special or (creates_no_object and place not in self._writes):
            return None
        if not kind.stored or self.context.kinds.scheme.deprecation_warning(kind):
            return None
        self._check_verb(first, verb)
        calls = self._build_calls(batch.requests, batch.routes)
        try:
            outcomes = await self._executor.execute(self._batch_writes(batch, verb, calls))
        except StoreError as error:
            raise status_of(error) from None
        for call, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, errors.StatusError):
                outcome.warnings = call.warnings
        return outcomes

    def _batch_writes(self, batch: Batch, verb: str, calls: Sequence[Call]) -> list[Write]:
        shared = self._shared_template(calls[0], verb)
        templates: list[Any] = [shared if shared and shared.takes(call.request.row) else None for call in calls]
        make = self._write_maker(batch.routes[0], verb)
        if not batch.deletions:
            return list(map(make, calls, templates))
        routes = [replace(route, subresource="") for route in batch.routes]
        last = self._build_calls(batch.deletions, routes)
        return [
            LastUpdate(self.context, call, self._object_writes.update(call, template), self._deleting.delete(deletion))
            for call, deletion, template in zip(calls, last, templates, strict=True)
        ]

    def _write_maker(self, route: ResourceRoute, verb: str) -> MakeWrite:
        return self._writes.get((route.subresource, verb)) or self._writes["", verb]

    def _shared_template(self, call: Call, verb: str) -> CreationTemplate | ChangeTemplate | None:
        """Return the state by which a batch's writes reuse one admission; None if each needs its own.

        Only pods share one, and only if no policy, webhook or quota must see each.
        """
        context, operation = self.context, _OPERATIONS[verb]
        shares = {"create": call.subresource == "", "update": call.subresource == "status"}
        if call.request.row is None or not shares.get(verb, True) or users.NODES in call.request.user.groups:
            return None
        if call.kind is not self._pods.stored.hub or context.admission.may_match_extensions(call, operation):
            return None
        if operation != CREATE and not context.accounting.has_no_quotas(call.namespace):
            return None
        return make_template(call.request, verb, call.subresource)

    def _build_calls(self, requests: Sequence[Request], routes: Sequence[ResourceRoute]) -> list[Call]:
        kind = routes[0].kind
        stored, accepted = self.context.kinds.find(kind), _response_format(requests[0], kind)
        return [
            Call(request, kind, stored, route.namespace, route.name, route.subresource, accepted)
            for request, route in zip(requests, routes, strict=True)
        ]

    def _check_verb(self, route: ResourceRoute, verb: str) -> None:
        """Raise MethodNotAllowed if a resource, at this path, does not support a verb."""
        kind = route.kind
        subresource = kind.subresource(route.subresource) if route.subresource else None
        verbs = subresource.verbs if subresource else kind.verbs
        misplaced = (
            (verb == "create" and bool(route.name) != bool(subresource))
            or (verb in {"update", "patch"} and not route.name)
            or (verb == "create" and kind.namespaced and not route.namespace)
            or (verb == "deletecollection" and kind.namespaced and not route.namespace)
        )
        if verb not in verbs or misplaced or not (kind.stored or kind is self._pods.kind):
            raise errors.method_not_allowed(verb, kind.plural, group=kind.group)
        if verb == "create" and kind.custom and holds(kind.custom.definition, TERMINATING):
            refusal = errors.method_not_allowed(verb, kind.plural, group=kind.group)
            refusal.status.message = f"{verb} not allowed while custom resource definition is terminating"
            raise refusal


def _response_format(request: Request, kind: Kind) -> Accepted:
    """Return the client's preferred format, except protobuf for a kind without message; raise NotAcceptable if none."""
    found = request.negotiate_format()
    if found.format == "protobuf" and not protobuf_output.has_message(kind.type, found.shown_as):
        return request.negotiate_format(protobuf=False)
    return found
