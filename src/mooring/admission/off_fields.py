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
Tree = dict[str, "Tree"]
"""Fields by name, with those below them; one without any is off."""


class OffFields:
    """The fields that a release has off, by kind; each kind is looked up once."""

    def __init__(self, history: History, is_off: Callable[[Field], bool]) -> None:
        self._history = history
        self._is_off = is_off
        self._trees: dict[tuple[str, str], Tree] = {}

    def drop(self, obj: Resource, old: Resource | None) -> None:
        """Take them out of an object, but not those that the old one has."""
        tree = self.of(obj.api_version, obj.kind)
        if not tree:
            return
        kept = {names for names, _, _ in _uses(old, tree, ())}
        for names, holder, field in list(_uses(obj, tree, ())):
            if names not in kept:
                made = field.default_factory is not msgspec.NODEFAULT
                setattr(holder, field.name, field.default_factory() if made else field.default)

    def of(self, api_version: str, kind: str) -> Tree:
        """The fields of a kind."""
        key = (api_version, kind)
        if key not in self._trees:
            served = self._history.kind(*GroupVersion.parse(api_version), kind)
            self._trees[key] = self._below(served.definition, frozenset()) if served else {}
        return self._trees[key]

    def _below(self, definition: str, outer: frozenset[str]) -> Tree:
        found: Tree = {}
        for field in self._history.definitions.get(definition, {}).values():
            if not outer and field.name in ("metadata", "status"):
                continue
            if self._is_off(field):
                found[field.name] = {}
            elif field.holds not in outer:  # schemas hold schemas
                below = self._below(field.holds, outer | {definition})
                if below:
                    found[field.name] = below
        return found


@lru_cache(maxsize=1024)
def _attributes(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _uses(value: Any, tree: Tree, at: Names) -> Iterator[tuple[Names, Any, msgspec.structs.FieldInfo]]:
    """The fields of a tree that have a value: their names, and the struct that they are in."""
    if isinstance(value, list):
        for item in value:
            yield from _uses(item, tree, at)
    elif isinstance(value, dict):
        yield from _uses(list(value.values()), tree, at)
    elif isinstance(value, msgspec.Struct):
        fields = _attributes(type(value))
        for name, below in tree.items():
            field = fields.get(name)
            found = getattr(value, field.name) if field else None
            if field is None or not found:
                continue
            if below:
                yield from _uses(found, below, (*at, name))
            else:
                yield (*at, name), value, field
