"""Giving devices to many claims at once, for Mooring's scheduler: `PUT resourceclaims/-/status` with a list.

Kubernetes' scheduler protects a claim with a finalizer first and writes the allocation afterwards, one claim at a time.
Here an allocation brings its finalizer with it, all claims go to the store in one round, and each gets a Status of its
own in the answer, with the new resourceVersion. It takes the right to update `resourceclaims/status` everywhere.
Policies and webhooks are asked about each as if it had been sent alone.
"""

import asyncio
from typing import cast

from mooring.api import codec, errors
from mooring.api.codec import FieldValidation
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ListMeta, ResourceList, Status
from mooring.api.resource_v1 import ResourceClaim
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.parameters import WriteOptions, check_object, read_body, write_options
from mooring.apiserver.registry.pods.pods import StatusList
from mooring.apiserver.registry.writing import Writing, check_preconditions
from mooring.store.kv import Event, Put

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps a claim while devices are allocated for it."""


class ResourceClaimList(ResourceList):
    """Claims with their new status; of the rest of them only name, namespace, uid and resourceVersion count."""

    items: list[ResourceClaim] = []  # noqa: RUF012 - msgspec copies the empty list


class Claims:
    def __init__(self, context: HandlerContext, writing: Writing) -> None:
        self._context = context
        self._writing = writing

    async def update_many(self, request: Request, route: ResourceRoute) -> Response:
        """Change the status of claims, of all for which that is possible."""
        options = write_options(request, "UpdateOptions")
        if options.dry_run:
            raise errors.bad_request("a list of claims cannot be tried without writing it")
        kind = route.kind
        many = read_body(request, ResourceClaimList, "ResourceClaimList", kind.api_version, FieldValidation.STRICT)
        await self._context.store.revision()  # once for all of them
        tried = (self._tried(_call(self._context, request, route, each), each, options) for each in many.object.items)
        idle = self._context.extensions.is_idle
        outcomes = [await each for each in tried] if idle else await asyncio.gather(*tried)
        puts = [each for each in outcomes if isinstance(each, Put)]
        events = iter(await self._context.store.write_all(puts) if puts else [])
        items = [
            _outcome(next(events), claim) if isinstance(outcome, Put) else outcome
            for claim, outcome in zip(many.object.items, outcomes, strict=True)
        ]
        return Response(200, codec.encode(StatusList(kind="StatusList", api_version="v1", items=items)))

    async def _tried(self, call: Call, new: ResourceClaim, options: WriteOptions) -> Put | Status:
        """The write that changes a claim, or why it cannot be changed like this."""
        try:
            return await self._put(call, new, options)
        except StatusError as error:
            return error.status

    async def _put(self, call: Call, new: ResourceClaim, options: WriteOptions) -> Put:
        """The write that changes a claim; raises when it cannot be changed like this."""
        context = self._context
        check_object(new, call.kind)
        kv = context.find_known(call)
        old = cast("ResourceClaim", call.stored.decode(kv.value, kv.mod_revision))
        check_preconditions(call, new, old)
        new = cast("ResourceClaim", await self._writing.admit_update(call, new, old, call.subresource))
        self._writing.own(call, options, old, new)
        if new.status.allocation is not None and PROTECTION not in new.metadata.finalizers:
            if new.metadata.deletion_timestamp is not None:
                why = "it is being deleted"
                raise errors.conflict(call.kind.plural, call.name, why, group=call.kind.group)
            new.metadata.finalizers = [*new.metadata.finalizers, PROTECTION]
        return Put(kv.key, call.stored.encode(new), expect=kv.mod_revision)


def _call(context: HandlerContext, request: Request, route: ResourceRoute, claim: ResourceClaim) -> Call:
    """What a request for this claim alone would be."""
    return Call(
        request=request,
        kind=route.kind,
        stored=context.stored(route.kind),
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        subresource=route.subresource,
        accepted=request.accepted(),
    )


def _outcome(written: object, claim: ResourceClaim) -> Status:
    if isinstance(written, Event):
        version = ListMeta(resource_version=str(written.revision))
        return Status(kind="Status", api_version="v1", metadata=version, status="Success", code=200)
    return errors.conflict("resourceclaims", claim.metadata.name, group="resource.k8s.io").status
