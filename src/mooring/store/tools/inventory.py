"""Statistics of a store, for `mooring store stats`."""

import heapq
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from mooring.store.kv import KeyValue
from mooring.store.tools.contents import Snapshot, resource_of


class Size(msgspec.Struct, frozen=True):
    """The number of keys of a resource, and the bytes of their values."""

    keys: int
    value_bytes: int
    largest: int


class Inventory(msgspec.Struct, frozen=True):
    """The keys and bytes of a snapshot by resource, and its largest objects."""

    resources: dict[str, Size]
    """By resource, largest total first."""
    total: Size
    largest: Sequence[KeyValue]
    expiring: int
    """Keys with a time to live."""


def count(snapshot: Snapshot, largest: int) -> Inventory:
    """Count a snapshot by resource, and list its largest objects."""
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for kv in snapshot.items:
        sizes[resource_of(kv.key)].append(len(kv.value))
    resources = {name: Size(len(each), sum(each), max(each)) for name, each in sizes.items()}
    return Inventory(
        dict(sorted(resources.items(), key=lambda item: (-item[1].value_bytes, item[0]))),
        Size(
            len(snapshot.items),
            sum(size.value_bytes for size in resources.values()),
            max((size.largest for size in resources.values()), default=0),
        ),
        heapq.nlargest(largest, snapshot.items, key=lambda kv: len(kv.value)),
        sum(1 for kv in snapshot.items if kv.expires),
    )
