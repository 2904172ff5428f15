"""Track whether caches already show what a controller wrote: decisions by a stale cache do things twice.

Kubernetes counts expected creates and deletes. Here the newest resourceVersion written is enough: wait until the
informer has reached it, or for deletes until the cache shows the object as terminating. The same events enqueue the
workload again.

    expectations.wrote("default/web", pods, created)
    expectations.settled("default/web")     # False until the informer has seen it
"""

from typing import Any

import msgspec

from mooring.api import resource_version
from mooring.api.meta_v1 import Resource
from mooring.api.resource_version import ResourceVersionError
from mooring.base.clock import Clock
from mooring.client import Informer, key_of

GIVE_UP_SECONDS = 300.0
"""After this time a cache counts as current: the server may have lost the write."""


class _Awaited(msgspec.Struct):
    since: float
    versions: dict[Informer[Any], str] = msgspec.field(default_factory=dict)
    deleted: dict[str, tuple[Informer[Any], str]] = msgspec.field(default_factory=dict)
    """Informer and key, by uid."""


class Expectations:
    """What the caches of one controller do not show yet, by workload."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[str, _Awaited] = {}

    def wrote(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """Record an object that the server returned for a create or update."""
        awaited = self._of(key)
        version = obj.metadata.resource_version
        if _reached(version, awaited.versions.get(informer, "")):
            awaited.versions[informer] = version

    def deleted(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """Record the deletion of a cached object."""
        self._of(key).deleted[obj.metadata.uid] = (informer, key_of(obj))

    def settled(self, key: str) -> bool:
        """Return whether all caches show what was written for a workload."""
        awaited = self._awaited.get(key)
        if awaited is None:
            return True
        for informer, version in list(awaited.versions.items()):
            if _reached(informer.resource_version, version):
                del awaited.versions[informer]
        for uid, (informer, child) in list(awaited.deleted.items()):
            obj = informer.by_key(child)
            if obj is None or obj.metadata.uid != uid or obj.metadata.deletion_timestamp is not None:
                del awaited.deleted[uid]
        late = self._clock.monotonic() - awaited.since > GIVE_UP_SECONDS
        if late or not (awaited.versions or awaited.deleted):
            del self._awaited[key]
            return True
        return False

    def forget(self, key: str) -> None:
        """Drop a deleted workload."""
        self._awaited.pop(key, None)

    def _of(self, key: str) -> _Awaited:
        awaited = self._awaited.get(key)
        if awaited is None:
            awaited = self._awaited[key] = _Awaited(self._clock.monotonic())
        awaited.since = self._clock.monotonic()
        return awaited


def _reached(version: str, wanted: str) -> bool:
    if not wanted:
        return True
    if not version:
        return False
    try:
        return resource_version.compare(version, wanted) >= 0
    except ResourceVersionError:  # unordered versions can only be compared for equality
        return version == wanted
