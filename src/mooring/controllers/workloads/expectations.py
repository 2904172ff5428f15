"""Whether caches already show what a controller has written. Who decides by a cache that is behind does things twice.

Kubernetes counts expected creations and deletions. Versions grow with every write, so here it is enough to remember the
newest version that was written and to wait until the informer has reached it; for deletions, until the cache shows that
the object is going. The events that bring this about also put the workload into its queue again.

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
"""After so long a cache counts as up to date whatever it shows: the server may have lost what was written."""


class _Awaited(msgspec.Struct):
    since: float
    versions: dict[Informer[Any], str] = msgspec.field(default_factory=dict)
    deleted: dict[str, tuple[Informer[Any], str]] = msgspec.field(default_factory=dict)
    """By uid: where the object is, and under which key."""


class Expectations:
    """What the caches of one controller have still to show, by the key of the workload."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[str, _Awaited] = {}

    def wrote(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """An object was created or changed; this is the server's answer."""
        awaited = self._of(key)
        version = obj.metadata.resource_version
        if _reached(version, awaited.versions.get(informer, "")):
            awaited.versions[informer] = version

    def deleted(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """An object was deleted, as it was in the cache."""
        self._of(key).deleted[obj.metadata.uid] = (informer, key_of(obj))

    def settled(self, key: str) -> bool:
        """Whether all caches show what was written for a workload."""
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
        """The workload is gone."""
        self._awaited.pop(key, None)

    def _of(self, key: str) -> _Awaited:
        awaited = self._awaited.get(key)
        if awaited is None:
            awaited = self._awaited[key] = _Awaited(self._clock.monotonic())
        awaited.since = self._clock.monotonic()
        return awaited


def _reached(version: str, wanted: str) -> bool:
    """Whether a version is at least as new as another; an empty one is older than all."""
    if not wanted:
        return True
    if not version:
        return False
    try:
        return resource_version.compare(version, wanted) >= 0
    except ResourceVersionError:  # a server whose versions have no order: equality is all there is
        return version == wanted
