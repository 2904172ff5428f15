"""The objects of an informer: by key, and by any number of indexes. Objects are shared: nobody may change them.

`Cache` turns lists and watch events into `Change`s, which are what handlers get.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Generic, NamedTuple, TypeVar

from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client.watch import WatchEvent

T = TypeVar("T", bound=Resource)
ValuesOf = Callable[[T], Collection[str]]


def key_of(obj: Resource) -> str:
    """`namespace/name`, or the name alone for objects of the whole cluster."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Change(NamedTuple, Generic[T]):
    """An object before and after: `old` is None when it was added, `new` when it was deleted.

    `old` is always what handlers were last told of the object, so that what they reckon with adds up.
    """

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The object after the change, or as it was last."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None  # noqa: S101 - one of them is always there
        return obj


class Index(Generic[T]):
    """Objects by something about them, such as the node of a pod. Kept up to date by its informer.

    It knows their keys, so that a change that leaves the values as they are, as most do, changes nothing here.
    """

    def __init__(self, values_of: ValuesOf[T], objects: Mapping[str, T]) -> None:
        self._values_of = values_of
        self._objects = objects
        self._keys: dict[str, dict[str, None]] = {}

    def get(self, value: str) -> list[T]:
        """The objects with this value."""
        objects = self._objects
        return [objects[key] for key in self._keys.get(value, ())]

    def count(self, value: str) -> int:
        return len(self._keys.get(value, ()))

    def values(self) -> Collection[str]:
        """All values that some object has, at any time that one looks."""
        return self._keys.keys()

    def update(self, key: str, old: T | None, new: T | None) -> None:
        """Called by the cache for every change."""
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
    """Objects of one kind."""

    def __init__(self) -> None:
        self.objects: dict[str, T] = {}
        self.is_behind = False
        """Whether something was missing of what a watch told, so that all has to be listed again."""
        self._indexes: dict[str, Index[T]] = {}

    def index(self, name: str, values_of: ValuesOf[T]) -> Index[T]:
        """The index of that name; made of `values_of` the first time."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = Index(values_of, self.objects)
            for key, obj in self.objects.items():
                index.update(key, None, obj)
        return index

    def replace(self, objects: Iterable[T]) -> list[Change[T]]:
        """Hold exactly these objects: what a list found."""
        self.is_behind = False
        current = {key_of(obj): obj for obj in objects}
        changes: list[Change[T]] = []
        for key in self.objects.keys() - current.keys():
            self._put(key, None, changes)
        for key, obj in current.items():
            self._put(key, obj, changes)
        return changes

    def apply(self, events: Iterable[WatchEvent[T]]) -> list[Change[T]]:
        """Take in what a watch told, bookmarks aside, up to what builds on a version that is not known here."""
        changes: list[Change[T]] = []
        for event in events:
            if event.type == "BOOKMARK":
                continue
            key = key_of(event.object)
            new = self._renewed(key, event.object, event.since) if event.since else event.object
            if new is None:
                self.is_behind = True
                break
            self._put(key, None if event.type == "DELETED" else new, changes)
        return changes

    def _renewed(self, key: str, told: T, since: str) -> T | None:
        """An object with other metadata; None where it is not the one of that version."""
        old = self.objects.get(key)
        if old is None or old.metadata.resource_version != since:
            return None
        new = copy(old)
        new.metadata = told.metadata
        return new

    def _put(self, key: str, new: T | None, changes: list[Change[T]]) -> None:
        """Note the changes that an object makes: none if it is known already, two if another one took over the name."""
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
                _inherit(old.metadata, new.metadata)
                changes.append(Change(old, new))
            else:
                return
            self.objects[key] = new
        for index in self._indexes.values():
            index.update(key, old, new)


def _inherit(old: ObjectMeta, new: ObjectMeta) -> None:
    """Take over from the last version of an object what is the same: others keep it as a key or in their tables."""
    new.name, new.uid = old.name, old.uid
    if new.labels == old.labels:
        new.labels = old.labels
    if new.annotations == old.annotations:
        new.annotations = old.annotations
