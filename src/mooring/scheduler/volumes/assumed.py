"""Cache PersistentVolumes and claims as they will be once our own writes are visible in informers.

Between the choice of a node and the informer's event for the write, the next pod must not get the same volume. An
assumption is valid while the informer shows the object version for which it was made; a newer version ends it, because
it contains our write or makes the write conflict.
"""

from typing import Generic, TypeVar

from mooring.api.meta_v1 import Resource
from mooring.api.resource_version import compare
from mooring.constraints.columns.revisions import next_revision
from mooring.scheduler.columns.cluster import Cluster, object_key

T = TypeVar("T", bound=Resource)


class Assumed(Generic[T]):
    """The objects of one kind, as informers show them or as our own writes, not visible there yet, change them."""

    def __init__(self, cluster: Cluster, kind: type[T]) -> None:
        self._objects = cluster.objects(kind)
        self._assumed: dict[str, tuple[T, T]] = {}
        self.changed_at = 0
        """The revision at which an object was last assumed or restored."""

    def get(self, key: str) -> T | None:
        """Return the object with a key in its assumed state, if any; else as informers show it, or None."""
        current = self._objects.get(key)
        found = self._assumed.get(key)
        if found is None or current is None:
            return current
        if found[0] is current:
            return found[1]
        del self._assumed[key]
        return current

    def names(self) -> frozenset[str]:
        """Return the keys of assumed objects; for some of them informers may show a newer version by now."""
        return frozenset(self._assumed)

    def assume(self, thing: T) -> bool:
        """Let `get` return this object until informers show a new version of it; return whether the object exists."""
        key = object_key(thing.metadata.namespace, thing.metadata.name)
        current = self._objects.get(key)
        if current is None:
            return False
        self._assumed[key] = (current, thing)
        self.changed_at = next_revision()
        return True

    def assume_written(self, thing: T) -> None:
        """Assume an object as the server returned it, unless informers already show this or a newer version."""
        current = self._objects.get(object_key(thing.metadata.namespace, thing.metadata.name))
        if current is not None and compare(current.metadata.resource_version, thing.metadata.resource_version) < 0:
            self.assume(thing)

    def restore(self, thing: T) -> None:
        """Drop the assumption `thing`, unless another one about the same object has replaced it."""
        key = object_key(thing.metadata.namespace, thing.metadata.name)
        found = self._assumed.get(key)
        if found is not None and found[1] is thing:
            del self._assumed[key]
            self.changed_at = next_revision()


def find_assumptions(cluster: Cluster, kind: type[T]) -> Assumed[T]:
    """Return the assumed objects of a kind, one instance for all profiles of a scheduler."""
    found: Assumed[T] | None = cluster.shared.get((Assumed, kind))
    if found is None:
        found = cluster.shared[Assumed, kind] = Assumed(cluster, kind)
    return found
