"""Fields behind gates of Kubernetes that are off in the release which is emulated: new uses of them are dropped.

A server of that release does the same, without a word; what is stored stays, for an update may keep what was there.
Which fields those are is in the history of the API. Gates that Mooring has itself are not asked about here: kinds look
at them. Called by ``pipeline.py``, and by advice that judges without a server; ``options.py`` says what is off.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api.history import Field, History
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import Resource

Names = tuple[str, ...]


class OffFields:
    """The fields that a release has off, by kind; each kind is looked up once."""

    def __init__(self, history: History, is_off: Callable[[Field], bool]) -> None:
        self._history = history
        self._is_off = is_off
        self._paths: dict[tuple[str, str], tuple[Names, ...]] = {}

    def drop(self, obj: Resource, old: Resource | None) -> None:
        """Take them out of an object, but not those that the old one has."""
        for names in self.of(obj.api_version, obj.kind):
            if old is None or not _has(old, names):
                _clear(obj, names)

    def of(self, api_version: str, kind: str) -> tuple[Names, ...]:
        """The paths of a kind's fields, without the indexes of lists and the keys of maps."""
        key = (api_version, kind)
        if key not in self._paths:
            served = self._history.kind(*GroupVersion.parse(api_version), kind)
            self._paths[key] = tuple(self._below(served.definition, (), frozenset())) if served else ()
        return self._paths[key]

    def _below(self, definition: str, at: Names, outer: frozenset[str]) -> Iterator[Names]:
        for field in self._history.definitions.get(definition, {}).values():
            if not at and field.name in ("metadata", "status"):
                continue
            if self._is_off(field):
                yield (*at, field.name)
            elif field.holds not in outer:  # schemas hold schemas
                yield from self._below(field.holds, (*at, field.name), outer | {definition})


@lru_cache(maxsize=1024)
def _attributes(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _holders(value: Any, names: Names) -> Iterator[tuple[Any, msgspec.structs.FieldInfo]]:
    """The structs in which the last of some names has a value."""
    if isinstance(value, list):
        for item in value:
            yield from _holders(item, names)
    elif isinstance(value, dict):
        yield from _holders(list(value.values()), names)
    elif isinstance(value, msgspec.Struct):
        field = _attributes(type(value)).get(names[0])
        found = getattr(value, field.name) if field else None
        if field is None or found in (None, "", [], {}):
            return
        if len(names) == 1:
            yield value, field
        else:
            yield from _holders(found, names[1:])


def _has(value: Any, names: Names) -> bool:
    return any(True for _ in _holders(value, names))


def _clear(value: Any, names: Names) -> None:
    for holder, field in list(_holders(value, names)):
        empty = None if field.default is msgspec.NODEFAULT else field.default
        setattr(holder, field.name, empty if field.default_factory is msgspec.NODEFAULT else field.default_factory())
