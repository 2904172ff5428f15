"""Answers in Kubernetes' protobuf encoding, for clients that ask for it: Go components do.

Everything is made as JSON first and then written anew, so that there is one way to show an object. What was written is
kept by its JSON: events that many watch, and objects that many list, are written once. ``registry/views.py`` and
``registry/watching.py`` call it. What Kubernetes has no messages for (tables, custom resources) stays JSON.
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
_KEPT = 4096
_TURN_SECONDS = 0.01
"""For how long a list is written without letting others have their turn."""
_KNOWN: BoundedCache[bytes, tuple[str, str, bytes]] = BoundedCache(_KEPT)


def supports(cls: type[msgspec.Struct], shown_as: str) -> bool:
    """Whether objects of a type can be shown in protobuf."""
    return shown_as.startswith("PartialObjectMetadata") or is_supported(cls)


def document(body: bytes) -> bytes:
    """A JSON object in protobuf, in its envelope; raises Unsupported."""
    return encode(*_written(body))


def watch_frame(kind: str, body: bytes) -> bytes:
    """An event of a watch: its length, and a message with the document inside."""
    event = field(1, kind.encode()) + field(2, field(1, document(body)))
    return len(event).to_bytes(4, "big") + event


async def list_document(kind: str, api_version: str, metadata: ListMeta, items: Iterable[Callable[[], bytes]]) -> bytes:
    """A list; `items` make the JSON of its objects."""
    parts = [field(1, message(codec.to_tree(metadata), ListMeta))]
    began = monotonic()
    for make in items:
        parts.append(field(2, _written(make())[2]))
        if monotonic() - began > _TURN_SECONDS:
            await asyncio.sleep(0)
            began = monotonic()
    return encode(api_version, kind, b"".join(parts))


def _written(body: bytes) -> tuple[str, str, bytes]:
    """The apiVersion, the kind and the message of a JSON object."""
    known = _KNOWN.get(body)
    if known is None:
        tree = msgspec.json.decode(body)
        api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
        cls = _types().get((api_version, kind))
        if cls is None:
            raise Unsupported(kind)
        known = (api_version, kind, message(tree, cls))
        _KNOWN.put(body, known)
    return known


@cache
def _types() -> Mapping[tuple[str, str], type[Any]]:
    """What answers can be, by apiVersion and kind."""
    found: dict[tuple[str, str], type[Any]] = {(kind.api_version, kind.kind): kind.type for kind in KINDS}
    found |= {(kind.api_version, kind.list_kind): kind.list_type for kind in KINDS if kind.list_type}
    for cls in (meta_v1.Status, meta_v1.APIResourceList, meta_v1.APIGroupList, meta_v1.APIGroup, meta_v1.APIVersions):
        found["v1", cls.__name__] = found["", cls.__name__] = cls
    for partial in (meta_v1.PartialObjectMetadata, meta_v1.PartialObjectMetadataList):
        found["meta.k8s.io/v1", partial.__name__] = partial
    found["apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"] = APIGroupDiscoveryList
    return found
