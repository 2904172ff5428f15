"""Encode responses in Kubernetes' protobuf format, which Go components request.

Objects are rendered as JSON and then transcoded, so that there is one way to render them. Transcoded objects are cached
by their JSON, because many clients list and watch the same ones. Kinds without a protobuf message in Kubernetes
(tables, custom resources) stay JSON. Called by ``registry/verbs/views.py``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from time import monotonic
from typing import Any

import msgspec

from mooring.api import codec, meta_v1
from mooring.api.apidiscovery_v2 import APIGroupDiscoveryList
from mooring.api.kinds import KINDS
from mooring.api.meta_v1 import ListMeta
from mooring.api.protobuf import MEDIA_TYPE
from mooring.api.protobuf_encoding import encode, field, message
from mooring.api.protobuf_table import Unsupported, is_supported
from mooring.base.bounded_cache import BoundedCache

WATCH_TYPE = f"{MEDIA_TYPE};stream=watch"
_MAX_CACHED = 4096
_TURN_SECONDS = 0.01
"""The seconds for which a list is encoded before other tasks of the event loop run."""
_CACHE: BoundedCache[bytes, tuple[str, str, bytes]] = BoundedCache(_MAX_CACHED)


def has_message(cls: type[msgspec.Struct], shown_as: str) -> bool:
    """Return whether a type has a protobuf message; True for every type shown as PartialObjectMetadata."""
    return shown_as.startswith("PartialObjectMetadata") or is_supported(cls)


def encode_object(body: bytes) -> bytes:
    """Return an object's JSON encoded as Kubernetes protobuf; raise Unsupported if its kind has no message."""
    return encode(*_transcode(body))


def encode_watch_event(kind: str, body: bytes) -> bytes:
    """Return a watch event as protobuf: its length, and a message with the event type and the object's JSON encoded."""
    event = field(1, kind.encode()) + field(2, field(1, encode_object(body)))
    return len(event).to_bytes(4, "big") + event


async def encode_list(kind: str, api_version: str, metadata: ListMeta, items: Iterable[Callable[[], bytes]]) -> bytes:
    """Return a list as protobuf; each of `items` is a function that returns an object's JSON."""
    parts = [field(1, message(codec.to_tree(metadata), ListMeta))]
    began = monotonic()
    for make in items:
        parts.append(field(2, _transcode(make())[2]))
        if monotonic() - began > _TURN_SECONDS:
            await asyncio.sleep(0)
            began = monotonic()
    return encode(api_version, kind, b"".join(parts))


def _transcode(body: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and protobuf message of an object in JSON, cached. Raise Unsupported without message."""
    cached = _CACHE.get(body)
    if cached is None:
        tree = msgspec.json.decode(body)
        api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
        cls = _message_types().get((api_version, kind))
        if cls is None:
            raise Unsupported(kind)
        cached = (api_version, kind, message(tree, cls))
        _CACHE.put(body, cached)
    return cached


@cache
def _message_types() -> Mapping[tuple[str, str], type[Any]]:
    found: dict[tuple[str, str], type[Any]] = {(kind.api_version, kind.kind): kind.type for kind in KINDS}
    found |= {(kind.api_version, kind.list_kind): kind.list_type for kind in KINDS if kind.list_type}
    for cls in (meta_v1.Status, meta_v1.APIResourceList, meta_v1.APIGroupList, meta_v1.APIGroup, meta_v1.APIVersions):
        found["v1", cls.__name__] = found["", cls.__name__] = cls
    for partial in (meta_v1.PartialObjectMetadata, meta_v1.PartialObjectMetadataList):
        found["meta.k8s.io/v1", partial.__name__] = partial
    found["apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"] = APIGroupDiscoveryList
    return found
