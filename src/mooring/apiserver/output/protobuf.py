"""Encode responses in Kubernetes' protobuf format, which Go components request.

Objects are rendered as JSON and then transcoded, so that there is one way to render them. Transcoded objects are cached
by their JSON, because many clients list and watch the same ones. Kinds without a protobuf message in Kubernetes
(tables, custom resources) stay JSON. Called by ``registry/views.py``.
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


def supports(cls: type[msgspec.Struct], shown_as: str) -> bool:
    """Return whether a type has a protobuf message."""
    return shown_as.startswith("PartialObjectMetadata") or is_supported(cls)


def document(body: bytes) -> bytes:
    """Convert a JSON object to protobuf, with Kubernetes' envelope; raise Unsupported."""
    return encode(*_transcode(body))


def watch_frame(kind: str, body: bytes) -> bytes:
    """Encode an event of a watch: its length, and a message that contains the object."""
    event = field(1, kind.encode()) + field(2, field(1, document(body)))
    return len(event).to_bytes(4, "big") + event


async def list_document(kind: str, api_version: str, metadata: ListMeta, items: Iterable[Callable[[], bytes]]) -> bytes:
    """Encode a list; each of `items` returns the JSON of an object."""
    parts = [field(1, message(codec.to_tree(metadata), ListMeta))]
    began = monotonic()
    for make in items:
        parts.append(field(2, _transcode(make())[2]))
        if monotonic() - began > _TURN_SECONDS:
            await asyncio.sleep(0)
            began = monotonic()
    return encode(api_version, kind, b"".join(parts))


def _transcode(body: bytes) -> tuple[str, str, bytes]:
    """Return the apiVersion, kind and message of a JSON object."""
    cached = _CACHE.get(body)
    if cached is None:
        tree = msgspec.json.decode(body)
        api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
        cls = _types().get((api_version, kind))
        if cls is None:
            raise Unsupported(kind)
        cached = (api_version, kind, message(tree, cls))
        _CACHE.put(body, cached)
    return cached


@cache
def _types() -> Mapping[tuple[str, str], type[Any]]:
    found: dict[tuple[str, str], type[Any]] = {(kind.api_version, kind.kind): kind.type for kind in KINDS}
    found |= {(kind.api_version, kind.list_kind): kind.list_type for kind in KINDS if kind.list_type}
    for cls in (meta_v1.Status, meta_v1.APIResourceList, meta_v1.APIGroupList, meta_v1.APIGroup, meta_v1.APIVersions):
        found["v1", cls.__name__] = found["", cls.__name__] = cls
    for partial in (meta_v1.PartialObjectMetadata, meta_v1.PartialObjectMetadataList):
        found["meta.k8s.io/v1", partial.__name__] = partial
    found["apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"] = APIGroupDiscoveryList
    return found
