"""The type of a snapshot: typed objects by kind and name, and every object as it was read.

A snapshot is immutable. `replace` returns another one that shares all unchanged objects, so that a what-if question
costs only as much as its changes. Objects are typed in the newest version of their kind, as the scheduler's engine
requires; `raw` has the original documents, including kinds and versions unknown to Mooring.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from mooring.api import codec, times
from mooring.api.core_v1 import Node, Pod
from mooring.api.kinds import GroupVersion, Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme

T = TypeVar("T", bound=Resource)
D = TypeVar("D")
NOT_ALLOWED = "not allowed"
"""The prefix of entries in `Snapshot.missing` for kinds that the user may not read."""
_OUTSIDE = f"{NOT_ALLOWED} outside of the namespace"

Key = tuple[str, str]
"""The namespace and name of an object."""
Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name: the identity of an object in every API version."""


def format_not_allowed(error: Exception, but: str = "") -> str:
    """Return an entry of `Snapshot.missing`: the server's message, and the one readable namespace, if any."""
    return f"{_OUTSIDE} {but}: {error}" if but else f"{NOT_ALLOWED}: {error}"


class SnapshotError(Exception):
    """There are no objects to read; the message says why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note about an object that was not read, or read differently from how it was written."""

    place: str
    """The position: `file:line`, or the path of a request."""
    text: str
    is_unread: bool = False
    """Whether the content is completely unknown."""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(slots=True)
class RawObject:
    """An object as it was read, before decoding."""

    api_version: str
    kind: str
    namespace: str
    name: str
    file: str = ""
    """The file it was read from; empty for a server or a store."""
    line: int = 0
    _tree: Any = None
    _body: bytes = field(default=b"", repr=False)
    _made: Resource | None = field(default=None, repr=False)

    @property
    def tree(self) -> Any:
        """Return the object as plain dicts and lists. Shared: do not modify. JSON is parsed on the first call."""
        if self._tree is None:
            if self._made is not None:
                self._tree = codec.to_tree(self._made)
            else:
                read = msgspec.json.decode(self._body)
                self._tree = {"apiVersion": self.api_version, "kind": self.kind, **read}
        return self._tree

    @property
    def identity(self) -> Identity:
        return GroupVersion.parse(self.api_version).group, self.kind, self.namespace, self.name


@cache
def full_scheme() -> Scheme:
    """Return a scheme with all known kinds, whichever versions serve them."""
    return Scheme()


@cache
def newest_kind_of(cls: type[Resource]) -> Kind:
    """Return the newest version of the kind of a type. Raise ValueError for a type that is no kind."""
    found = next((kind for kind in full_scheme().known if kind.type is cls), None)
    if found is None:
        raise ValueError(f"{cls.__module__}.{cls.__name__} is no kind")
    return full_scheme().hub(found)


def key_of(obj: Resource) -> Key:
    return obj.metadata.namespace, obj.metadata.name


class Snapshot:
    """The objects of a cluster at one moment."""

    def __init__(
        self,
        origin: str,
        objects: Iterable[Resource] = (),
        raw: Sequence[RawObject] | None = None,
        *,
        missing: Mapping[str, str] | None = None,
        notes: Sequence[Note] = (),
        server: Mapping[str, Any] | None = None,
        taken_at: datetime | None = None,
    ) -> None:
        self.server = server
        """The server's `version` and `gates`, if a dump has them (`mooring dump` writes them)."""
        self.taken_at = taken_at
        """When it was read from a live cluster, if that is known."""
        self.origin = origin
        """The source, for messages: `the dump cluster.yaml`."""
        self.missing: Mapping[str, str] = missing or {}
        """The kinds that could not be read: by plural of the resource, why."""
        self.notes = tuple(notes)
        self._objects: dict[type[Resource], dict[Key, Resource]] = {}
        for obj in objects:
            newest = to_newest(obj)
            self._objects.setdefault(type(newest), {})[key_of(newest)] = newest
        self._derived: dict[Callable[[Snapshot], Any], Any] = {}
        self._raw = raw
        self._changed: dict[Identity, Resource | None] = {}

    @property
    def forbidden(self) -> Mapping[str, str]:
        """Return the kinds that the user may not read, with the reasons: advice on them may be wrong."""
        return {plural: why for plural, why in self.missing.items() if why.startswith(NOT_ALLOWED)}

    @property
    def rights_note(self) -> str:
        """Return one line about kinds that the user may not read; empty if there are none."""
        plurals = sorted(self.forbidden, key=lambda plural: (plural not in ("nodes", "pods"), plural))
        if not plurals:
            return ""
        named = ", ".join(plurals[:3]) + (f" and {len(plurals) - 3} more kinds" if len(plurals) > 3 else "")
        partly = {
            why.split(":", 1)[0].removeprefix(_OUTSIDE).strip()
            for why in self.forbidden.values()
            if why.startswith(_OUTSIDE)
        }
        where = f" outside of namespace {', '.join(sorted(partly))}" if partly else ""
        return f"you may not read {named}{where}: the answer may be incomplete; `mooring rights` prints what to grant"

    def why_unread(self, plural: str) -> str:
        """Return why the user may not read any object of a kind; empty if those of some namespace can be read."""
        why = self.forbidden.get(plural, "")
        return "" if why.startswith(_OUTSIDE) else why

    def all(self, kind: type[T]) -> Sequence[T]:
        """Return the objects of a kind, in the order in which they were read."""
        return cast("Sequence[T]", tuple(self._objects_of(kind).values()))

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return an object by kind, name and namespace (empty for cluster-scoped kinds); None if it does not exist."""
        return cast("T | None", self._objects_of(kind).get((namespace, name)))

    def kinds(self) -> Sequence[type[Resource]]:
        """Return the types that have objects."""
        return tuple(kind for kind, found in self._objects.items() if found)

    def derive(self, make: "Callable[[Snapshot], D]") -> D:
        """Return `make(snapshot)`, computed on the first call and cached."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("D", self._derived[make])

    def raw(self) -> Sequence[RawObject]:
        """Return every object as it was read; replaced objects in their current form."""
        if self._raw is None:
            return [_raw_of(obj) for found in self._objects.values() for obj in found.values()]
        if not self._changed:
            return self._raw
        put = (_raw_of(obj) for obj in self._changed.values() if obj is not None)
        return (*(each for each in self._raw if each.identity not in self._changed), *put)

    def replace(self, *, put: Iterable[Resource] = (), remove: Iterable[Resource] = ()) -> "Snapshot":
        """Return another snapshot with objects added or replaced, and without others."""
        made = Snapshot(self.origin, missing=self.missing, notes=self.notes, server=self.server, taken_at=self.taken_at)
        if self._raw is not None:  # otherwise `raw` is made of the typed objects, and changes need not be tracked
            made._raw, made._changed = self._raw, dict(self._changed)
        made._objects = dict(self._objects)
        own: set[type[Resource]] = set()
        for obj, stays in (*((each, False) for each in remove), *((each, True) for each in put)):
            newest = to_newest(obj)
            cls = type(newest)
            if cls not in own:
                made._objects[cls] = dict(made._objects.get(cls, {}))
                own.add(cls)
            if self._raw is not None:
                kind = newest_kind_of(cls)
                made._changed[kind.group, kind.kind, *key_of(newest)] = newest if stays else None
            if stays:
                made._objects[cls][key_of(newest)] = newest
            else:
                made._objects[cls].pop(key_of(newest), None)
        return made

    def _objects_of(self, kind: type[Resource]) -> dict[Key, Resource]:
        found = self._objects.get(kind)
        return self._objects.get(newest_kind_of(kind).type, {}) if found is None else found


def decode_newest(tree: Any, validation: codec.FieldValidation) -> Resource:
    """Decode an object and convert it to the newest version; its namespace is `default` if it names none.

    Raise ValueError for an unknown kind or wrong fields.
    """
    if not isinstance(tree, dict) or not tree.get("kind") or not tree.get("apiVersion"):
        raise ValueError("expected an object with apiVersion and kind")
    kind = full_scheme().kind(str(tree["apiVersion"]), str(tree["kind"]))
    if kind is None:
        raise ValueError(f"Mooring does not know {tree['apiVersion']} {tree['kind']}")
    try:
        obj = to_newest(codec.decode_tree(tree, kind.type, validation).object)
    except codec.DecodeError as problem:
        raise ValueError(f"{tree['kind']}: {problem}") from problem
    if kind.namespaced and not obj.metadata.namespace:
        obj.metadata.namespace = "default"
    return obj


def to_newest(obj: Resource) -> Resource:
    """Return the object with the apiVersion of the newest version of its kind."""
    hub = newest_kind_of(type(obj))
    if not obj.kind or not obj.api_version:
        own = next(kind for kind in full_scheme().known if kind.type is type(obj))
        obj = structs.replace(obj, kind=own.kind, api_version=own.api_version)
    return obj if obj.api_version == hub.api_version else full_scheme().convert(obj, hub)


def _raw_of(obj: Resource) -> RawObject:
    return RawObject(obj.api_version, obj.kind, obj.metadata.namespace, obj.metadata.name, _made=obj)


DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""The latest allowed time: dumps can contain any date, and simulated time needs room after it."""


def time_of_snapshot(snapshot: Snapshot) -> datetime:
    """Return when a snapshot was taken: as recorded, or the latest timestamp in its objects."""
    if snapshot.taken_at is not None:
        return min(snapshot.taken_at, _LATEST)
    return latest_timestamp(snapshot)


def latest_timestamp(snapshot: Snapshot) -> datetime:
    """Return the latest timestamp of nodes and pods."""
    texts: set[str] = set()
    for node in snapshot.all(Node):
        texts.add(node.metadata.creation_timestamp or "")
        texts.update(entry.last_heartbeat_time or "" for entry in node.status.conditions)
        texts.update(taint.time_added or "" for taint in node.spec.taints)
    for pod in snapshot.all(Pod):
        texts.add(pod.metadata.creation_timestamp or "")
        texts.update(entry.last_transition_time or "" for entry in pod.status.conditions)
    found: list[datetime] = []
    for text in texts - {""}:
        with suppress(times.TimeError):
            found.append(times.parse(text))
    return min(max(found, default=DEFAULT_START), _LATEST)
