"""How calls become requests and answers objects: paths, queries, bodies, errors. For ``client.py`` and ``watch.py``."""

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
"""From the version that the server sends to the type that was asked for."""

_LONGEST_WAIT = 30.0


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """Objects, the version of the collection that they show, and how to go on when it was only a page."""

    items: list[T]
    resource_version: str
    continue_: str = ""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    """A list whose items are decoded one by one, so that one odd item does not send all of them the slow way."""

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


class _Named(msgspec.Struct):
    name: str = ""


class _ResourceNames(msgspec.Struct):
    resources: list[_Named] = []


UNREADABLE = (msgspec.MsgspecError, codec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised for bytes that no server should send."""
PARTS = TemplateParts()
"""What all caches of this process share."""
_LISTS = msgspec.json.Decoder(_RawList)
_IDENTITIES = msgspec.json.Decoder(_Identified)
_KIND_ONLY = msgspec.json.Decoder(_KindOnly)
_RESOURCES = msgspec.json.Decoder(_ResourceNames)


def is_status(response: Response) -> bool:
    """Whether the answer is a Status and no object."""
    return _read(_KIND_ONLY, response, "object").kind == "Status"


def has_resource(response: Response, plural: str) -> bool:
    """Whether a document of discovery lists a resource."""
    return any(each.name == plural for each in _read(_RESOURCES, response, "list of resources").resources)


def identity(response: Response) -> ObjectMeta:
    """The name, uid and version of the object of an answer."""
    try:
        return identity_of(response.body)
    except UNREADABLE as error:
        raise DisconnectedError(f"the server sent what is no object: {error}") from None


def identity_of(raw: bytes | msgspec.Raw) -> ObjectMeta:
    """The same of an object's JSON."""
    found = _IDENTITIES.decode(raw).metadata
    return ObjectMeta(
        name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version
    )


def _read(decoder: "msgspec.json.Decoder[R]", response: Response, what: str) -> R:
    try:
        return decoder.decode(response.body)
    except UNREADABLE as error:
        raise DisconnectedError(f"the server sent what is no {what}: {error}") from None


def decoded(response: Response, cls: type[T]) -> T:
    """The object of an answer."""
    try:
        return codec.decode_own(response.body, cls)
    except codec.DecodeError as error:
        raise DisconnectedError(f"the server sent what is no {cls.__name__}: {error}") from None


def listing(
    response: Response, kind: Kind, cls: type[T], conversion: Conversion[T] | None, parts: TemplateParts | None
) -> Listing[T]:
    """The objects of an answer that is a list; `parts` as in `item_of`."""
    try:
        raw = _LISTS.decode(response.body)
        items = [item_of(item, kind, cls, conversion, parts) for item in raw.items or ()]
    except UNREADABLE as error:
        raise DisconnectedError(f"the server sent what is no list of {kind.plural}: {error}") from None
    return Listing(items, raw.metadata.resource_version, raw.metadata.continue_)


def item_of(
    raw: msgspec.Raw, kind: Kind, cls: type[T], conversion: Conversion[T] | None, parts: TemplateParts | None
) -> T:
    """An object within a list or a watch event; it says its kind even where the server leaves that out.

    One that goes into a cache has no managed fields, and shares what it has in common with others: `parts`.
    """
    if conversion is None:
        return _item(raw, kind, cls, parts)
    return conversion(_item(raw, kind, kind.type, parts))


def _item(raw: msgspec.Raw, kind: Kind, cls: type[T], parts: TemplateParts | None) -> T:
    """An object of the version that the server sent."""
    if cls is not Pod or parts is None:
        return _whole(raw, kind, cls, parts)
    try:
        return cast("T", lean_pods.pod_of(lean_pods.read(raw), parts))
    except lean_pods.UNUSUAL:
        return _whole(raw, kind, cls, parts)


def _whole(raw: msgspec.Raw, kind: Kind, cls: type[T], parts: TemplateParts | None) -> T:
    """The same, of any kind.

    Managed fields are many small maps. Dropped right after they were made, they cost the garbage collector nothing.
    """
    obj = codec.decode_own(bytes(raw), cls)
    obj.kind, obj.api_version = kind.kind, kind.api_version
    if parts is not None:
        obj.metadata.managed_fields = []
        parts.share(obj)
    return obj


def prefix(kind: Kind) -> str:
    """The path of the kind's group and version."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def part(kind: Kind, what: str, text: str) -> str:
    """A name as part of a path; raises ValueError for one that would make another path of it."""
    if not text or "/" in text or text in {".", ".."}:
        raise ValueError(f"{text!r} cannot be the {what} of a {kind.kind}")
    return text


def query(**parameters: str) -> Query:
    """The parameters that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]


def write_query(dry_run: bool, field_manager: str, field_validation: str, *, force: bool = False) -> Query:
    return query(
        dryRun="All" if dry_run else "",
        fieldManager=field_manager,
        fieldValidation=field_validation,
        force="true" if force else "",
    )


def delete_options(
    grace: int | None, propagation: str | None, uid: str | None, version: str | None, dry_run: bool
) -> DeleteOptions:
    return DeleteOptions(
        kind="DeleteOptions",
        api_version="v1",
        grace_period_seconds=grace,
        propagation_policy=propagation,
        preconditions=Preconditions(uid=uid, resource_version=version) if uid or version else None,
        dry_run=["All"] if dry_run else [],
    )


@lru_cache(maxsize=64)
def delete_options_body(grace: int | None, propagation: str | None) -> bytes:
    """Delete options as JSON, for any object."""
    return codec.encode(delete_options(grace, propagation, None, None, dry_run=False))


def retry_after(response: Response) -> float | None:
    """How long to wait before repeating a request that the server did not begin with; None for all others."""
    if response.status not in {429, 503}:
        return None
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() else None


def status_error(code: int, body: bytes) -> errors.StatusError:
    """The server's error; of an answer that is no Status (from a proxy, say) the text is kept."""
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
