"""What a node reads: pods and volumes in words that its kubelet knows, with the taints and labels that it has now.

A kubelet judges required node affinity, NoExecute taints and the affinity of volumes again when a pod arrives, by the
rules of its own release. So what a user in the group `system:nodes` gets, lists or watches is lowered for that node
(`mooring.constraints.lowering`); the stored object, its resourceVersion and what everybody else reads stay as they are.

Whether a stored object has such words is found out once for each revision, by looking at its bytes; most have none and
are shown as they lie in the store. What was lowered is kept by revision and by those taints and labels of the node that
decide, so that nodes which are alike share it. `output.view_for` asks `NodeLowering.of` for every answer.

A node is not told when a change of its own taints or labels gives what it has read another meaning: the pod has not
changed, and kubelets judge pods when they arrive or when the kubelet starts, and then they list. docs/real-nodes.md has
what follows from that.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.api import codec
from mooring.api.core_v1 import Node, PersistentVolume, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.registry.stored import ROOT, Stored
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import KeyValue, Store

if TYPE_CHECKING:
    from mooring.constraints.lowering import NodeDependencies, NodeProperties
    from mooring.constraints.options import ConstraintOptions

_REMEMBERED = 16_384
_NODES = 8192
_MARKS = (b'"operator":"Lt"', b'"operator":"Gt"', b'"operator":"Semver', b'"expression":"', b'"matchCELExpressions":[')
"""One of these is in the bytes of every object that uses a new word; it may be in others too."""


class Rendering(Protocol):
    """Shows stored objects in a version: `Stored` as they are, `NodeReader` as a node reads them."""

    def render(self, value: bytes, revision: int, kind: Kind) -> bytes: ...

    def render_item(self, value: bytes, revision: int, kind: Kind) -> bytes: ...

    def render_items(self, items: Iterable[KeyValue], kind: Kind) -> Iterator[bytes | memoryview]: ...


class NodeLowering:
    """Finds out whether a request comes from a node, and remembers what was found out for nodes."""

    def __init__(self, store: Store, options: AdmissionOptions) -> None:
        self._store = store
        self._options = options
        self._words: BoundedCache[int, NodeProperties] = BoundedCache(_NODES)
        self._alike: BoundedCache[Hashable, object] = BoundedCache(_REMEMBERED)
        """By the words that count of a node, a stand-in for them that is quickly looked up."""
        self._reliances: BoundedCache[int, NodeDependencies | Literal[False]] = BoundedCache(_REMEMBERED)
        """By revision, what of a node decides; False for objects that all read alike."""
        self._lowered: BoundedCache[tuple[int, object], KeyValue] = BoundedCache(_REMEMBERED)

    def of(self, request: Request, stored: Stored) -> Rendering:
        """How the sender of a request reads objects of a kind."""
        if stored.hub.type not in {Pod, PersistentVolume}:
            return stored
        node = users.node_name(request.user)
        # What a dry run shows has the revision of an object that it is not, so only reading is remembered.
        return stored if node is None else NodeReader(self, stored, node, remembers=request.method == "GET")

    def read(self, stored: Stored, node: str, items: Iterable[KeyValue]) -> list[KeyValue]:
        """Objects as a node reads them: the same where there is nothing to say differently."""
        reliances, lowered = self._reliances, self._lowered
        words: NodeProperties | None = None
        alike: dict[NodeDependencies, object] = {}
        read: list[KeyValue] = []
        for kv in items:
            reliance = reliances.get(kv.mod_revision)
            if reliance is None:
                reliance = self._rely(stored, kv)
            if reliance is False:
                read.append(kv)
                continue
            words = words or self._words_of(node)
            key = alike.get(reliance)
            if key is None:
                key = alike[reliance] = self._stand_in(reliance.cache_key(words))
            found = lowered.get((kv.mod_revision, key))
            if found is None:
                found = structs.replace(kv, value=self.lowered(stored, node, kv.value))
                lowered.put((kv.mod_revision, key), found)
            read.append(found)
        return read

    def lowered(self, stored: Stored, node: str, value: bytes) -> bytes:
        """The value as a node should read it."""
        if _is_plain(value):
            return value
        from mooring.constraints import lowering  # noqa: PLC0415 - brings CEL in, which is spared until it is needed

        words, obj = self._words_of(node), _decoded(stored, value)
        if isinstance(obj, Pod):
            read: Resource = lowering.lower_pod(obj, words, self._constraints)
        else:
            read = lowering.lower_volume(obj, words, self._constraints)
        return value if read is obj else stored.encode(read)

    def _rely(self, stored: Stored, kv: KeyValue) -> "NodeDependencies | Literal[False]":
        found: NodeDependencies | Literal[False] = False
        if not _is_plain(kv.value):
            from mooring.constraints import lowering  # noqa: PLC0415 - as above

            found = lowering.find_dependencies(_decoded(stored, kv.value), self._constraints)
        self._reliances.put(kv.mod_revision, found)
        return found

    def _stand_in(self, words: Hashable) -> object:
        found = self._alike.get(words)
        if found is None:
            found = object()
            self._alike.put(words, found)
        return found

    def _words_of(self, name: str) -> "NodeProperties":
        """What counts of a node as it is now. One that is not there has neither taints nor labels."""
        from mooring.constraints import lowering, options  # noqa: PLC0415 - as above

        kv = self._store.peek(f"{ROOT}nodes/{name}")
        if kv is None:
            return lowering.NodeProperties((), {})
        words = self._words.get(kv.mod_revision)
        if words is None:
            node = codec.decode_own(kv.value, Node)
            known = options.from_declared_features(node.status.declared_features)
            words = lowering.NodeProperties(tuple(node.spec.taints), node.metadata.labels, known)
            self._words.put(kv.mod_revision, words)
        return words

    @cached_property
    def _constraints(self) -> "ConstraintOptions":
        from mooring.constraints.options import ConstraintOptions  # noqa: PLC0415 - as above

        options = self._options
        return ConstraintOptions(options.comparison_operators, options.semver_operators, options.cel)


class NodeReader:
    """Shows stored objects to one node."""

    def __init__(self, reading: NodeLowering, stored: Stored, node: str, *, remembers: bool) -> None:
        self._reading = reading
        self._stored = stored
        self._node = node
        self._remembers = remembers

    def render(self, value: bytes, revision: int, kind: Kind) -> bytes:
        return self._stored.render(self._read(value, revision), revision, kind)

    def render_item(self, value: bytes, revision: int, kind: Kind) -> bytes:
        return self._stored.render_item(self._read(value, revision), revision, kind)

    def render_items(self, items: Iterable[KeyValue], kind: Kind) -> Iterator[bytes | memoryview]:
        return self._stored.render_items(self._reading.read(self._stored, self._node, items), kind)

    def _read(self, value: bytes, revision: int) -> bytes:
        if not self._remembers:
            return self._reading.lowered(self._stored, self._node, value)
        [kv] = self._reading.read(self._stored, self._node, [KeyValue("", value, 0, revision)])
        return kv.value


def _is_plain(value: bytes) -> bool:
    """Whether an object has none of the new words, so that all read it alike."""
    return not any(mark in value for mark in _MARKS)


def _decoded(stored: Stored, value: bytes) -> Pod | PersistentVolume:
    obj = stored.decode(value, 0)
    assert isinstance(obj, Pod | PersistentVolume)  # noqa: S101 - `NodeLowering.of` lets no others through
    return obj
