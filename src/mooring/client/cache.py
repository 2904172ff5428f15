"""The cache of an informer: its objects by key, and by any number of indexes. Objects are shared: do not modify.

`Cache` turns lists and watch events into `Change`s for handlers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client.watch import WatchEvent

T = TypeVar("T", bound=Resource)
ValuesOf = Callable[[T], Collection[str]]


def key_of(obj: Resource) -> str:
    """Return an object's cache key: `namespace/name`, or the name alone for cluster-wide objects."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Change(NamedTuple, Generic[T]):
    """An object before and after a change: `old` is None if it was added, `new` if it was deleted.

    `old` is the version that handlers received last, so that totals which they keep stay right.
    """

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """Return the object after the change; for a deletion, its last version."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None  # noqa: S101 - one of them is always there
        return obj


class Index(Generic[T]):
    """The keys of cached objects, grouped by values that a function returns for each, such as pods by their node.

    Its informer keeps it current. It stores keys, so that a change that leaves the values unchanged needs no update.
    """

    def __init__(self, values_of: ValuesOf[T], objects: Mapping[str, T]) -> None:
        self._values_of = values_of
        self._objects = objects
        self._keys: dict[str, dict[str, None]] = {}

    def get(self, value: str) -> list[T]:
        """Return the cached objects that have a value; an empty list if none has."""
        objects = self._objects
        return [objects[key] for key in self._keys.get(value, ())]

    def count(self, value: str) -> int:
        return len(self._keys.get(value, ()))

    def values(self) -> Collection[str]:
        """Return a live view of all values that at least one cached object has."""
        return self._keys.keys()

    def update(self, key: str, old: T | None, new: T | None) -> None:
        """Move a key from the values of its old object to those of its new one; None stands for no object."""
        before = () if old is None else self._values_of(old)
        after = () if new is None else self._values_of(new)
        if before == after:
            return
        for value in set(before).difference(after):
            left = self._keys[value]
            del left[key]
            if not left:
                del self._keys[value]
        for value in after:
            self._keys.setdefault(value, {})[key] = None


class Cache(Generic[T]):
    """The objects of one kind by key, in memory, with their indexes."""

    def __init__(self) -> None:
        self.objects: dict[str, T] = {}
        self._indexes: dict[str, Index[T]] = {}

    def index(self, name: str, values_of: ValuesOf[T]) -> Index[T]:
        """Return the index with a name; on the first call for the name, build it with `values_of`."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = Index(values_of, self.objects)
            for key, obj in self.objects.items():
                index.update(key, None, obj)
        return index

    def replace(self, objects: Iterable[T]) -> list[Change[T]]:
        """Replace all cached objects by a listed set; return the additions, updates and deletions this makes."""
        current = {key_of(obj): obj for obj in objects}
        changes: list[Change[T]] = []
        for key in self.objects.keys() - current.keys():
            self._put(key, None, changes)
        for key, obj in current.items():
            self._put(key, obj, changes)
        return changes

    def apply(self, events: Iterable[WatchEvent[T]]) -> list[Change[T]]:
        """Apply watch events to the cached objects, ignoring bookmarks; return the changes in order."""
        changes: list[Change[T]] = []
        for event in events:
            if event.type != "BOOKMARK":
                self._put(key_of(event.object), None if event.type == "DELETED" else event.object, changes)
        return changes

    def _put(self, key: str, new: T | None, changes: list[Change[T]]) -> None:
        """Store `new` (None: delete) and append the change; for a name with another uid, a deletion and an addition."""
        old = self.objects.get(key)
        if new is None:
            if old is None:
                return
            changes.append(Change(old, None))
            del self.objects[key]
        else:
            if old is None:
                changes.append(Change(None, new))
            elif old.metadata.uid != new.metadata.uid:
                changes += (Change(old, None), Change(None, new))
            elif old.metadata.resource_version != new.metadata.resource_version:
                _reuse_equal_metadata(old.metadata, new.metadata)
                changes.append(Change(old, new))
            else:
                return
            self.objects[key] = new
        for index in self._indexes.values():
            index.update(key, old, new)


def _reuse_equal_metadata(old: ObjectMeta, new: ObjectMeta) -> None:
    """Use the cached version's name, uid, and equal labels and annotations in the new one: indexes hold them."""
    new.name, new.uid = old.name, old.uid
    if new.labels == old.labels:
        new.labels = old.labels
    if new.annotations == old.annotations:
        new.annotations = old.annotations
