"""What all handlers share: the store, the scheme, admission's options and lookups, and the clock.

`HandlerContext` is made once by `Resources`; a `Call` is one request on its way through it. Read next: ``reading.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from mooring.admission import strategy as admission
from mooring.admission.accounting.evaluators import Evaluators
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.known_specs import KnownSpecs
from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, MatchKey
from mooring.admission.registry import register, strategy_of, unregister
from mooring.api import errors
from mooring.api.admissionregistration_v1 import CREATE, DELETE, UPDATE
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod, Service
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.response_limits import add_warning
from mooring.api.scheme import Scheme
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Accepted, Request
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.registry.admission_chain import Chain
from mooring.apiserver.registry.decoded_cache import DecodedCache
from mooring.apiserver.registry.device_facts import DeviceFacts
from mooring.apiserver.registry.facts import ClusterFacts
from mooring.apiserver.registry.lowering_for_nodes import NodeLowering, Rendering
from mooring.apiserver.registry.parameters import options_tree
from mooring.apiserver.registry.quota.accounting import QuotaAccounting
from mooring.apiserver.registry.selection import Selections
from mooring.apiserver.registry.stored import Stored
from mooring.base.clock import Clock
from mooring.store.kv import Delete, KeyValue, Store

Guard = Callable[[UserInfo, Resource | None, Resource | None, str], None]
"""Raises Forbidden when a user may not write an object that admission has let pass, through a subresource or "".

The old object is None when one is created, the new one when it is deleted or evicted.
"""


_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}

CreateCheck = Callable[[UserInfo, Kind, str, str], None]
"""Raises Forbidden when a user may not create an object of a kind, in a namespace and by a name: for requests whose
verb is another one."""

StoredAs = Callable[[Scheme, Kind], Stored]
"""How objects of a custom kind are read and written; ``extension/converting.py`` has one for conversion webhooks."""


class Call(msgspec.Struct):
    """One request: where it goes, what its answer should look like, and what to warn of."""

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


class Reserved(Protocol):
    """What was taken for an object that is about to be written."""

    async def commit(self) -> None:
        """It was written."""
        ...

    async def undo(self) -> None:
        """It was not."""
        ...


class Allocation(Protocol):
    """Gives out what only one object can have: the addresses and ports of Services."""

    async def reserve(self, new: Service, old: Service | None, *, dry_run: bool) -> Reserved:
        """Take what an object lacks, and write it into it; raises a `StatusError` if that is not to be had."""
        ...

    async def released(self, service: Service) -> None:
        """An object is gone, and needs nothing any more."""
        ...


class HandlerContext:
    """The shared ground of the handlers."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        options: AdmissionOptions,
        clock: Clock,
        tables: Tables | None,
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
        self.clock = clock
        self.tables = tables
        self.guard = guard or _no_guard
        self._create_check = create_check
        self._stored_as = stored_as
        self.decoded = decoded or DecodedCache()
        self.facts = ClusterFacts(store, self.decoded)
        self.selections = Selections()
        self._known_specs = KnownSpecs()
        self._stored = {kind.family: Stored(scheme, kind) for kind in scheme.known if kind.stored}
        self._unserved = [
            stored
            for stored in self._stored.values()
            if stored.hub.namespaced and not any(map(scheme.is_served, scheme.family(stored.hub)))
        ]
        self._custom: dict[Kind, Stored] = {}
        devices = DeviceFacts(store)
        self.evaluators = Evaluators(options, clock.now, extended=devices.extended, pod_of=devices.pod_of)
        self.accounting = QuotaAccounting(store, self.stored_quotas, self.evaluators, self.decoded)
        self._node_lowering = NodeLowering(store, options, self.decoded)
        self.extensions = extensions or Chain()
        """Policies and webhooks, which take part in admission."""
        self.allocation = allocate(self) if allocate is not None else None
        """Gives Services their addresses; None in tests that need none."""

    @property
    def stored_quotas(self) -> Stored:
        kind = self.scheme.kind("v1", "ResourceQuota")
        assert kind is not None, "the scheme always has quotas"  # noqa: S101 - api/kinds.py lists them
        return self.stored(kind)

    def every_stored(self) -> Iterable[Stored]:
        """All kinds of objects that there are, each once."""
        custom = {stored.prefix: stored for stored in self._custom.values()}
        return (*self._stored.values(), *custom.values())

    def stored(self, kind: Kind) -> Stored:
        return self._custom[kind] if kind.custom else self._stored[kind.family]

    def learn(self, kinds: Iterable[Kind]) -> None:
        """Serve all versions of a custom kind, which the scheme knows already."""
        from mooring.admission.custom.strategy import CustomStrategy  # noqa: PLC0415 - most servers never need it

        for kind in kinds:
            self._custom[kind] = self._stored_as(self.scheme, kind)
            register(CustomStrategy(kind))
        self.accounting.in_doubt("")

    def expect_current(self, kinds: Iterable[Kind], after: int) -> None:
        """Read what is written after a revision as it is; before, objects are brought up to their definition."""
        for kind in kinds:
            if kind in self._custom:
                self._custom[kind].current_after = after

    def forget(self, kinds: Iterable[Kind]) -> None:
        """Serve a custom kind no longer."""
        for kind in kinds:
            self._custom.pop(kind, None)
            unregister(kind.type)

    def read_by(self, call: Call) -> Rendering:
        """The objects of a call's kind as its sender reads them."""
        return self._node_lowering.of(call.request, call.stored)

    def strategy(self, stored: Stored) -> admission.Strategy[Any]:
        return strategy_of(stored.hub.type)

    def require_create(self, call: Call) -> None:
        """Raises Forbidden unless the user may create what an update or a patch of theirs would create."""
        if self._create_check is not None:
            self._create_check(call.request.user, call.kind, call.namespace, call.name)

    async def reserve(self, new: Resource, old: Resource | None, *, dry_run: bool) -> Reserved | None:
        """Take what an object lacks before it is written."""
        if self.allocation is None or not isinstance(new, Service):
            return None
        return await self.allocation.reserve(new, old if isinstance(old, Service) else None, dry_run=dry_run)

    async def released(self, gone: Resource) -> None:
        """Let go what an object had that is gone."""
        if self.allocation is not None and isinstance(gone, Service):
            await self.allocation.released(gone)

    async def find(self, call: Call) -> KeyValue:
        """The stored object that a call names; raises NotFound."""
        await self.store.revision()
        kv = self.store.peek(call.stored.key(call.namespace, call.name))
        if kv is None:
            raise call.not_found()
        if call.stored.asks:
            await call.stored.prepare([kv.value], call.stored.hub)
        return kv

    async def clear_unserved(self, namespace: str) -> None:
        """Delete what a namespace holds of kinds that this server does not serve, and that nobody else can delete.

        Older versions may be emulated for a while: a namespace that is made again later must not own these objects.
        """
        for stored in self._unserved:
            page = await self.store.range(stored.prefix_of(namespace))
            await self.store.write_all([Delete(kv.key) for kv in page.items])

    def may_extend(self, call: Call, operation: str) -> bool:
        """Whether policies or webhooks may take part in a write."""
        if self.extensions.is_idle:
            return False
        return not self.extensions.spares(MatchKey(call.kind, call.subresource, operation, bool(call.namespace)))

    def may_share(self, call: Call, operation: str) -> bool:
        """Whether rows of one template may share an admission: nothing looks at each of them."""
        return (
            call.stored.hub.type is Pod
            and call.kind is call.stored.hub
            and users.NODES not in call.request.user.groups
            and not self.may_extend(call, operation)
            and (operation == CREATE or self.accounting.is_idle(call.namespace))
        )

    def extended(
        self,
        call: Call,
        operation: str,
        obj: Resource | None,
        old: Resource | None,
        *,
        kind: Kind | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Attributes | None:
        """A call as policies and webhooks see it; None where none can concern it.

        `kind` is that of the object, where a subresource has one of its own, and `options` are what the query does not
        say.
        """
        if self.extensions.is_idle or call.request.user is users.SERVER:
            return None  # what the server keeps for itself must not wait for anybody
        name = call.name or (obj.metadata.name if obj is not None else "")
        of_namespace = call.kind.group == "" and call.kind.plural == "namespaces"
        namespace = name if of_namespace else call.namespace
        if self.extensions.spares(MatchKey(call.kind, call.subresource, operation, bool(namespace))):
            return None
        told = options or options_tree(call.request, _OPTIONS[operation])
        attributes = Attributes(
            scheme=self.scheme,
            operation=operation,
            resource_kind=call.kind,
            kind=GroupVersionKind.of(kind or call.kind),
            resource=GroupVersionResource.of(call.kind),
            subresource=call.subresource,
            namespace=namespace,
            name=name,
            obj=obj,
            old=old,
            user=call.request.user,
            dry_run="dryRun" in told,
            options=told,
            audit_annotations=call.request.audit_annotations,
            warnings=call.warnings,
        )
        return None if attributes.is_policy else attributes

    async def admission_request(self, call: Call, obj: Resource | None = None) -> admission.Request:
        """What admission is told of a call, with what it may look up about `obj` fetched beforehand."""
        return admission.Request(
            options=self.options,
            lookups=await self.facts.about(obj, call.namespace),
            now=self.clock.now(),
            namespace=call.namespace,
            name=call.name,
            user=call.request.user,
            known_specs=self._known_specs,
        )


def all_of(*guards: Guard) -> Guard:
    """Several guards as one."""

    def check(user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        for guard in guards:
            guard(user, new, old, subresource)

    return check


def _no_guard(user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
    """Let everything pass: for servers without roles, as in tests."""
