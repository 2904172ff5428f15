"""The typed client: every verb for every kind of the scheme, over any transport.

    pod = await client.get(core_v1.Pod, "web", namespace="default")
    await client.patch(core_v1.Node, "n1", {"spec": {"unschedulable": True}})

Callers name kinds by their types. A type that serves several versions means the newest one that the client's scheme
serves; an object with an apiVersion is sent in that version. Where the scheme or the server (`served`) lacks it, the
client uses an older version and converts objects.

Errors of the server are raised as those of ``mooring.api.errors``, errors of the transport as those of ``errors.py``.
Requests that were refused with `Retry-After` are repeated. Read next: ``informer.py``, by which most components read.
"""

import asyncio
import copy
from builtins import list as list_of  # the class has a method of that name
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Any, Self, TypeVar, cast

from msgspec import structs

from mooring.admission import rows
from mooring.api import codec, errors, for_caches
from mooring.api.authentication_v1 import TokenRequest, TokenRequestSpec
from mooring.api.autoscaling_v1 import Scale, ScaleSpec
from mooring.api.batch_writes import Row
from mooring.api.core_v1 import Binding, ObjectReference, Pod, ServiceAccount
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import DeleteOptions, ObjectMeta, Resource, Status
from mooring.api.policy_v1 import Eviction
from mooring.api.scheme import Scheme
from mooring.base import logs
from mooring.base.clock import Clock, SystemClock
from mooring.client import wire
from mooring.client.errors import UnservedKindError
from mooring.client.template_parts import TemplateParts
from mooring.client.transport import Request, Response, Stream, Templated, Transport
from mooring.client.watch import Watch
from mooring.client.wire import Listing, Query

T = TypeVar("T", bound=Resource)

JSON = "application/json"
_METADATA_ALONE = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_TIMEOUT_SECONDS = 60.0
_PAGE_SIZE = 2000
_ATTEMPTS = 10
log = logs.get(__name__)


class PatchType(StrEnum):
    """The patch formats of the API; each value is the format's media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC_MERGE = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """A typed client of one API server; its requests carry a component's User-Agent. Use `async with`, or `close`."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str,
        scheme: Scheme | None = None,
        clock: Clock | None = None,
        certificate_authority: bytes = b"",
        parts: TemplateParts = wire.PARTS,
    ) -> None:
        self.certificate_authority = certificate_authority
        """The authorities that verify the server's certificate, in PEM; empty if unknown."""
        self.scheme = scheme or Scheme()
        self.clock: Clock = clock or SystemClock()
        self.user_agent = user_agent
        self.guard: Callable[[], None] | None = None
        """Called before each write is sent; raises an error to prevent it. Leader election sets it."""
        self._transport = transport
        self._parts = parts
        """Parts that objects in caches share."""
        self._kinds: dict[type[Resource], Kind] = {}
        self._substitutes: dict[Kind, Kind] = {}
        """By kind, the version that is used in place of one that the server does not serve."""
        for kind in self.scheme.served:
            self._kinds.setdefault(kind.type, kind)
        for kind in self.scheme.served:
            hub = self.scheme.hub(kind)
            if hub.type not in self._kinds:
                self._kinds[hub.type] = self._substitutes[hub] = kind

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def unguarded(self) -> "Client":
        """Return a client on the same connections whose requests are sent without the leader-election check."""
        other = copy.copy(self)
        other.guard = None
        return other

    def kind(self, cls: type[Resource]) -> Kind:
        """Return group, version and resource used for a type. Raise UnservedKindError if none is known to be served."""
        kind = self._kinds.get(cls)
        if kind is None:
            raise UnservedKindError(f"{cls.__name__} is not served: --runtime-config or the versions switch it off")
        return kind

    def knows(self, cls: type[Resource]) -> bool:
        """Return whether the client can use a type: by its scheme, or because `served` found it. Sends no request."""
        return cls in self._kinds

    def learn(self, versions: Iterable[Kind], storage: Kind) -> None:
        """Add all versions of a custom kind to the client's scheme, so that it can be used. Sends no request."""
        versions = tuple(versions)
        self.scheme.register(versions, storage)
        self._kinds |= {kind.type: kind for kind in versions}

    def forget(self, kind: Kind) -> None:
        """Remove a deleted custom kind from the client's scheme."""
        for version in self.scheme.family(kind):
            self._kinds.pop(version.type, None)
        self.scheme.unregister(kind.family)

    # -- reading

    async def get(self, cls: type[T], name: str, namespace: str = "") -> T:
        """Return the object with a name; raise NotFound if there is none."""
        return self._decode(await self._send("GET", self._build_path(self.kind(cls), namespace, name)), cls)

    async def find(self, cls: type[T], name: str, namespace: str = "") -> T | None:
        """Read an object by name; return None if it does not exist."""
        try:
            return await self.get(cls, name, namespace)
        except errors.NotFound:
            return None

    async def page(
        self,
        cls: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        managed_fields: bool = True,
    ) -> Listing[T]:
        """Return up to `limit` objects (default: 2,000) and the continue token for the next page.

        Without a namespace, those of all namespaces. `managed_fields=False` leaves managed fields out, for caches.
        """
        kind = self.kind(cls)
        query = wire.build_query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or _PAGE_SIZE),
            **{"continue": continue_},
            resourceVersion=resource_version,
        )
        response = await self._send("GET", self._build_path(kind, namespace), query)
        parts = None if managed_fields else self._parts
        return wire.decode_list(response, kind, cls, self._find_conversion(cls), parts)

    async def list(
        self,
        cls: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        managed_fields: bool = True,
    ) -> Listing[T]:
        """Return all objects at one resourceVersion, reading page by page.

        Raise Expired if that version is compacted meanwhile. With resourceVersion "0" the server may respond from its
        cache: a kube-apiserver then does not read etcd, needs a third of the memory, and sends one large page.
        """
        items: list_of[T] = []
        continue_ = ""
        while True:
            page = await self.page(
                cls,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                continue_=continue_,
                resource_version="" if continue_ else resource_version,
                managed_fields=managed_fields,
            )
            items += page.items
            if not page.continue_:
                return Listing(items, page.resource_version)
            continue_ = page.continue_
            await asyncio.sleep(0)  # lets others run even where the server answers without any waiting

    @asynccontextmanager
    async def watch(
        self,
        cls: type[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
        for_cache: bool = False,
    ) -> AsyncIterator[Watch[T]]:
        """Open a watch of the changes after `resource_version`, for `async with`.

        Without a version the server sends the existing objects as ADDED first, then the changes. A watch for a cache
        has no managed fields and no last states of deleted objects (see `Watch`).
        """
        kind = self.kind(cls)
        query = wire.build_query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds) if timeout_seconds else "",
            **{for_caches.PARAMETER: "true" if for_cache else ""},
        )
        headers = {"accept": JSON, "user-agent": self.user_agent}
        request = Request("GET", self._build_path(kind, namespace), query, headers)
        stream = await self._open_stream(request)
        try:
            yield Watch(stream, kind, cls, self._find_conversion(cls), self._parts if for_cache else None)
        finally:
            await stream.close()

    async def serves(self, cls: type[Resource]) -> bool:
        """Return whether the server has a kind in any version; raise UnservedKindError if not `knows(cls)`."""
        self.kind(cls)
        return cls in await self.served([cls])

    async def served(self, classes: Iterable[type[Resource]]) -> set[type[Resource]]:
        """Ask the server which of the given kinds it serves, and return them; one request for each group and version.

        From then on, a kind that the server serves only in another version is used in that one; so is a kind that the
        client's scheme knows but does not serve, such as a beta that was enabled on the server.
        """
        hubs = {kind.type: self.scheme.hub(kind) for kind in self.scheme.known}
        wanted = {cls: self._kinds.get(cls, hubs[cls]) for cls in classes if cls in self._kinds or cls in hubs}
        found = await self._find_on_server(wanted.values())
        missing = {cls: kind for cls, kind in wanted.items() if kind not in found}
        others = await self._find_on_server(
            each for kind in missing.values() for each in self.scheme.family(kind) if each is not kind
        )
        for cls, kind in missing.items():
            other = next((each for each in self.scheme.family(kind) if each in others), None)
            if other is not None:
                log.info("the server has no %s of %s, using %s", kind.plural, kind.api_version, other.api_version)
                self._kinds[cls] = self._substitutes[kind] = other
        self._kinds.update((cls, kind) for cls, kind in wanted.items() if kind in found)
        return {cls for cls in wanted if cls not in missing or self._kinds.get(cls) in others}

    async def _find_on_server(self, kinds: Iterable[Kind]) -> set[Kind]:
        """Return those of the given kinds (each in one version) that the server's discovery documents list."""
        by_prefix: dict[str, list_of[Kind]] = {}
        for kind in kinds:
            by_prefix.setdefault(wire.path_prefix(kind), []).append(kind)
        answers = await asyncio.gather(*map(self._get_discovery_document, by_prefix))
        return {
            kind
            for kinds, answer in zip(by_prefix.values(), answers, strict=True)
            for kind in kinds
            if answer is not None and wire.has_resource(answer, kind.plural)
        }

    async def _get_discovery_document(self, prefix: str) -> Response | None:
        try:
            return await self._send("GET", prefix)
        except errors.NotFound:
            return None

    # -- writing

    async def create(self, obj: T, *, dry_run: bool = False, field_manager: str = "") -> T:
        """Create an object; return it as stored. Raise AlreadyExists if its name is taken, Invalid if it is refused."""
        kind, body = self._encode(obj)
        path = self._build_path(kind, obj.metadata.namespace)
        query = wire.build_write_query(field_manager, dry_run=dry_run)
        return self._decode(await self._send("POST", path, query, body), type(obj))

    async def update(self, obj: T, *, subresource: str = "", dry_run: bool = False, field_manager: str = "") -> T:
        """Replace an object; return it as stored. Raise Conflict if its resourceVersion is stale."""
        kind, body = self._encode(obj)
        path = self._build_path(kind, obj.metadata.namespace, obj.metadata.name, subresource)
        query = wire.build_write_query(field_manager, dry_run=dry_run)
        return self._decode(await self._send("PUT", path, query, body), type(obj))

    async def create_unread(self, obj: Resource) -> None:
        """Create an object, but let the server omit it from the response. Return None; errors are raised as usual."""
        await self._write_object("POST", obj)

    async def create_briefly(self, obj: Resource) -> Resource:
        """Create an object; return a Resource with only name, uid and resourceVersion: no other field is decoded."""
        return Resource(metadata=wire.decode_identity(await self._write_object("POST", obj)))

    async def update_unread(self, obj: Resource, *, subresource: str = "") -> None:
        """Replace an object, but let the server omit it from the response. Return None; errors are raised as usual."""
        await self._write_object("PUT", obj, subresource)

    async def end_unread(self, obj: Resource) -> None:
        """Write an object's last status, then delete it: in one request if the server takes batches, else in two."""
        meta = obj.metadata
        options = wire.make_delete_options(0, uid=meta.uid)
        response = await self._write_object("PUT", obj, "status", then_delete=options)
        if not response.has_deleted:
            await self.delete_unread(type(obj), meta.name, meta.namespace, grace_period_seconds=0, uid=meta.uid)

    async def update_status(self, obj: T) -> T:
        """Replace the status of an object; return the object as stored. Raise Conflict as `update` does."""
        return await self.update(obj, subresource="status")

    async def patch(
        self,
        cls: type[T],
        name: str,
        body: Any,
        namespace: str = "",
        *,
        type: PatchType = PatchType.STRATEGIC_MERGE,  # noqa: A002 - kubectl's word for it
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """Patch the named object; return it as stored. `body` is JSON; for `PatchType.JSON`, a list of operations."""
        query = wire.build_write_query(field_manager, dry_run=dry_run, force=force)
        path = self._build_path(self.kind(cls), namespace, name, subresource)
        return self._decode(await self._send("PATCH", path, query, codec.encode(body), content_type=type), cls)

    async def patch_unread(
        self,
        cls: type[Resource],
        name: str,
        body: Any,
        namespace: str = "",
        *,
        type: PatchType = PatchType.STRATEGIC_MERGE,  # noqa: A002 - as above
        subresource: str = "",
    ) -> None:
        """Patch an object, but let the server omit it from the response. Return None; errors are raised as usual."""
        kind = self.kind(cls)
        path, collection = self._build_path(kind, namespace, name, subresource), self._build_path(kind, namespace)
        templated = Templated(collection, subresource, (name, body), partial(_split_patch, name, body))
        await self._send(
            "PATCH",
            path,
            body=codec.encode(body),
            content_type=type,
            accept=_METADATA_ALONE,
            omit_body=True,
            templated=self._templated_if_offered(kind, templated),
        )

    async def apply(self, obj: T, *, field_manager: str, force: bool = False, dry_run: bool = False) -> T:
        """Apply an object (server-side apply); return it as stored. Raise Conflict if others own fields that it sets.

        The manager then owns the fields that are set. Fields that a struct always writes count as set; `patch` with
        `PatchType.APPLY` applies exactly the given fields.
        """
        kind, body = self._encode(obj)
        path = self._build_path(kind, obj.metadata.namespace, obj.metadata.name)
        query = wire.build_write_query(field_manager, dry_run=dry_run, force=force)
        return self._decode(await self._send("PATCH", path, query, body, content_type=PatchType.APPLY), type(obj))

    async def delete(
        self,
        cls: type[T],
        name: str,
        namespace: str = "",
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> T | Status:
        """Delete an object. Return the object if finalizers or a grace period delay its removal, otherwise a Status."""
        options = wire.make_delete_options(grace_period_seconds, propagation_policy, uid, resource_version)
        path, query = self._build_path(self.kind(cls), namespace, name), wire.build_write_query("", dry_run=dry_run)
        response = await self._send("DELETE", path, query, codec.encode(options))
        if wire.is_status(response):
            return codec.decode_own(response.body, Status)
        return self._decode(response, cls)

    async def delete_unread(
        self,
        cls: type[Resource],
        name: str,
        namespace: str = "",
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete an object, but let the server omit it from the response. Return None; errors are raised as usual."""
        kind = self.kind(cls)
        body = codec.encode(wire.make_delete_options(grace_period_seconds, propagation_policy, uid))
        template = wire.encode_delete_options(grace_period_seconds, propagation_policy)
        path, collection = self._build_path(kind, namespace, name), self._build_path(kind, namespace)
        row = Row(name, uid or "")
        templated = self._templated_if_offered(kind, Templated(collection, "", row, lambda: (template, row)))
        await self._send("DELETE", path, body=body, omit_body=True, templated=templated)

    async def delete_collection(
        self,
        cls: type[Resource],
        namespace: str = "",
        *,
        label_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> None:
        """Delete all objects of a kind that match the selector, in a namespace or, if it is empty, in all."""
        options = wire.make_delete_options(grace_period_seconds, propagation_policy)
        query = wire.build_query(labelSelector=label_selector)
        await self._send("DELETE", self._build_path(self.kind(cls), namespace), query, codec.encode(options))

    # -- subresources

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Bind a pod to a node; raise Conflict if the pod is bound already. `BulkBinding` binds many at once."""
        target = ObjectReference(kind="Node", name=node)
        await self.bind_with(Binding(metadata=ObjectMeta(name=name, namespace=namespace), target=target))

    async def bind_with(self, binding: Binding) -> None:
        """Bind a pod by sending a complete Binding, which may carry annotations for the pod."""
        meta = binding.metadata
        await self._post(self._build_path(self.kind(Pod), meta.namespace, meta.name, "binding"), binding)

    async def evict(self, name: str, namespace: str) -> None:
        """Evict a pod; raise TooManyRequests if a disruption budget does not allow it now."""
        eviction = Eviction(metadata=ObjectMeta(name=name, namespace=namespace))
        await self._post(self._build_path(self.kind(Pod), namespace, name, "eviction"), eviction, attempts=1)

    async def get_scale(self, cls: type[Resource], name: str, namespace: str) -> Scale:
        """Return the Scale of a workload: its desired and actual replicas."""
        path = self._build_path(self.kind(cls), namespace, name, "scale")
        return wire.decode_response(await self._send("GET", path), Scale)

    async def scale(self, cls: type[Resource], name: str, namespace: str, replicas: int) -> Scale:
        """Set a workload's desired replicas through its `scale` subresource; return the stored Scale."""
        scale = Scale(
            kind="Scale",
            api_version="autoscaling/v1",
            metadata=ObjectMeta(name=name, namespace=namespace),
            spec=ScaleSpec(replicas=replicas),
        )
        path = self._build_path(self.kind(cls), namespace, name, "scale")
        return wire.decode_response(await self._send("PUT", path, body=codec.encode(scale)), Scale)

    async def create_token(self, service_account: str, namespace: str, spec: TokenRequestSpec) -> TokenRequest:
        """Request a token for a service account; return the TokenRequest, with the token in its `status.token`."""
        path = self._build_path(self.kind(ServiceAccount), namespace, service_account, "token")
        return wire.decode_response(await self._post(path, TokenRequest(spec=spec)), TokenRequest)

    # -- anything else

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response:
        """Send a request to any path and return its response; raise the server's error for a status of 400 or more."""
        return await self._send(method, path, query, body, content_type=content_type, accept=accept)

    # -- how

    def _build_path(self, kind: Kind, namespace: str = "", name: str | None = None, subresource: str = "") -> str:
        """Return the URL path of a collection or, with a name, of an object. Raise ValueError for an unusable name."""
        parts = [wire.path_prefix(kind)]
        if namespace and kind.namespaced:
            parts += ["namespaces", wire.check_path_segment(kind, "namespace", namespace)]
        parts.append(kind.plural)
        if name is not None:
            if kind.namespaced and not namespace:
                raise ValueError(f"{kind.kind} {name!r}: objects of this kind live in namespaces, say in which")
            parts.append(wire.check_path_segment(kind, "name", name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def _encode(self, obj: Resource) -> tuple[Kind, bytes]:
        """Return the kind of an object, and the object encoded as JSON with kind and apiVersion."""
        kind, sent = self._resolve_kind(obj)
        return kind, codec.encode(sent)

    def _resolve_kind(self, obj: Resource) -> tuple[Kind, Resource]:
        """Return the kind to use for an object, and the object in its version. Raise ValueError without a namespace."""
        kind = self.scheme.kind(obj.api_version, obj.kind) if obj.api_version and obj.kind else None
        kind = self.kind(type(obj)) if kind is None else self._substitutes.get(kind, kind)
        hub = self.scheme.hub(kind)
        if type(obj) is not kind.type and type(obj) is hub.type:
            newest = structs.replace(obj, api_version=hub.api_version, kind=hub.kind)
            obj = self.scheme.convert(newest, kind)
        elif (obj.api_version, obj.kind) != (kind.api_version, kind.kind):
            obj = structs.replace(obj, api_version=kind.api_version, kind=kind.kind)
        if kind.namespaced and not obj.metadata.namespace:
            raise ValueError(
                f"{kind.kind} {obj.metadata.name!r}: objects of this kind live in namespaces, say in which"
            )
        return kind, obj

    def _find_conversion(self, cls: type[T]) -> Callable[[Resource], T] | None:
        """Return the function that converts the served version to `cls`; None if they are the same."""
        kind = self.kind(cls)
        if kind.type is cls:
            return None
        return lambda obj: cast("T", self.scheme.convert(obj, self.scheme.hub(kind)))

    def _decode(self, response: Response, cls: type[T]) -> T:
        kind = self._kinds.get(cls)
        if kind is None or kind.type is cls:
            return wire.decode_response(response, cls)
        return cast("T", self.scheme.convert(wire.decode_response(response, kind.type), self.scheme.hub(kind)))

    async def _write_object(
        self, method: str, obj: Resource, subresource: str = "", *, then_delete: DeleteOptions | None = None
    ) -> Response:
        """POST or PUT an object and let the server omit it from the response.

        If the transport sends batches, a pod goes as a template, common to many pods, and its own values.
        """
        (kind, sent), meta = self._resolve_kind(obj), obj.metadata
        collection = self._build_path(kind, meta.namespace)
        path = collection if method == "POST" else self._build_path(kind, meta.namespace, meta.name, subresource)
        last, templated = codec.encode(then_delete) if then_delete is not None else b"", None
        if not meta.managed_fields:
            ending = then_delete and wire.encode_delete_options(then_delete.grace_period_seconds, None)
            split, encode = partial(_split_object, sent), partial(codec.encode, sent)
            templated = Templated(collection, subresource, obj, split, ending or b"", encode)
            templated = self._templated_if_offered(kind, templated)
        body = codec.encode(sent) if templated is None else b""
        return await self._send(method, path, body=body, omit_body=True, then_delete=last, templated=templated)

    def _templated_if_offered(self, kind: Kind, templated: Templated) -> Templated | None:
        """Return `templated` if the transport can send batch templates and the kind is Pod; otherwise None."""
        is_offered = kind.type is Pod and getattr(self._transport, "takes_templates", False)
        return templated if is_offered else None

    async def _post(self, path: str, obj: Resource, *, attempts: int = _ATTEMPTS) -> Response:
        own = self.kind(type(obj))
        body = codec.encode(structs.replace(obj, api_version=own.api_version, kind=own.kind))
        return await self._send("POST", path, body=body, attempts=attempts)

    async def _send(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes = b"",
        *,
        content_type: str = JSON,
        accept: str = JSON,
        attempts: int = _ATTEMPTS,
        omit_body: bool = False,
        then_delete: bytes = b"",
        templated: Templated | None = None,
    ) -> Response:
        headers = {"accept": accept, "user-agent": self.user_agent}
        if body or templated:
            headers["content-type"] = content_type
        guard = None if method == "GET" else self.guard
        request = Request(
            method, path, query, headers, body, guard, omit_body=omit_body, templated=templated, then_delete=then_delete
        )
        for attempt in range(1, attempts + 1):
            response = await self._transport.send(request, _TIMEOUT_SECONDS)
            if response.warnings:
                _log_warnings(request, response.warnings)
            if response.status < 400:
                return response
            wait = wire.parse_retry_after(response)
            if wait is None or attempt == attempts:
                raise wire.status_error(response.status, response.body)
            await self.clock.sleep(wait)
        raise AssertionError("there is at least one attempt")

    async def _open_stream(self, request: Request) -> Stream:
        stream = await self._transport.stream(request, _TIMEOUT_SECONDS)
        if stream.status < 400:
            return stream
        try:
            body = b"".join([chunk async for chunk in stream.chunks()])
        finally:
            await stream.close()
        raise wire.status_error(stream.status, body)


def _split_object(obj: Resource) -> tuple[bytes, Row]:
    """Split an object for a batch: JSON common to many objects (the template), and its own values (the row)."""
    template, row = rows.split_template(obj)
    template.metadata.creation_timestamp, row.creation_timestamp = None, ""  # the server has it
    return codec.encode(template), row


def _split_patch(name: str, body: Any) -> tuple[bytes, Row]:
    """Split a patch for a batch: JSON without the object's uid (the template), and its own values (the row)."""
    meta = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(meta, dict) or "uid" not in meta:
        return codec.encode(body), Row(name)
    others = {field: value for field, value in meta.items() if field != "uid"}
    return codec.encode({**body, "metadata": others}), Row(name, meta["uid"])


def _log_warnings(request: Request, warnings: Sequence[str]) -> None:
    for text in warnings:
        if request.path.endswith("/endpoints"):
            continue  # controllers keep Endpoints for clients that still read them; that they are deprecated is known
        if logs.once(("server warning", text)):
            log.warning("warning from the API server: %s", text, extra={"fields": {"path": request.path}})
