"""Pods read for caches without what their like have said before: specification, labels and owners by their bytes.

Most of what a server sends of a pod is its template's, or who manages its fields, which caches have no use for. Neither
is decoded again: a specification (apart from the node) is known by its bytes. Called by ``wire.py``; what is unusual is
read the ordinary way.
"""

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import structs

from mooring.api.core_v1 import Pod, PodSpec, PodStatus
from mooring.api.from_tree import quantity_from
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.quantity import Quantity
from mooring.client.template_parts import TemplateParts

_NOTHING = msgspec.Raw(b"")
_NODE = b',"nodeName":"'
"""Nowhere else in a specification there is a field of this name."""


class _Meta(msgspec.Struct, rename="camel"):
    """The metadata with what repeats unread."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    labels: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw
    status: PodStatus = msgspec.field(default_factory=PodStatus)


_REPEATING = frozenset({"labels", "owner_references"})
_OWN = tuple(name for name in _Meta.__struct_fields__ if name not in _REPEATING)
_own_of = attrgetter(*_OWN)


def _hook(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


_PODS = msgspec.json.Decoder(_Pod, dec_hook=_hook)
_SPECS = msgspec.json.Decoder(PodSpec, dec_hook=_hook)
_LABELS = msgspec.json.Decoder(dict[str, str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])


def pod_of(raw: msgspec.Raw, parts: TemplateParts) -> Pod | None:
    """A pod, without managed fields and with shared parts; None if it has to be read the ordinary way."""
    try:
        seen = _PODS.decode(raw)
        spec, node = _spec(bytes(seen.spec), parts)
        meta = ObjectMeta(**dict(zip(_OWN, _own_of(seen.metadata), strict=True)))
        if seen.metadata.labels:
            meta.labels = parts.known("labels", bytes(seen.metadata.labels), _LABELS)
        if seen.metadata.owner_references:
            meta.owner_references = parts.known("owner_references", bytes(seen.metadata.owner_references), _OWNERS)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    seen.status.conditions = parts.once("pod conditions", seen.status.conditions)
    return Pod(metadata=meta, spec=structs.replace(spec, node_name=node), status=seen.status)


def _spec(text: bytes, parts: TemplateParts) -> tuple[PodSpec, str]:
    """The specification that pods of a template share, and the node, which stands between other fields as a rule."""
    begin = text.find(_NODE)
    if begin < 0:
        spec = parts.known("spec", text, _SPECS)
        return spec, spec.node_name
    begins = begin + len(_NODE)
    end = text.index(b'"', begins)
    name = text[begins:end].decode("ascii")
    if "\\" in name or not text.startswith(b'",', end) or text.find(_NODE, end) >= 0:
        raise ValueError("a node is named in an unusual way")
    return parts.known("spec", text[: begin + 1] + text[end + 2 :], _SPECS), name
