"""The state that all handlers of object requests share: store, scheme, admission options, lookups, clock.

One `HandlerContext` serves all requests; a `Call` is one request. Read next: ``reading.py``.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from mooring.admission import strategy as admission
from mooring.admission.accounting.evaluators import Evaluators
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.known_specs import ValidSpecCache
from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, MatchKey
from mooring.admission.registry import register, strategy_of, unregister
from mooring.api import errors
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod, ResourceQuota, Service
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.response_limits import add_warning
from mooring.api.scheme import Scheme
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Accepted, Request
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.registry.admission_chain import Chain
from mooring.apiserver.registry.admission_lookups import AdmissionLookups
from mooring.apiserver.registry.decoded_cache import DecodedCache
from mooring.apiserver.registry.lowering_for_nodes import NodeLowering, Renderer
from mooring.apiserver.registry.parameters import options_tree
from mooring.apiserver.registry.quota.accounting import QuotaAccounting
from mooring.apiserver.registry.selection import Selections
from mooring.apiserver.registry.stored import Stored
from mooring.base.clock import Clock, SystemClock
from mooring.store.kv import Delete, KeyValue, Store

Guard = Callable[[UserInfo, Resource | None, Resource | None, str], None]
"""A check that raises Forbidden for an admitted write: of user, new object, old object and subresource.

The old object is None for a create, the new one for a delete or an eviction.
"""

_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}

CreateCheck = Callable[[UserInfo, Kind, str, str], None]
"""A check that raises Forbidden if an update or patch may not create an object: of kind, namespace and name."""

StoredAs = Callable[[Scheme, Kind], Stored]
"""A function that returns a custom kind's `Stored`; ``extension/converting.py`` has one for webhooks."""


class Call(msgspec.Struct):
    """One request for a kind's objects: request, route, kind, response format, and the warnings so far."""

    request: Request
    kind: Kind
    stored: Stored
    namespace: str
    name: str
    subresource: str
    accepted: Accepted
    warnings: list[str] = []

    def not_found(self) -> errors.NotFound:
        return errors.not_found(self.kind.plural, self.name, group=self.kind.group)

    def warn(self, *texts: str) -> None:
        for text in texts:
            add_warning(self.warnings, text)


class Allocation(Protocol):
    """The interface that allocates cluster IPs and node ports (``services/allocation.py``)."""

    async def reserve(self, new: Service, old: Service | None, *, dry_run: bool) -> Callable[[bool], Awaitable[None]]:
        """Set the addresses and ports that a Service lacks; raise a `StatusError` if none is left.

        The returned function must be called after the write, with whether that succeeded: it releases what is unused.
        """

    async def release(self, service: Service) -> None:
        """Release the addresses and ports of a Service that was deleted."""


class HandlerContext:
    """The state shared by all handlers of object requests: store, scheme, options, lookups and extensions."""

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
        extensions: Chain | None = None,
        decoded: DecodedCache | None = None,
        allocate: "Callable[[HandlerContext], Allocation] | None" = None,
    ) -> None:
        self.store = store
        self.scheme = scheme
        self.options = options
        self.clock = clock or SystemClock()
        self.tables = tables
        self.guard = guard or (lambda *_: None)  # tests without roles allow every write
        self.create_check = create_check or (lambda *_: None)
        self._stored_as = stored_as
        self.decoded = decoded or DecodedCache()
        self.lookups = lookups = AdmissionLookups.for_store(store, self.decoded)
        self.selections = Selections()
        self._known_specs = ValidSpecCache()
        self._stored = {kind.family: Stored(scheme, kind) for kind in scheme.known if kind.stored}
        self._unserved = [
            stored
            for stored in self._stored.values()
            if stored.hub.namespaced and not any(map(scheme.is_served, scheme.family(stored.hub)))
        ]
        self._custom: dict[Kind, Stored] = {}
        self.evaluators = Evaluators(
            options, self.clock.now, extended=lookups.extended_resources, pod_of=lookups.pod_of_claim
        )
        self.accounting = QuotaAccounting(store, self.stored_quotas, self.evaluators, self.decoded)
        self._node_lowering = NodeLowering(store, options, self.decoded)
        self.extensions = extensions or Chain()
        """The chain of policies and webhooks."""
        self.allocation = allocate(self) if allocate is not None else None

    @property
    def stored_quotas(self) -> Stored:
        return self.stored_kind(self.scheme.hub_of(ResourceQuota))

    def every_stored(self) -> Iterable[Stored]:
        """Return the `Stored` of each kind; the versions of a kind have one in common."""
        custom = {stored.prefix: stored for stored in self._custom.values()}
        return (*self._stored.values(), *custom.values())

    def stored_kind(self, kind: Kind) -> Stored:
        """Return the `Stored` of a kind, which encodes and decodes its objects."""
        return self._custom[kind] if kind.custom else self._stored[kind.family]

    def serve(self, kinds: Iterable[Kind]) -> None:
        """Start serving all versions of a custom kind; they must be in the scheme."""
        from mooring.admission.custom.strategy import CustomStrategy  # noqa: PLC0415 - most servers never need it

        for kind in kinds:
            self._custom[kind] = self._stored_as(self.scheme, kind)
            register(CustomStrategy(kind))
        self.accounting.recount("")

    def expect_current(self, kinds: Iterable[Kind], after: int) -> None:
        """Record that custom objects written after a revision conform to the schema: no pruning on reads."""
        for kind in kinds:
            if kind in self._custom:
                self._custom[kind].current_after = after

    def stop_serving(self, kinds: Iterable[Kind]) -> None:
        """Stop serving all versions of a custom kind; their stored objects are not touched."""
        for kind in kinds:
            self._custom.pop(kind, None)
            unregister(kind.type)

    def renderer_for(self, call: Call) -> Renderer:
        """Return the renderer of stored objects; for a kubelet, one that lowers new operators to old ones."""
        return self._node_lowering.renderer_for(call.request, call.stored)

    def strategy(self, stored: Stored) -> admission.Strategy[Any]:
        return strategy_of(stored.hub.type)

    async def find(self, call: Call) -> KeyValue:
        """Return the stored object (key, bytes, revision) that a request names; raise NotFound if there is none."""
        await self.store.revision()
        kv = self.store.peek(call.stored.key(call.namespace, call.name))
        if kv is None:
            raise call.not_found()
        if call.stored.needs_webhook:
            await call.stored.prepare([kv.value], call.stored.hub)
        return kv

    async def clear_unserved(self, namespace: str) -> None:
        """Delete objects in a deleted namespace whose kinds this server does not serve.

        An emulated older version may lack their kinds, and a new namespace of the same name must not contain them.
        """
        for stored in self._unserved:
            page = await self.store.range(stored.prefix_of(namespace))
            await self.store.write_all([Delete(kv.key) for kv in page.items])

    def may_match_extensions(self, call: Call, operation: str) -> bool:
        """Return whether a policy or webhook may match a write, so that the write must consult them."""
        if self.extensions.is_idle:
            return False
        return not self.extensions.ignores(MatchKey(call.kind, call.subresource, operation, bool(call.namespace)))

    def may_share_admission(self, call: Call, operation: str) -> bool:
        """Return whether a batch's pods may share one admission: no policy, webhook or quota must see each."""
        return (
            call.stored.hub.type is Pod
            and call.kind is call.stored.hub
            and users.NODES not in call.request.user.groups
            and not self.may_match_extensions(call, operation)
            and (operation == CREATE or self.accounting.has_no_quotas(call.namespace))
        )

    def attributes_of(
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
        attributes = self.attributes_of(call, operation, obj, old, **other)
        if attributes is not None:
            await self.extensions.admit(attributes)

    async def admission_request(self, call: Call, obj: Resource | None = None) -> admission.Request:
        """Return the input of built-in admission: user, operation, and lookups for a write of `obj`."""
        return admission.Request(
            options=self.options,
            lookups=await self.lookups.load_for(obj, call.namespace),
            now=self.clock.now(),
            namespace=call.namespace,
            name=call.name,
            user=call.request.user,
            known_specs=self._known_specs,
        )


class KindCheck(Protocol):
    """A check in ``access/`` that raises Forbidden for some writes of the kinds that it names."""

    @property
    def kinds(self) -> tuple[type[Resource], ...]: ...

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None: ...


def guard_of(checks: Iterable[KindCheck], nodes: Guard) -> Guard:
    """Return one function that runs the checks for the written kind and, for kubelets, `nodes`."""
    by_kind = {kind: each.check for each in checks for kind in each.kinds}

    def guard(user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        if users.NODES in user.groups:
            nodes(user, new, old, subresource)
        found = by_kind.get(type(new))  # type: ignore[arg-type] # None is no kind
        if found is not None:
            found(user, new, old, subresource)

    return guard
