"""Objects as they will be once our own writes have come back from the API server.

Between the choice of a node and the informer's echo of what was written for it, the next pod must not be given the same
volume. An assumption holds as long as the object that it was made for is the one the informer shows; any newer version
ends it, because it either has our write in it or makes that write fail.
"""

from typing import Generic, TypeVar

from mooring.api.meta_v1 import Resource
from mooring.api.resource_version import compare
from mooring.constraints.columns.revisions import next_revision
from mooring.scheduler.columns.cluster import Cluster, object_key

T = TypeVar("T", bound=Resource)


class Assumed(Generic[T]):
    """The objects of one kind in a cluster, as assumed."""

    def __init__(self, cluster: Cluster, kind: type[T]) -> None:
        self._objects = cluster.objects(kind)
        self._assumed: dict[str, tuple[T, T]] = {}
        self.changed_at = 0
        """When something was last assumed or taken back."""

    def get(self, key: str) -> T | None:
        current = self._objects.get(key)
        found = self._assumed.get(key)
        if found is None or current is None:
            return current
        if found[0] is current:
            return found[1]
        del self._assumed[key]
        return current

    def names(self) -> frozenset[str]:
        """Return the keys of assumed objects, of which some may be out of date."""
        return frozenset(self._assumed)

    def assume(self, thing: T) -> bool:
        """Take an object to be like this; whether it still exists."""
        key = object_key(thing.metadata.namespace, thing.metadata.name)
        current = self._objects.get(key)
        if current is None:
            return False
        self._assumed[key] = (current, thing)
        self.changed_at = next_revision()
        return True

    def assume_written(self, thing: T) -> None:
        """Assume an object as the server returned it, unless informers show that or a newer version."""
        current = self._objects.get(object_key(thing.metadata.namespace, thing.metadata.name))
        if current is not None and compare(current.metadata.resource_version, thing.metadata.resource_version) < 0:
            self.assume(thing)

    def restore(self, thing: T) -> None:
        """Take an assumption back, if it has not been replaced by another."""
        key = object_key(thing.metadata.namespace, thing.metadata.name)
        found = self._assumed.get(key)
        if found is not None and found[1] is thing:
            del self._assumed[key]
            self.changed_at = next_revision()


def assumed(cluster: Cluster, kind: type[T]) -> Assumed[T]:
    """Return the assumptions about a kind, which the profiles of a scheduler share."""
    found: Assumed[T] | None = cluster.shared.get((Assumed, kind))
    if found is None:
        found = cluster.shared[Assumed, kind] = Assumed(cluster, kind)
    return found
