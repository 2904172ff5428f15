"""What only pods have: binding them to nodes, one or many at a time, and evicting them within disruption budgets.

Binding many is Mooring's own, for its scheduler: a `BindingList` is posted to `/api/v1/bindings`, where Kubernetes has
nothing, and every binding gets a Status of its own in the answer. All of them go to the store in one round.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from mooring.admission.pod.binding import bind
from mooring.api import codec, errors
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Binding, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.deleting import Deleting
from mooring.apiserver.registry.parameters import check_type, read_body, write_options
from mooring.apiserver.registry.pods.disruption import Disruption
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.views import respond
from mooring.store.kv import Event, KeyValue, Put

_ATTEMPTS = 10


class BindingList(ResourceList):
    """Several bindings, in one request."""

    items: list[Binding] = []  # noqa: RUF012 - msgspec copies the empty list


class StatusList(ResourceList):
    """What became of each of them, in their order."""

    items: list[Status] = []  # noqa: RUF012 - as above


class Pods:
    """`pods/binding`, `bindings` and `pods/eviction`."""

    def __init__(self, context: HandlerContext, deleting: Deleting) -> None:
        self._context = context
        self._disruption = Disruption(context, deleting)

    async def bind(self, call: Call) -> Response:
        """`POST pods/web/binding`."""
        options = write_options(call.request, "CreateOptions")
        binding = self._read(call.request, options.validation)
        if binding.metadata.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Binding object")
        binding.metadata.name = call.name
        return await self._bind_one(call, binding, dry_run=options.dry_run)

    async def bindings(self, request: Request, route: ResourceRoute) -> Response:
        """`POST bindings`: one in a namespace, or a BindingList for all of them."""
        if route.namespace:
            options = write_options(request, "CreateOptions")
            binding = self._read(request, options.validation)
            call = Call(request, route.kind, self._stored, route.namespace, "", "", request.accepted())
            return await self._bind_one(call, binding, dry_run=options.dry_run)
        many = read_body(request, BindingList, "BindingList", "v1", FieldValidation.STRICT).object
        if many.kind not in {"", "BindingList"}:
            raise errors.method_not_allowed("create", "bindings")
        statuses = await self._bind_admitted(request, many.items)
        answer = StatusList(kind="StatusList", api_version="v1", items=statuses)
        return Response(201, codec.encode(answer))

    async def _bind_admitted(self, request: Request, bindings: Sequence[Binding]) -> list[Status]:
        """Bind those pods to whose binding policies and webhooks have no objection."""
        if self._context.extensions.is_idle:
            return await self.bind_many(bindings)
        judged = await asyncio.gather(*(self._judged(request, binding) for binding in bindings))
        allowed = [binding for binding, refusal in zip(bindings, judged, strict=True) if refusal is None]
        bound = iter(await self.bind_many(allowed))
        return [next(bound) if refusal is None else refusal for refusal in judged]

    async def _judged(self, request: Request, binding: Binding) -> Status | None:
        """Why one of many bindings is refused: it is judged as if it had been sent alone."""
        place, kind = binding.metadata, self._stored.hub
        call = Call(request, kind, self._stored, place.namespace, place.name, "binding", request.accepted())
        try:
            await self._admit(call, binding)
        except StatusError as error:
            return error.status
        return None

    async def _admit(self, call: Call, binding: Binding) -> None:
        """Ask policies and webhooks about a binding."""
        kind = self._context.scheme.kind("v1", "Binding")
        attributes = self._context.extended(call, CREATE, binding, None, kind=kind)
        if attributes is not None:
            await self._context.extensions.admit(attributes)

    async def bind_many(self, bindings: Sequence[Binding]) -> list[Status]:
        """Bind pods, all that can be bound; a Status for each, in the same order."""
        statuses: list[Status | None] = [None] * len(bindings)
        open_ = list(range(len(bindings)))
        for _ in range(_ATTEMPTS):
            puts: list[Put] = []
            bound: list[int] = []
            await self._context.store.revision()  # once for all of them
            for index in open_:
                binding = bindings[index]
                try:
                    puts.append(self._put(binding.metadata.namespace, binding))
                    bound.append(index)
                except StatusError as error:
                    statuses[index] = error.status
            outcomes = await self._context.store.write_all(puts) if puts else []
            open_ = []
            for index, outcome in zip(bound, outcomes, strict=True):
                if isinstance(outcome, Event):
                    statuses[index] = _success()
                else:
                    open_.append(index)  # the pod has changed meanwhile: look at it again
            if not open_:
                break
        for index in open_:
            statuses[index] = errors.conflict("pods", bindings[index].metadata.name).status
        return [status for status in statuses if status is not None]

    async def evict(self, call: Call) -> Response:
        """`POST pods/web/eviction`."""
        await self._disruption.evict(call)
        return respond(call, codec.encode(_success()), 201)

    async def _bind_one(self, call: Call, binding: Binding, *, dry_run: bool) -> Response:
        namespace = call.namespace
        if binding.metadata.namespace not in {"", namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        binding.metadata.namespace = namespace
        await self._admit(call, binding)
        if dry_run:
            await self._context.store.revision()
            self._put(namespace, binding)
            status = _success()
        else:
            [status] = await self.bind_many([binding])
        if status.status != "Success":
            raise errors.from_status(status)
        return Response(201, codec.encode(status))

    def _put(self, namespace: str, binding: Binding) -> Put:
        """The write that binds a pod as it is known here; raises when it cannot be bound."""
        stored = self._stored
        key = stored.key(namespace, binding.metadata.name)
        kv = self._context.store.peek(key)
        if kv is None:
            raise errors.not_found("pods", binding.metadata.name)
        return _bound(stored, kv, binding, self._context.clock.now(), self._labels(binding))

    def _labels(self, binding: Binding) -> Mapping[str, str]:
        """What binding adds to the labels of the pod (`PodTopologyLabels`)."""
        if not self._context.options.pod_topology_labels:
            return {}
        return {**binding.metadata.labels, **self._context.facts.topology_labels(binding.target.name)}

    @property
    def _stored(self) -> Stored:
        kind = self._context.scheme.kind("v1", "Pod")
        assert kind is not None, "the scheme always has pods"  # noqa: S101 - kinds.py lists them
        return self._context.stored(kind)

    def _read(self, request: Request, validation: FieldValidation) -> Binding:
        binding = read_body(request, Binding, "Binding", "v1", validation).object
        kind = self._context.scheme.kind("v1", "Binding")
        if kind is not None:
            check_type(binding, kind)
        return binding


def _bound(stored: Stored, kv: KeyValue, binding: Binding, now: datetime, labels: Mapping[str, str]) -> Put:
    pod = stored.decode(kv.value, kv.mod_revision)
    assert isinstance(pod, Pod), "pods are stored below their own prefix"  # noqa: S101 - says what is known
    return Put(kv.key, stored.encode(bind(pod, binding, now, labels)), expect=kv.mod_revision)


def _success() -> Status:
    return Status(kind="Status", api_version="v1", status="Success", code=201)
