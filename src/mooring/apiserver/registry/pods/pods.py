"""Bind and evict pods.

A `Bind` is a write for the executor (``writes.py``); Mooring's scheduler sends many in a batch (``requests/batch.py``).
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from mooring.admission import rows
from mooring.admission.pod.binding import bind
from mooring.api import codec, errors
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.core_v1 import Binding, Pod
from mooring.api.meta_v1 import Status
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.deleting import Deleting
from mooring.apiserver.registry.parameters import WriteOptions, check_type, read_body, write_options
from mooring.apiserver.registry.pods.disruption import Disruption
from mooring.apiserver.registry.templates import Template
from mooring.apiserver.registry.views import respond
from mooring.apiserver.registry.writes import Draft, StoredWrite, Write, Writer
from mooring.apiserver.registry.writing import run_long, takes_long
from mooring.store.kv import Put


class Bind(StoredWrite, msgspec.Struct, eq=False):
    """A write that binds a pod to a node."""

    pods: "Pods"
    call: Call
    options: WriteOptions
    binding: Binding | None = None
    """The admitted Binding."""

    @property
    def is_extended(self) -> bool:
        return self.pods.context.may_extend(self.call, CREATE)

    async def draft(self) -> Draft:
        context, call, stored = self.pods.context, self.call, self.pods.stored
        if self.binding is None:
            self.binding = await self.pods.admit_binding(call, self.options)
        binding = self.binding
        kv = context.store.peek(stored.key(call.namespace, binding.metadata.name))
        if kv is None:
            raise errors.not_found("pods", binding.metadata.name)

        def bound() -> bytes:
            pod = stored.decode(kv.value, kv.mod_revision)
            assert isinstance(pod, Pod), "pods are stored below their own prefix"  # noqa: S101 - says what is known
            return stored.encode(bind(pod, binding, now, labels))

        now, labels = context.clock.now(), self.pods.labels(binding)
        value = await run_long(bound) if takes_long(call, len(kv.value)) else bound()
        puts = () if self.options.dry_run else (Put(kv.key, value, expect=kv.mod_revision),)
        return Draft(puts, partial(_respond, call))

    def give_up(self) -> Exception:
        return errors.conflict("pods", self.binding.metadata.name if self.binding is not None else "")


class Pods:
    """Handles `pods/binding`, `bindings` and `pods/eviction`."""

    def __init__(self, context: HandlerContext, writer: Writer, deleting: Deleting) -> None:
        self.context = context
        self._disruption = Disruption(context, writer, deleting)
        self.kind = context.scheme.hub_of(Binding)
        self.stored = context.stored_kind(context.scheme.hub_of(Pod))

    def bind(self, call: Call, _: Template | None = None) -> Write:
        """Return the write for `POST pods/web/binding`, or for `POST bindings`, whose body names the pod."""
        return Bind(self, call, write_options(call.request, "CreateOptions"))

    async def admit_binding(self, call: Call, options: WriteOptions) -> Binding:
        """Return the Binding in the body after policies and webhooks have admitted it."""
        binding = read_body(call.request, Binding, "Binding", "v1", options.validation).object
        check_type(binding, self.kind)
        if call.request.row is not None:
            rows.put(binding, call.request.row)
        meta = binding.metadata
        if call.name and meta.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Binding object")
        if meta.namespace not in {"", call.namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta.name, meta.namespace = call.name or meta.name, call.namespace
        attributes = self.context.attributes_of(call, CREATE, binding, None, kind=self.kind)
        if attributes is not None:
            await self.context.extensions.admit(attributes)
        return binding

    async def evict(self, call: Call) -> Response:
        """Handle `POST pods/web/eviction`."""
        await self._disruption.evict(call)
        return respond(call, codec.encode(_SUCCESS), 201)

    def labels(self, binding: Binding) -> Mapping[str, str]:
        """Return the node's topology labels that binding adds to the pod (`PodTopologyLabels`)."""
        if not self.context.options.pod_topology_labels:
            return {}
        return {**binding.metadata.labels, **self.context.lookups.topology_labels(binding.target.name)}


_SUCCESS = Status(kind="Status", api_version="v1", status="Success", code=201)


async def _respond(call: Call, _: Sequence[int]) -> Response:
    if call.request.omit_body:
        return Response(201, warnings=call.warnings)
    return respond(call, codec.encode(_SUCCESS), 201)
