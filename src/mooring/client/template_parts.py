"""Objects that are alike share what they have in common: caches keep it once, and not once for every object.

The specification of a pod is, apart from its node, that of its template, and so are labels and owners; conditions are
the same for pods that came to run in the same second. Nodes of one sort have the same resources and software. What is
empty is one empty list or map. A pod takes 1.7 KB instead of 9. Called by ``wire.py`` for objects that go into caches,
which nobody changes.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node, Pod, PodSpec
from mooring.api.meta_v1 import Resource

T = TypeVar("T")
_MOST = 4096
"""So many parts are remembered; then remembering begins anew."""
_WORDS = 16_384
_LARGEST = 16 * 1024
"""What is larger, in bytes of JSON, is not remembered: it would stay when its pods have gone."""
_WORDY = frozenset(
    {"namespace", "creation_timestamp", "kernel_version", "os_image", "container_runtime_version", "kubelet_version"}
    | {"kube_proxy_version", "operating_system", "architecture", "renew_time", "acquire_time"}
)
_Key = tuple[str, bytes]
"""Which part, and what it says as JSON: labels and amounts may read the same."""


class Words(dict[str, str]):
    """`words[text]` is the text, or the one that was seen before and is equal: of nodes, addresses, times, phases."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _WORDS:
            self.clear()
        self[text] = text
        return text


class TemplateParts:
    """Parts of objects that were seen, by what they say."""

    def __init__(self, *, tokens_alike: bool = False) -> None:
        self.tokens_alike = tokens_alike
        """Whether the volume of the service account's token, which Kubernetes gives each pod under a name that it makes
        up, has the same name in all pods: else no two of them share their specification. For those who only read."""
        self.no_list: list[Any] = []
        self.no_map: dict[str, Any] = {}
        """What is empty in all objects: as they are never changed, neither are these."""
        self._seen: dict[_Key, Any] = {}
        self.words = Words()
        self._last_spec: tuple[bytes, PodSpec] = (b"", PodSpec())

    def __len__(self) -> int:
        return len(self._seen)

    def share(self, obj: Resource) -> None:
        """Put what was seen before in the place of what is equal to it, in an object that was just decoded."""
        self._share_rest(obj.metadata)
        if isinstance(obj, Pod):
            self._share_pod(obj)
        elif isinstance(obj, Node):
            self._share_node(obj)
        elif isinstance(obj, Lease):
            self._share_rest(obj.spec)

    def _share_rest(self, part: msgspec.Struct) -> None:
        """What is empty, and words that many objects use."""
        lists, maps, words = _fields(type(part))
        for name in lists:
            if not getattr(part, name):
                setattr(part, name, self.no_list)
        for name in maps:
            if not getattr(part, name):
                setattr(part, name, self.no_map)
        for name in words:
            if text := getattr(part, name):
                setattr(part, name, self.words[text])

    def _share_node(self, node: Node) -> None:
        status = node.status
        for part in (node.spec, status, status.node_info):
            self._share_rest(part)
        node.metadata.labels = {name: self.words[value] for name, value in node.metadata.labels.items()}
        status.declared_features = self.once("declared features", status.declared_features)
        status.capacity = self.once("capacity", status.capacity)
        status.allocatable = self.once("allocatable", status.allocatable)
        status.conditions = self.once("node conditions", status.conditions)
        status.images = self.once("images", status.images)

    def _share_pod(self, pod: Pod) -> None:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        node, spec.node_name = spec.node_name, ""
        pod.spec = structs.replace(self.once("spec", spec), node_name=node)
        meta.labels = self.once("labels", meta.labels)
        meta.owner_references = self.once("owner_references", meta.owner_references)
        status.conditions = self.once("pod conditions", status.conditions)

    def once(self, name: str, part: T) -> T:
        """A part, or the one that was seen before and says the same."""
        text = codec.encode(part)
        found: T | None = self.seen(name, text)
        return self.remember(name, text, part) if found is None else found

    def known(self, name: str, text: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
        """What a text says, decoded where it was not seen before; raises a `MsgspecError`."""
        found: T | None = self._seen.get((name, text))
        return self.remember(name, text, decoder.decode(text)) if found is None else found

    def known_spec(self, text: bytes, decoder: "msgspec.json.Decoder[PodSpec]") -> PodSpec:
        """The same of a specification. Pods of one template come in rows: to compare costs less than to look it up."""
        last, spec = self._last_spec
        if text != last:
            spec = self.known("spec", text, decoder)
            self._last_spec = (text, spec)
        return spec

    def seen(self, name: str, text: bytes) -> Any:
        """What a text says, if it was seen before."""
        return self._seen.get((name, text))

    def remember(self, name: str, text: bytes, part: T) -> T:
        """Take a part for that of all who say the same."""
        if len(text) <= _LARGEST:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[name, text] = part
        return part


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[list[str], list[str], list[str]]:
    """Which fields of a type are lists, maps, and texts that are the same in many objects."""
    blank = cls()
    names: dict[type, list[str]] = {list: [], dict: []}
    for name in cls.__struct_fields__:
        names.get(type(getattr(blank, name)), []).append(name)
    return names[list], names[dict], [name for name in cls.__struct_fields__ if name in _WORDY]
