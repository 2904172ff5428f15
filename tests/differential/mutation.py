"""Random changes of an object, guided by its schema."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from differential.schema import Schema, Tree

Step = str | int
REMOVED: Any = object()
"""The value of a mutation that removes what is there."""
_PROTECTED = {"apiVersion", "kind", "name", "namespace", "generateName"}
"""Fields at the top and in metadata that decide where a request goes."""


class Mutation(NamedTuple):
    """A change of the value at a path."""

    path: tuple[Step, ...]
    value: Any

    def apply(self, tree: Tree) -> None:
        """Change a tree in place; do nothing where the path does not exist."""
        *steps, last = self.path
        here: Any = tree
        for step in steps:
            try:
                here = here[step]
            except (KeyError, IndexError, TypeError):
                return
        if isinstance(here, dict):
            if self.value is REMOVED:
                here.pop(last, None)
            else:
                here[last] = copy.deepcopy(self.value)
        elif isinstance(here, list) and isinstance(last, int):
            if self.value is REMOVED:
                del here[last : last + 1]
            elif last < len(here):
                here[last] = copy.deepcopy(self.value)
            else:
                here.append(copy.deepcopy(self.value))


class _Place(NamedTuple):
    path: tuple[Step, ...]
    value: Any
    schema: Tree
    name: str


def places(schema: Schema, tree: Any, part: Tree) -> Iterator[_Place]:
    """Yield every value of a tree with its schema."""
    stack = [_Place((), tree, part, "")]
    while stack:
        place = stack.pop()
        yield place
        resolved = schema.resolve(place.schema)
        if isinstance(place.value, dict):
            properties = resolved.get("properties") or {}
            extra = resolved.get("additionalProperties") or {}
            stack += [
                _Place((*place.path, key), value, properties.get(key) or extra, key if properties else "value")
                for key, value in sorted(place.value.items(), reverse=True)
            ]
        elif isinstance(place.value, list):
            items = resolved.get("items") or {}
            stack += [
                _Place((*place.path, index), value, items, place.name)
                for index, value in reversed(list(enumerate(place.value)))
            ]


def random_mutation(rng: Random, schema: Schema, tree: Tree, kind: Tree) -> Mutation | None:
    """Return a change that keeps the object's kind, name and namespace."""
    every = [place for place in places(schema, tree, kind) if not _is_protected(place.path)]
    objects = [place for place in every if isinstance(place.value, dict) and schema.properties(place.schema)]
    lists = [place for place in every if isinstance(place.value, list)]
    choice = rng.random()
    if choice < 0.55 and objects:
        return _new_field(rng, schema, rng.choice(objects))
    if choice < 0.65 and lists:
        place = rng.choice(lists)
        items = schema.resolve(place.schema).get("items") or {}
        is_copy = bool(place.value) and rng.random() < 0.3
        value = rng.choice(place.value) if is_copy else schema.random_value(rng, items, place.name, 3)
        return Mutation((*place.path, len(place.value)), value)
    leaves = [place for place in every if place.path and not isinstance(place.value, dict | list)]
    if choice < 0.9 and leaves:
        place = rng.choice(leaves)
        return Mutation(place.path, schema.random_value(rng, place.schema, place.name, 3))
    inner = [place for place in every if place.path]
    return Mutation(rng.choice(inner).path, REMOVED) if inner else None


def _new_field(rng: Random, schema: Schema, place: _Place) -> Mutation | None:
    properties = schema.properties(place.schema)
    names = [name for name in sorted(properties) if not _is_protected((*place.path, name)) and name != "status"]
    absent = [name for name in names if name not in place.value]
    if not names:
        return None
    name = rng.choice(absent or names)
    return Mutation((*place.path, name), schema.random_value(rng, properties[name], name, 2))


def _is_protected(path: tuple[Step, ...]) -> bool:
    if not path:
        return False
    if path[0] in ("apiVersion", "kind", "status"):
        return True
    if path[0] != "metadata":
        return False
    return len(path) == 1 or path[1] in (
        *_PROTECTED,
        "managedFields",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "selfLink",
    )
