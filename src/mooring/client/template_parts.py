"""Parts that cached objects share: specifications of pods from one template, labels, owners, conditions, resources.

Equal parts are stored once; so are strings that many objects have, and everything empty is one list or map. A pod takes
1.7 KB instead of 9. Called by ``wire.py`` and ``lean_pods.py`` for objects of caches, which are never modified.
"""

import sys
from functools import cache
from typing import Any, TypeVar

import msgspec

from mooring.api import codec
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node
from mooring.api.meta_v1 import Resource

T = TypeVar("T")
_MAX_PARTS = 4096
"""The maximum number of stored parts; all are dropped when it is reached."""
_MAX_PART_BYTES = 16 * 1024
"""The maximum size of a stored part in bytes of JSON; larger ones would outlive their pods."""
_SHARED_STRINGS = frozenset(
    {"namespace", "creation_timestamp", "kernel_version", "os_image", "container_runtime_version", "kubelet_version"}
    | {"kube_proxy_version", "operating_system", "architecture", "renew_time", "acquire_time"}
    | {"phase", "reason", "nominated_node_name", "host_ip", "start_time", "qos_class"}
)
_Key = tuple[str, bytes]
"""The key of an interned part: its field name and its JSON; labels and resource amounts may have the same JSON."""


class TemplateParts:
    """A pool of sub-objects (specifications, labels, conditions) by their JSON, so that equal ones are stored once."""

    def __init__(self, *, ignores_token_names: bool = False) -> None:
        self.ignores_token_names = ignores_token_names
        """Whether volumes of service account tokens, whose names are generated for each pod, get the same name;
        otherwise no two pods share their specification. Only for caches that are read.
        """
        self.empty_list: list[Any] = []
        self.empty_map: dict[str, Any] = {}
        self._parts: dict[_Key, Any] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def share_parts(self, obj: Resource) -> None:
        """Replace sub-objects of a decoded object by equal ones in the pool, to save memory; modifies the object."""
        self.share_fields(obj.metadata)
        if isinstance(obj, Node):
            self._share_node(obj)
        elif isinstance(obj, Lease):
            self.share_fields(obj.spec)

    def share_fields(self, part: msgspec.Struct) -> None:
        """Replace empty lists and maps by one shared instance, and strings that often repeat by interned ones."""
        lists, maps, strings = _shared_field_names(type(part))
        for name in lists:
            if not getattr(part, name):
                setattr(part, name, self.empty_list)
        for name in maps:
            if not getattr(part, name):
                setattr(part, name, self.empty_map)
        for name in strings:
            if text := getattr(part, name):
                setattr(part, name, sys.intern(text))

    def _share_node(self, node: Node) -> None:
        status = node.status
        for part in (node.spec, status, status.node_info):
            self.share_fields(part)
        node.metadata.labels = {name: sys.intern(value) for name, value in node.metadata.labels.items()}
        status.declared_features = self.intern("declared features", status.declared_features)
        status.capacity = self.intern("capacity", status.capacity)
        status.allocatable = self.intern("allocatable", status.allocatable)
        status.conditions = self.intern("node conditions", status.conditions)
        status.images = self.intern("images", status.images)

    def intern(self, name: str, part: T) -> T:
        """Return the pooled sub-object equal to `part`; if there is none, add `part` and return it."""
        text = codec.encode(part)
        found: T | None = self._parts.get((name, text))
        return self._add_part(name, text, part) if found is None else found

    def decode_once(self, name: str, text: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
        """Return the pooled sub-object with this JSON; decode and add it if missing. Raise a `MsgspecError`."""
        found: T | None = self._parts.get((name, text))
        return self._add_part(name, text, decoder.decode(text)) if found is None else found

    def _add_part(self, name: str, text: bytes, part: T) -> T:
        """Add a sub-object to the pool under its JSON, and return it; clear a full pool first, skip large ones."""
        if len(text) <= _MAX_PART_BYTES:
            if len(self._parts) >= _MAX_PARTS:
                self._parts.clear()
            self._parts[name, text] = part
        return part


@cache
def _shared_field_names(cls: type[msgspec.Struct]) -> tuple[list[str], list[str], list[str]]:
    """Return a type's field names: the lists, the maps, and the strings whose value many objects have in common."""
    blank = cls()
    names: dict[type, list[str]] = {list: [], dict: []}
    for name in cls.__struct_fields__:
        names.get(type(getattr(blank, name)), []).append(name)
    return names[list], names[dict], [name for name in cls.__struct_fields__ if name in _SHARED_STRINGS]
