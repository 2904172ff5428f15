"""Read objects: `get` and `list`, with paging and the rules of resource versions."""

import asyncio
import base64

import msgspec

from mooring.api import errors, resource_version
from mooring.api.meta_v1 import ListMeta, StatusCause
from mooring.api.resource_version import ListVersion, ResourceVersionError
from mooring.apiserver.messages.http import PROTOBUF, YAML, Request, Response
from mooring.apiserver.output.formats import flow_yaml, is_too_long
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.parameters import parse_number
from mooring.apiserver.registry.storage.selection import Selection
from mooring.apiserver.registry.verbs.views import make_body, make_response, respond_with_object, view_for
from mooring.store.errors import Compacted, FutureRevision
from mooring.store.kv import KeyValue, Store

_MAX_LIMIT = 2**31
_SCAN = 500
"""The number of keys matched against a selector before other tasks of the event loop run."""

_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."


class _ContinueToken(msgspec.Struct, rename={"version": "v", "revision": "rv", "start": "start"}):
    """A decoded continue token of a list: the last key returned, and the revision to read at (-1: the newest)."""

    revision: int
    start: str
    version: str = "meta.k8s.io/v1"


class _ObjectPage(msgspec.Struct):
    items: list[KeyValue]
    revision: int
    last_key: str = ""
    """The key to continue after; empty for the last page."""
    remaining: int | None = None


class Reading:
    """Handles `get` and `list` requests for objects of any kind."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def get(self, call: Call) -> Response:
        wanted = parse_version(call.request.parameter("resourceVersion"))
        kv = await find_named(self._context.store, call)
        await self._check_not_in_the_future(wanted)
        return await respond_with_object(self._context, call, kv.value, kv.mod_revision)

    async def list(self, call: Call) -> Response:
        request = call.request
        view = view_for(self._context, call)
        selection = self._context.selections.selection_for(request, call.kind, call.stored)
        wanted = list_version(call)
        page = await self._read_page(call, selection, wanted)
        await call.stored.prepare((kv.value for kv in page.items), call.kind)
        metadata = ListMeta(resource_version=str(page.revision))
        if page.last_key:
            metadata.continue_ = _encode_token(
                _ContinueToken(page.revision, page.last_key.removeprefix(call.stored.prefix))
            )
            metadata.remaining_item_count = page.remaining if selection.is_everything else None
        if call.accepted.format == "protobuf":
            return Response(200, await view.protobuf_list(page.items, metadata), PROTOBUF, warnings=call.warnings)
        if is_too_long((kv.value for kv in page.items), call.accepted, request):
            pieces = view.pieces(page.items, metadata)
            if call.accepted.format == "yaml":
                return Response(200, make_body(map(flow_yaml, pieces)), YAML, warnings=call.warnings)
            return Response(200, make_body(pieces), warnings=call.warnings)
        return make_response(call, view.list(page.items, metadata))

    async def _read_page(self, call: Call, selection: Selection, wanted: ListVersion) -> _ObjectPage:
        limit = min(max(parse_number(call.request, "limit") or 0, 0), _MAX_LIMIT)
        token = _decode_token(call.request.parameter("continue"))
        after_key = call.stored.prefix + token.start if token else ""
        if token:
            revision = token.revision if token.revision > 0 else None
        else:
            revision = wanted.version if wanted.exact else None
            await self._check_not_in_the_future(0 if wanted.exact else wanted.version)
        try:
            return await self.scan(call, selection, after_key=after_key, limit=limit, revision=revision)
        except Compacted:
            expired = errors.expired(_CONTINUE_TOO_OLD if token else _LIST_TOO_OLD)
            if token:
                expired.status.metadata.continue_ = _encode_token(_ContinueToken(-1, token.start))
            raise expired from None
        except FutureRevision as error:
            if token:
                raise errors.bad_request("continue key is not valid: it is from the future") from None
            raise too_large_version(error.requested, error.current) from None

    async def scan(
        self, call: Call, selection: Selection, *, after_key: str = "", limit: int = 0, revision: int | None = None
    ) -> _ObjectPage:
        """Return at most `limit` stored objects (0: all) that match the selectors, after a key, at one revision."""
        store, stored = self._context.store, call.stored
        namespace = call.namespace or (selection.one_namespace() or "" if stored.hub.namespaced else "")
        prefix = stored.prefix_of(namespace)
        name = selection.one_name()
        if name is not None and revision is None and not after_key and (namespace or not stored.hub.namespaced):
            now = await store.revision()
            kv = await store.get(stored.key(namespace, name)) if name else None
            if kv and selection.needs_webhook:
                await stored.prepare([kv.value], call.kind)
            return _ObjectPage([kv] if kv and selection.matches(kv) else [], now)
        found: list[KeyValue] = []
        step = limit if selection.is_everything else limit and max(limit, _SCAN)
        while True:
            page = await store.range(prefix, after_key=after_key, limit=step, revision=revision)
            if selection.is_everything:
                last = page.items[-1].key if page.remaining else ""
                return _ObjectPage(page.items, page.revision, last, page.remaining)
            if selection.needs_webhook:
                await stored.prepare([kv.value for kv in page.items], call.kind)
            for index, kv in enumerate(page.items):
                if index % _SCAN == _SCAN - 1:
                    await asyncio.sleep(0)  # other requests run, and the deadline of this one is checked
                if selection.matches(kv):
                    found.append(kv)
                    remaining = page.remaining + len(page.items) - index - 1
                    if limit and len(found) == limit and remaining:
                        return _ObjectPage(found, page.revision, kv.key, remaining)
            if not page.remaining:
                return _ObjectPage(found, page.revision)
            revision, after_key = page.revision, page.items[-1].key

    async def _check_not_in_the_future(self, wanted: int) -> None:
        if wanted:
            current = await self._context.store.revision()
            if wanted > current:
                raise too_large_version(wanted, current)


async def find_named(store: Store, call: Call) -> KeyValue:
    """Return the stored object (key, bytes, revision) that a request names; raise NotFound if there is none."""
    await store.revision()
    kv = store.peek(call.stored.key(call.namespace, call.name))
    if kv is None:
        raise call.not_found()
    return kv


def check_list_options(request: Request, token: str, *, watch: bool = False) -> bool | None:
    """Raise Invalid if the options of a list or watch are wrong; return `sendInitialEvents`, None if it is absent."""
    version, match = request.parameter("resourceVersion"), request.parameter("resourceVersionMatch")
    initial_events = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
    wrong = resource_version.validate_list(version, match, token, watch=watch, send_initial_events=initial_events)
    if wrong:
        raise errors.invalid("ListOptions", "", wrong, group="meta.k8s.io")
    return initial_events


def list_version(call: Call) -> ListVersion:
    """Return the resourceVersion and its match rule for a list; raise Invalid or BadRequest if they are wrong."""
    request = call.request
    version, match = request.parameter("resourceVersion"), request.parameter("resourceVersionMatch")
    token = request.parameter("continue")
    check_list_options(request, token)
    if token and version not in {"", "0"}:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    try:
        return resource_version.for_list(version, match, token)
    except ResourceVersionError as error:
        raise errors.bad_request(str(error)) from None


def parse_version(text: str) -> int:
    """Return the number in a resourceVersion parameter; raise BadRequest if it is none."""
    try:
        return resource_version.parse(text)
    except ResourceVersionError as error:
        raise errors.bad_request(str(error)) from None


def too_large_version(wanted: int, current: int) -> errors.Timeout:
    """Return (not raise) the error for a resourceVersion newer than any on this server."""
    error = errors.timeout(f"Too large resource version: {wanted}, current: {current}", retry_after_seconds=1)
    if error.status.details is not None:
        error.status.details.causes = [
            StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
        ]
    return error


def _encode_token(token: _ContinueToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> _ContinueToken | None:
    if not text:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(data, type=_ContinueToken)
    except (ValueError, msgspec.MsgspecError):
        raise errors.bad_request("continue key is not valid: it was not made by this server") from None
    if token.version != "meta.k8s.io/v1" or not token.start or token.start.startswith("/"):
        raise errors.bad_request("continue key is not valid: it was not made by this server")
    return token
