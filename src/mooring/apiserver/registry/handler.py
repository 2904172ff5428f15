"""Requests for objects, sorted by verb and subresource: `Resources.handle` is what the edge calls.

    resources = Resources(store, scheme, options, clock)
    response = await resources.handle(request, route)

Read next: ``context.py`` for what all handlers share, then ``reading.py``, ``writing.py``, ``watching.py``.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from mooring.admission.options import AdmissionOptions
from mooring.api import errors
from mooring.api.apiextensions_v1 import TERMINATING, holds
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.messages.routes import MANY, ResourceRoute
from mooring.apiserver.output import protobuf as protobuf_output
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.registry.batch_writer import BatchWriter, Outcome, PairOutcome
from mooring.apiserver.registry.claims import Claims
from mooring.apiserver.registry.context import Call, CreateCheck, Guard, HandlerContext, StoredAs
from mooring.apiserver.registry.deleting import Deleting
from mooring.apiserver.registry.pods.pods import Pods
from mooring.apiserver.registry.reading import Reading
from mooring.apiserver.registry.scaling import Scaling
from mooring.apiserver.registry.store_errors import status_of
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.watching import Watching
from mooring.apiserver.registry.writing import Writing
from mooring.base.clock import Clock, SystemClock
from mooring.store.errors import StoreError
from mooring.store.kv import Store

Handler = Callable[[Call], Awaitable[Response]]


class Resources:
    """Every stored kind at every served version."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        options: AdmissionOptions,
        clock: Clock | None = None,
        tables: Tables | None = None,
        *,
        guard: Guard | None = None,
        create_check: CreateCheck | None = None,
        stored_as: StoredAs = Stored,
    ) -> None:
        self.context = HandlerContext(
            store,
            scheme,
            options,
            clock or SystemClock(),
            tables,
            guard=guard,
            create_check=create_check,
            stored_as=stored_as,
        )
        reading, writing = Reading(self.context), Writing(self.context)
        self.create_object = writing.create_object
        self._create_alike = writing.create_alike
        deleting = self._deleting = Deleting(self.context, reading)
        self._together = BatchWriter(self.context, writing, deleting)
        self._watching = Watching(self.context)
        self._pods = Pods(self.context, deleting)
        self._claims = Claims(self.context, writing)
        scaling = Scaling(self.context, writing)
        self._verbs: dict[str, Handler] = {
            "get": reading.get,
            "list": reading.list,
            "watch": self._watching.watch,
            "create": writing.create,
            "update": writing.update,
            "patch": writing.patch,
            "delete": deleting.delete,
            "deletecollection": deleting.delete_collection,
        }
        self._subresources: dict[tuple[str, str], Handler] = {
            ("binding", "create"): self._pods.bind,
            ("eviction", "create"): self._pods.evict,
            ("scale", "get"): scaling.get,
            ("scale", "update"): scaling.update,
            ("scale", "patch"): scaling.patch,
        }

    def learn(self, kinds: Iterable[Kind]) -> None:
        """Serve all versions of a custom kind, which the scheme knows already."""
        self.context.learn(kinds)

    def expect_current(self, kinds: Iterable[Kind], *, after: int) -> None:
        """Custom objects that are written after a revision look as their definition wants them now."""
        self.context.expect_current(kinds, after)

    def forget(self, kinds: Iterable[Kind]) -> None:
        """Serve a custom kind no longer: who watches it is sent away."""
        kinds = tuple(kinds)
        self.context.forget(kinds)
        self._watching.end_of(kinds)

    async def delete_all(self, kind: Kind) -> bool:
        """Delete every object of a custom kind; whether none is left, for finalizers may hold some."""
        return await self._deleting.delete_all(kind)

    @property
    def open_watches(self) -> int:
        return self._watching.open_watches

    def end_watches(self) -> None:
        """End every watch cleanly: the server is about to stop."""
        self._watching.end_all()

    async def handle(self, request: Request, route: ResourceRoute) -> Response:
        """Do what a request asks; raises a `StatusError` for the client otherwise."""
        kind, verb = route.kind, route.verb(request)
        try:
            if kind.kind == "Binding" and kind.group == "" and verb == "create":
                return await self._pods.bindings(request, route)
            if (
                route.name == MANY
                and not route.namespace
                and verb == "update"
                and kind is self.context.stored(kind).hub
            ):
                return await self._claims.update_many(request, route)
            self._check_verb(route, verb)
            accepted = _accepted(request, kind)
            stored = self.context.stored(kind)
            call = Call(request, kind, stored, route.namespace, route.name, route.subresource, accepted)
            if warning := self.context.scheme.deprecation_warning(kind):
                call.warn(warning)
            return await (self._subresources.get((route.subresource, verb)) or self._verbs[verb])(call)
        except StoreError as error:
            raise status_of(error) from None

    async def create_alike(
        self, request: Request, route: ResourceRoute, count: int
    ) -> "list[Response | Exception] | None":
        """So many pods like the one in the body; None where each has to be created by a request of its own."""
        kind = route.kind
        if kind.kind != "Pod" or kind.group or not route.namespace or route.name:
            return None
        call = Call(request, kind, self.context.stored(kind), route.namespace, "", "", _accepted(request, kind))
        return await self._create_alike(call, count)

    async def write_together(
        self, requests: Sequence[Request], routes: Sequence[ResourceRoute]
    ) -> Sequence[Outcome] | None:
        """Do writes that differ in nothing but names and bodies; None where each has to be done by itself."""
        verb = routes[0].verb(requests[0])
        calls = self._calls(requests, routes, verb)
        if calls is None:
            return None
        try:
            return await self._together.write(verb, calls)
        except StoreError as error:
            raise status_of(error) from None

    async def end_together(
        self,
        writes: tuple[Sequence[Request], Sequence[ResourceRoute]],
        deletions: tuple[Sequence[Request], Sequence[ResourceRoute]],
    ) -> Sequence[PairOutcome] | None:
        """Update objects, and delete each at once; None where each has to be done by itself."""
        calls = self._calls(*writes, "update")
        last = self._calls(*deletions, "delete") if calls else None
        if not calls or not last:
            return None
        try:
            return await self._together.end(list(zip(calls, last, strict=True)))
        except StoreError as error:
            raise status_of(error) from None

    def _calls(self, requests: Sequence[Request], routes: Sequence[ResourceRoute], verb: str) -> list[Call] | None:
        """Requests of one sort that can be done together; None where they cannot."""
        first, kind = routes[0], routes[0].kind
        if kind.custom or not kind.stored or self.context.scheme.deprecation_warning(kind):
            return None
        stored = self.context.stored(kind)
        accepted = _accepted(requests[0], kind)
        calls = [
            Call(request, kind, stored, route.namespace, route.name, route.subresource, accepted)
            for request, route in zip(requests, routes, strict=True)
        ]
        if first.verb(requests[0]) != verb or not self._together.concerns(calls[0], verb):
            return None
        self._check_verb(first, verb)
        return calls

    def _check_verb(self, route: ResourceRoute, verb: str) -> None:
        """Raises MethodNotAllowed for a verb that the resource does not have, or not at this place."""
        kind = route.kind
        subresource = kind.subresource(route.subresource) if route.subresource else None
        verbs = subresource.verbs if subresource else kind.verbs
        misplaced = (
            (verb == "create" and bool(route.name) != bool(subresource))
            or (verb in {"update", "patch"} and not route.name)
            or (verb == "create" and kind.namespaced and not route.namespace)
            or (verb == "deletecollection" and kind.namespaced and not route.namespace)
        )
        if verb not in verbs or misplaced or not kind.stored:
            raise errors.method_not_allowed(verb, kind.plural, group=kind.group)
        if verb == "create" and kind.custom and holds(kind.custom.definition, TERMINATING):
            refusal = errors.method_not_allowed(verb, kind.plural, group=kind.group)
            refusal.status.message = f"{verb} not allowed while custom resource definition is terminating"
            raise refusal


def _accepted(request: Request, kind: Kind) -> Accepted:
    """What the answer should look like, of what it can look like."""
    found = request.accepted()
    if found.format == "protobuf" and not protobuf_output.supports(kind.type, found.shown_as):
        return request.accepted(protobuf=False)
    return found
