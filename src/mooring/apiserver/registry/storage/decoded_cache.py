"""Values decoded from stored objects, by key and revision: the only cache of decoded objects in the API server.

Admission's lookups, quota accounting, policies and webhooks read the same few objects (namespaces, service accounts,
limit ranges, quotas, parameters) for every write. An entry is stale as soon as the key has another revision. Values are
shared: callers do not change them.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import msgspec

from mooring.admission.pod_security.enforcement import security_labels
from mooring.api import codec
from mooring.api.core_v1 import LimitRange, Namespace, ServiceAccount
from mooring.apiserver.output import json_bytes
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import KeyValue

T = TypeVar("T")
_MAX_ENTRIES = 16_384
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class DecodedCache:
    """A cache of values decoded from stored objects, by decoding function, key and revision."""

    def __init__(self) -> None:
        self._entries: BoundedCache[tuple[Hashable, str], tuple[int, Any]] = BoundedCache(_MAX_ENTRIES)

    def get(self, kv: KeyValue, decode: Callable[[KeyValue], T], view: Hashable = None) -> T:
        """Return `decode(kv)`, cached by key, revision and function; give `view` if the function is not constant."""
        place = (decode if view is None else view, kv.key)
        entry = self._entries.get(place)
        if entry is None or entry[0] != kv.mod_revision:
            entry = (kv.mod_revision, decode(kv))
            self._entries.put(place, entry)
        value: T = entry[1]
        return value

    def put(self, key: str, revision: int, decode: Callable[[KeyValue], T], value: T) -> None:
        """Add a decoded object that this server has just written to the cache, so that it need not be decoded."""
        self._entries.put((decode, key), (revision, value))


# -- what admission looks up (``admission/lookups.py``)


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _LabelledObject(msgspec.Struct):
    metadata: _Labels


_LABELS, _LABELLED = msgspec.json.Decoder(_Labels), msgspec.json.Decoder(_LabelledObject)


def labels_of(kv: KeyValue) -> Mapping[str, str]:
    """Return the labels of a stored object, without decoding its other fields."""
    try:
        labels = _LABELS.decode(json_bytes.metadata_without_managed(kv.value)).labels
    except msgspec.MsgspecError:  # it has no managed fields, unless something in its spec has
        labels = _LABELLED.decode(kv.value).metadata.labels
    return labels or {}


def topology_labels(kv: KeyValue) -> Mapping[str, str]:
    return {key: value for key, value in labels_of(kv).items() if key in _TOPOLOGY}


def phase_and_security(kv: KeyValue) -> tuple[str, Mapping[str, str]]:
    namespace = codec.decode_own(kv.value, Namespace)
    return namespace.status.phase or "Active", security_labels(namespace.metadata.labels)


def service_account(kv: KeyValue) -> ServiceAccount:
    return codec.decode_own(kv.value, ServiceAccount)


def limit_range(kv: KeyValue) -> LimitRange:
    return codec.decode_own(kv.value, LimitRange)
