"""Encode requests and decode responses: paths, queries, bodies, errors. Used by ``client.py`` and ``watch.py``."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar, cast

import msgspec

from mooring.api import codec, errors
from mooring.api.core_v1 import Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import DeleteOptions, ObjectMeta, Preconditions, Resource, Status
from mooring.api.protobuf import MAGIC
from mooring.client import lean_pods
from mooring.client.errors import DisconnectedError
from mooring.client.template_parts import TemplateParts
from mooring.client.transport import Response

T = TypeVar("T", bound=Resource)
R = TypeVar("R")
Query = Sequence[tuple[str, str]]
Conversion = Callable[[Resource], T]
"""A function that converts an object from the server's version to the requested type."""

_LONGEST_WAIT = 30.0


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list: its objects, its resourceVersion, and the continue token if more pages follow."""

    items: list[T]
    resource_version: str
    continue_: str = ""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    """A list whose items are decoded one by one, so that one unusual item does not slow down the others."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Identity(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


class _KindOnly(msgspec.Struct):
    kind: str = ""


class _NamedResource(msgspec.Struct):
    name: str = ""


class _ResourceNames(msgspec.Struct):
    resources: list[_NamedResource] = []


UNREADABLE = (msgspec.MsgspecError, codec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors raised while decoding an invalid response."""
PARTS = TemplateParts()
"""The interned object parts that all caches of this process share by default."""
_LISTS = msgspec.json.Decoder(_RawList)
_IDENTITIES = msgspec.json.Decoder(_Identified)
_KIND_ONLY = msgspec.json.Decoder(_KindOnly)
_RESOURCES = msgspec.json.Decoder(_ResourceNames)


def is_status(response: Response) -> bool:
    """Return whether a response body is a Status and not an object; raise DisconnectedError if it is unreadable."""
    return _decode_body(_KIND_ONLY, response, "object").kind == "Status"


def has_resource(response: Response, plural: str) -> bool:
    """Return whether a discovery document lists a resource by plural name; raise DisconnectedError if malformed."""
    return any(each.name == plural for each in _decode_body(_RESOURCES, response, "list of resources").resources)


def decode_identity(response: Response) -> ObjectMeta:
    """Return name, namespace, uid and resourceVersion of the object in a response; raise DisconnectedError if none."""
    found = _decode_body(_IDENTITIES, response, "object").metadata
    return ObjectMeta(
        name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version
    )


def _decode_body(decoder: "msgspec.json.Decoder[R]", response: Response, what: str) -> R:
    try:
        return decoder.decode(response.body)
    except UNREADABLE as error:
        raise DisconnectedError(f"the server sent what is no {what}: {error}") from None


def decode_response(response: Response, cls: type[T]) -> T:
    """Return the response's body as an object of type `cls`; raise DisconnectedError if it is not one."""
    try:
        return codec.decode_own(response.body, cls)
    except codec.DecodeError as error:
        raise DisconnectedError(f"the server sent what is no {cls.__name__}: {error}") from None


def decode_list(
    response: Response, kind: Kind, cls: type[T], conversion: Conversion[T] | None, parts: TemplateParts | None
) -> Listing[T]:
    """Return a list response as a Listing; raise DisconnectedError if it is no list. `parts`: see `decode_item`."""
    try:
        raw = _LISTS.decode(response.body)
        items = [decode_item(item, kind, cls, conversion, parts) for item in raw.items or ()]
    except UNREADABLE as error:
        raise DisconnectedError(f"the server sent what is no list of {kind.plural}: {error}") from None
    return Listing(items, raw.metadata.resource_version, raw.metadata.continue_)


def decode_item(
    raw: msgspec.Raw, kind: Kind, cls: type[T], conversion: Conversion[T] | None, parts: TemplateParts | None
) -> T:
    """Decode an object of a list or a watch event, with kind and apiVersion even if the server leaves them out.

    With `parts` the object is for a cache: without managed fields, sharing its equal parts with other objects.
    """
    if conversion is not None:
        return conversion(_decode_fully(raw, kind, kind.type, parts))
    if cls is not Pod or parts is None:
        return _decode_fully(raw, kind, cls, parts)
    try:
        return cast("T", lean_pods.build_pod(lean_pods.decode_raw_pod(raw), parts))
    except lean_pods.UNUSUAL:
        return _decode_fully(raw, kind, cls, parts)


def _decode_fully(raw: msgspec.Raw, kind: Kind, cls: type[T], parts: TemplateParts | None) -> T:
    """Decode a whole object of any kind; with `parts`, without managed fields (many small maps), for a cache."""
    obj = codec.decode_own(bytes(raw), cls)
    obj.kind, obj.api_version = kind.kind, kind.api_version
    if parts is not None:
        obj.metadata.managed_fields = []
        parts.share_parts(obj)
    return obj


def path_prefix(kind: Kind) -> str:
    """Return the URL path of a kind's group and version, such as `/apis/apps/v1`."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def check_path_segment(kind: Kind, what: str, text: str) -> str:
    """Return a name as it is, for a URL path; raise ValueError for an empty name, `.`, `..` or one with a slash."""
    if not text or "/" in text or text in {".", ".."}:
        raise ValueError(f"{text!r} cannot be the {what} of a {kind.kind}")
    return text


def build_query(**parameters: str) -> Query:
    """Return the given parameters as a query, without those that are empty."""
    return [(name, value) for name, value in parameters.items() if value]


def build_write_query(field_manager: str, *, dry_run: bool = False, force: bool = False) -> Query:
    return build_query(dryRun="All" if dry_run else "", fieldManager=field_manager, force="true" if force else "")


def make_delete_options(
    grace: int | None, propagation: str | None = None, uid: str | None = None, version: str | None = None
) -> DeleteOptions:
    return DeleteOptions(
        kind="DeleteOptions",
        api_version="v1",
        grace_period_seconds=grace,
        propagation_policy=propagation,
        preconditions=Preconditions(uid=uid, resource_version=version) if uid or version else None,
    )


@lru_cache(maxsize=64)
def encode_delete_options(grace: int | None, propagation: str | None) -> bytes:
    """Return DeleteOptions with a grace period and propagation policy as JSON."""
    return codec.encode(make_delete_options(grace, propagation))


def parse_retry_after(response: Response) -> float | None:
    """Return the seconds in Retry-After of a 429 or 503 response, at most 30; None for others, or without a number."""
    if response.status not in {429, 503}:
        return None
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() else None


def status_error(code: int, body: bytes) -> errors.StatusError:
    """Return the error of a response: the Status in its body or, if the body is no Status, an error with its text."""
    try:
        if body.startswith(MAGIC):
            status = codec.decode_protobuf(body, Status, codec.FieldValidation.IGNORE).object
        else:
            status = codec.decode_own(body, Status)
    except codec.DecodeError:
        status = Status(message=body[:500].decode(errors="replace").strip())
    if status.kind != "Status":
        text = status.message or f"the server answered with status {code}"
        status = Status(kind="Status", api_version="v1", status="Failure", message=text, code=code)
    return errors.from_status(status)
