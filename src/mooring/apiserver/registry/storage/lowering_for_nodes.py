"""Lower pods and volumes that nodes read to operators that their kubelets know.

A kubelet checks required node affinity, NoExecute taints and the affinity of volumes again when a pod arrives, by the
rules of its own release. So users in the group `system:nodes` get objects lowered (`mooring.constraints.lowering`) for
the current taints and labels of the node. Stored objects, their resourceVersions and the responses to other users are
unchanged.

`renderer_for` is called for every request. The bytes of most objects show that they use no new
operator; these are sent as stored. Lowered values are cached by the revisions of the object and of the node. When a
change of a node's taints or labels changes how its pods are lowered, no event is sent: kubelets check pods when these
arrive, or after a list when the kubelet starts. docs/real-nodes.md has the consequences.
"""

from collections.abc import Iterable

import msgspec
from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.api import codec
from mooring.api.core_v1 import Node, PersistentVolume, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.output import json_bytes
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.stored import ROOT, Stored
from mooring.base.bounded_cache import BoundedCache
from mooring.constraints import options as constraints
from mooring.constraints.lowering import for_node
from mooring.store.kv import KeyValue, Store

_MAX_ENTRIES = 16_384
_Version = tuple[int, int]
"""An object's revision and the hash of its bytes: in etcd, objects that are written together share a revision."""


class NodeLowering:
    """Renders objects for kubelets: rewrites (lowers) new constraint operators to ones they know, and caches that."""

    def __init__(self, store: Store, options: AdmissionOptions, decoded: DecodedCache) -> None:
        self._store = store
        self._constraints = constraints.ConstraintOptions(
            options.comparison_operators, options.semver_operators, options.cel
        )
        self._decoded = decoded
        self._is_plain: BoundedCache[_Version, bool] = BoundedCache(_MAX_ENTRIES)
        """Whether an object uses no new operator, so that it is equal for all nodes."""
        self._lowered: BoundedCache[tuple[_Version, str, int], bytes] = BoundedCache(_MAX_ENTRIES)
        """Lowered objects by version, the node's name and the node's revision."""

    def renderer_for(self, request: Request, stored: Stored) -> "Renderer":
        """Return the renderer for a request: one that lowers objects if the user is a node, else `stored`."""
        if stored.hub.type not in {Pod, PersistentVolume}:
            return stored
        node = users.node_name(request.user)
        return stored if node is None else NodeReader(self, stored, node)

    def lower_all(self, stored: Stored, node: str, items: Iterable[KeyValue]) -> list[KeyValue]:
        """Return stored objects for a node, with operators that its kubelet does not know rewritten (lowered)."""
        owner = self._find_node(node)
        node_revision = owner.mod_revision if owner is not None else 0
        result: list[KeyValue] = []
        for kv in items:
            version = kv.mod_revision, hash(kv.value)
            is_plain = self._is_plain.get(version)
            if is_plain is None:
                is_plain = not json_bytes.has_new_operators(kv.value)
                self._is_plain.put(version, is_plain)
            if is_plain:
                result.append(kv)
                continue
            key = (version, node, node_revision)
            found = self._lowered.get(key)
            if found is None:
                found = self._lower(stored, node, kv.value)
                self._lowered.put(key, found)
            result.append(structs.replace(kv, value=found))
        return result

    def _lower(self, stored: Stored, node: str, value: bytes) -> bytes:
        kv, obj = self._find_node(node), _decode(stored, value)
        properties = self._decoded.get(kv, _node_properties) if kv is not None else for_node.NodeProperties((), {})
        if isinstance(obj, Pod):
            lowered: Resource = for_node.lower_pod(obj, properties, self._constraints)
        else:
            lowered = for_node.lower_volume(obj, properties, self._constraints)
        return value if lowered is obj else stored.encode(lowered)

    def _find_node(self, name: str) -> KeyValue | None:
        return self._store.peek(f"{ROOT}nodes/{name}")


class NodeReader(msgspec.Struct, frozen=True):
    """Renders stored objects for one node, with new operators lowered to those that its kubelet knows."""

    lowering: NodeLowering
    stored: Stored
    node: str

    def render(self, value: bytes, revision: int, kind: Kind) -> bytes:
        return self.stored.render(self._lower(value, revision), revision, kind)

    def render_item(self, value: bytes, revision: int, kind: Kind) -> bytes:
        return self.stored.render_item(self._lower(value, revision), revision, kind)

    def render_items(self, items: Iterable[KeyValue], kind: Kind) -> json_bytes.Pieces:
        return self.stored.render_items(self.lowering.lower_all(self.stored, self.node, items), kind)

    def _lower(self, value: bytes, revision: int) -> bytes:
        [kv] = self.lowering.lower_all(self.stored, self.node, [KeyValue("", value, 0, revision)])
        return kv.value


Renderer = Stored | NodeReader
"""Renders stored objects in a version: `Stored` for users, `NodeReader` for nodes."""


def _node_properties(kv: KeyValue) -> for_node.NodeProperties:
    node = codec.decode_own(kv.value, Node)
    known = constraints.from_declared_features(node.status.declared_features)
    return for_node.NodeProperties(tuple(node.spec.taints), node.metadata.labels, known)


def _decode(stored: Stored, value: bytes) -> Pod | PersistentVolume:
    obj = stored.decode(value, 0)
    assert isinstance(obj, Pod | PersistentVolume)  # noqa: S101 - `renderer_for` lets no others through
    return obj
