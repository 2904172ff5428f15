"""Allocate devices for many claims in one request, for Mooring's scheduler: `PUT resourceclaims/-/status` with a list.

Upstream's scheduler protects a claim with a finalizer first and writes the allocation afterwards, one claim at a time.
Here an allocation adds the finalizer, all claims are executed as one list of writes, and each has a Status in the
response, with the new resourceVersion. It takes the right to update `resourceclaims/status` in all namespaces. Policies
and webhooks see each claim as if it had been sent alone.
"""

from functools import partial
from typing import cast

from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.codec import FieldValidation
from mooring.api.meta_v1 import ListMeta, Resource, ResourceList, Status
from mooring.api.resource_v1 import ResourceClaim
from mooring.apiserver.messages.http import Accepted, Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.parameters import WriteOptions, check_object, read_body, write_options
from mooring.apiserver.registry.pods.pods import StatusList
from mooring.apiserver.registry.writes import Outcome, Writer, Written, outcome_status
from mooring.apiserver.registry.writing import Plan, Update, Writing

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps a claim while devices are allocated for it."""


class ResourceClaimList(ResourceList):
    """Claims with their new status; their other fields are ignored, except name, namespace, uid and resourceVersion."""

    items: list[ResourceClaim] = []  # noqa: RUF012 - msgspec copies the empty list


class Claims:
    """Handles `PUT resourceclaims/-/status`, which updates the status of many claims."""

    def __init__(self, context: HandlerContext, writing: Writing, writer: Writer) -> None:
        self._context = context
        self._writing = writing
        self._writer = writer

    async def update_many(self, request: Request, route: ResourceRoute) -> Response:
        """Update the status of several claims; return an outcome for each."""
        options = write_options(request, "UpdateOptions")
        if options.dry_run:
            raise errors.bad_request("a list of claims cannot be tried without writing it")
        kind = route.kind
        many = read_body(request, ResourceClaimList, "ResourceClaimList", kind.api_version, FieldValidation.STRICT)
        accepted = request.accepted()
        writes = [self._write(request, route, each, options, accepted) for each in many.object.items]
        items = [_outcome(each) for each in await self._writer.execute(writes)]
        return Response(200, codec.encode(StatusList(kind="StatusList", api_version="v1", items=items)))

    def _write(
        self, request: Request, route: ResourceRoute, claim: ResourceClaim, options: WriteOptions, accepted: Accepted
    ) -> Update:
        meta = claim.metadata
        stored = self._context.stored(route.kind)
        call = Call(request, route.kind, stored, meta.namespace, meta.name, route.subresource, accepted)

        def read() -> Plan:
            check_object(claim, route.kind)
            return Plan(lambda _: copy_of(claim))

        return Update(
            self._writing, call, options, read, call.subresource, adjust=partial(_protect, call), respond=_respond
        )


def _protect(call: Call, obj: Resource) -> None:
    """Add the protection finalizer to an allocated claim; raise Conflict if it is being deleted."""
    claim, metadata = cast("ResourceClaim", obj), obj.metadata
    if claim.status.allocation is None or PROTECTION in metadata.finalizers:
        return
    if metadata.deletion_timestamp is not None:
        raise errors.conflict(call.kind.plural, call.name, "it is being deleted", group=call.kind.group)
    metadata.finalizers = [*metadata.finalizers, PROTECTION]


async def _respond(written: Written) -> Response:
    version = ListMeta(resource_version=str(written.revision))
    status = Status(kind="Status", api_version="v1", metadata=version, status="Success", code=200)
    return Response(200, codec.encode(status))


def _outcome(outcome: Outcome) -> Status:
    status = outcome_status(outcome)
    return status or codec.decode_own(cast("bytes", cast("Response", outcome).body), Status)
