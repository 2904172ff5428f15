"""Bind and evict pods.

A `Bind` is a write for the executor (``writes.py``). Mooring's scheduler posts a `BindingList` to `/api/v1/bindings`, a
path that upstream Kubernetes lacks: all bindings are executed as one list of writes, and each has a Status in the
response.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mooring.admission.pod.binding import bind
from mooring.api import codec, errors
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Binding, Pod
from mooring.api.meta_v1 import ResourceList, Status
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.deleting import Deleting
from mooring.apiserver.registry.parameters import check_type, read_body, write_options
from mooring.apiserver.registry.pods.disruption import Disruption
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.views import respond
from mooring.apiserver.registry.writes import Draft, StoredWrite, Writer, outcome_status
from mooring.apiserver.registry.writing import run_long, takes_long
from mooring.store.kv import Put


class BindingList(ResourceList):
    """Several bindings, in one request."""

    items: list[Binding] = []  # noqa: RUF012 - msgspec copies the empty list


class StatusList(ResourceList):
    """The outcomes of several writes, in the order of the request."""

    items: list[Status] = []  # noqa: RUF012 - as above


class Bind(StoredWrite, msgspec.Struct, eq=False):
    """A write that binds a pod to a node."""

    pods: "Pods"
    call: Call
    binding: Binding
    dry_run: bool = False
    is_admitted: bool = False

    @property
    def is_extended(self) -> bool:
        return self.pods.context.may_extend(self.call, CREATE)

    async def draft(self) -> Draft:
        context, binding, call = self.pods.context, self.binding, self.call
        if not self.is_admitted:
            await self.pods.admit(call, binding)
            self.is_admitted = True
        stored = self.pods.stored
        kv = context.store.peek(stored.key(call.namespace, binding.metadata.name))
        if kv is None:
            raise errors.not_found("pods", binding.metadata.name)

        def bound() -> bytes:
            pod = stored.decode(kv.value, kv.mod_revision)
            assert isinstance(pod, Pod), "pods are stored below their own prefix"  # noqa: S101 - says what is known
            return stored.encode(bind(pod, binding, now, labels))

        now, labels = context.clock.now(), self.pods.labels(binding)
        value = await run_long(bound) if takes_long(call, len(kv.value)) else bound()
        return Draft(() if self.dry_run else (Put(kv.key, value, expect=kv.mod_revision),), _respond)

    def give_up(self) -> Exception:
        return errors.conflict("pods", self.binding.metadata.name)


class Pods:
    """Handles `pods/binding`, `bindings` and `pods/eviction`."""

    def __init__(self, context: HandlerContext, writer: Writer, deleting: Deleting) -> None:
        self.context = context
        self._writer = writer
        self._disruption = Disruption(context, writer, deleting)
        self._kind = context.scheme.kind("v1", "Binding")
        self.stored = context.stored(context.scheme.hub_of(Pod))

    async def bind(self, call: Call) -> Response:
        """Handle `POST pods/web/binding`: bind one pod."""
        options = write_options(call.request, "CreateOptions")
        binding = self._read(call.request, options.validation)
        if binding.metadata.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Binding object")
        binding.metadata.name = call.name
        return await self._bind_one(call, binding, dry_run=options.dry_run)

    async def bindings(self, request: Request, route: ResourceRoute) -> Response:
        """Handle `POST bindings`: one binding in a namespace, or a BindingList for any namespaces."""
        if route.namespace:
            options = write_options(request, "CreateOptions")
            binding = self._read(request, options.validation)
            call = Call(request, route.kind, self.stored, route.namespace, "", "", request.accepted())
            return await self._bind_one(call, binding, dry_run=options.dry_run)
        many = read_body(request, BindingList, "BindingList", "v1", FieldValidation.STRICT).object
        if many.kind not in {"", "BindingList"}:
            raise errors.method_not_allowed("create", "bindings")
        accepted = request.accepted()
        writes = [Bind(self, _call_of(request, self.stored, each, accepted), each) for each in many.items]
        statuses = [outcome_status(outcome) or _SUCCESS for outcome in await self._writer.execute(writes)]
        return Response(201, codec.encode(StatusList(kind="StatusList", api_version="v1", items=statuses)))

    async def _bind_one(self, call: Call, binding: Binding, *, dry_run: bool) -> Response:
        if binding.metadata.namespace not in {"", call.namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        binding.metadata.namespace = call.namespace
        return await self._writer.one(Bind(self, call, binding, dry_run=dry_run))

    async def evict(self, call: Call) -> Response:
        """Handle `POST pods/web/eviction`."""
        await self._disruption.evict(call)
        return respond(call, codec.encode(_SUCCESS), 201)

    async def admit(self, call: Call, binding: Binding) -> None:
        """Let policies and webhooks admit or refuse a binding."""
        attributes = self.context.attributes_of(call, CREATE, binding, None, kind=self._kind)
        if attributes is not None:
            await self.context.extensions.admit(attributes)

    def labels(self, binding: Binding) -> Mapping[str, str]:
        """Return the node's topology labels that binding adds to the pod (`PodTopologyLabels`)."""
        if not self.context.options.pod_topology_labels:
            return {}
        return {**binding.metadata.labels, **self.context.facts.topology_labels(binding.target.name)}

    def _read(self, request: Request, validation: FieldValidation) -> Binding:
        binding = read_body(request, Binding, "Binding", "v1", validation).object
        if self._kind is not None:
            check_type(binding, self._kind)
        return binding


_SUCCESS = Status(kind="Status", api_version="v1", status="Success", code=201)


async def _respond(_: Sequence[int]) -> Response:
    return Response(201, codec.encode(_SUCCESS))


def _call_of(request: Request, stored: Stored, binding: Binding, accepted: Accepted) -> Call:
    place = binding.metadata
    return Call(request, stored.hub, stored, place.namespace, place.name, "binding", accepted)
