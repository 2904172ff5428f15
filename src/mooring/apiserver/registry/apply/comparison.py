"""Compare and merge objects field by field, by the merge schema of their type.

`compare` determines which fields a write takes ownership of, `collect_fields` which fields an applied configuration
claims; `merge` and `prune` apply it. All descend to the fields of structs, the keys of maps, the items of keyed lists
and the values of sets; any other value counts as one field.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.apiserver.registry.apply import field_set
from mooring.apiserver.registry.apply.field_set import SELF, Fields
from mooring.apiserver.registry.patch.schema import MergeNode

_ABSENT: Any = object()
_REMOVED: Any = object()
_HOLDERS = (dict, list)


class Comparison(msgspec.Struct, frozen=True):
    """The differences of two objects as field sets: changed (added or modified) and removed fields."""

    changed: Fields
    removed: Fields

    def touches(self, names: Iterable[str]) -> bool:
        """Return whether a field set with these top-level names may contain changed or removed fields."""
        return any(name in self.changed or name in self.removed for name in names)


class MissingKeyError(ValueError):
    """An item of a keyed list has none of the fields that identify items (merge keys)."""


def compare(old: dict[str, Any], new: dict[str, Any], node: MergeNode) -> Comparison:
    """Return the fields that were changed and removed between two objects, by the merge schema `node`."""
    found = Comparison({}, {})
    _compare_maps(old, new, node, found)
    return found


def _compare(element: str, old: Any, new: Any, node: MergeNode | None, found: Comparison) -> None:
    """Compare one field or item, and add its path to the changed or removed fields."""
    if old is _ABSENT:
        found.changed[element] = all_fields(new, node)
    elif new is _ABSENT:
        found.removed[element] = all_fields(old, node)
    elif node is None or node.is_atomic or type(old) is not type(new) or type(new) not in _HOLDERS:
        if old != new or type(old) is not type(new):
            found.changed[element] = {}
    elif old != new:
        below = Comparison({}, {})
        compare_inner = _compare_maps if isinstance(new, dict) else _compare_lists
        compare_inner(old, new, node, below)
        if below.changed:
            found.changed[element] = below.changed
        if below.removed:
            found.removed[element] = below.removed


def _compare_maps(old: dict[str, Any], new: dict[str, Any], node: MergeNode, found: Comparison) -> None:
    for name, after in new.items():
        before: Any = old.get(name)
        if before == after:
            continue
        if before is None and not (name in old and after.__class__ is list):
            is_holder = after.__class__ in _HOLDERS
            found.changed["f:" + name] = all_fields(after, node.child(name)) if is_holder else {}
        elif after is None and before.__class__ not in _HOLDERS:
            found.removed["f:" + name] = {}
        else:  # null stands for the empty map or list
            now = type(before)() if after is None else after
            _compare("f:" + name, [] if before is None else before, now, node.child(name), found)
    for name, value in old.items():
        if value is not None and name not in new:
            found.removed["f:" + name] = all_fields(value, node.child(name)) if value.__class__ in _HOLDERS else {}


def _compare_lists(old: list[Any], new: list[Any], node: MergeNode, found: Comparison) -> None:
    if not old:
        _add_items(new, node, found.changed)
        return
    before, after = _by_element(old, node), _by_element(new, node)
    for element in dict.fromkeys((*before, *after)):
        ours, theirs = before.get(element, []), after.get(element, [])
        if len(ours) <= 1 and len(theirs) <= 1:
            left = ours[0] if ours else _ABSENT
            right = theirs[0] if theirs else _ABSENT
            _compare(element, left, right, node.item, found)
        elif ours != theirs:  # items with equal keys count as one field
            found.changed[element] = {}


def _by_element(items: list[Any], node: MergeNode) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in items:
        found.setdefault(element_of(each, node), []).append(each)
    return found


def element_of(each: Any, node: MergeNode) -> str:
    """Return the path element of a list item: its keys, or its value in a set. Raise MissingKeyError without keys."""
    names = node.keys
    if not names:
        return field_set.value_element(each)
    found, defaults = each if isinstance(each, dict) else {}, node.key_defaults
    keys = {}
    for name in names:
        key = found.get(name)
        if key is not None or (key := defaults.get(name)) is not None:
            keys[name] = key
    if not keys:
        raise MissingKeyError(f"an item of a list with keys omits all key fields {json.dumps(names)}")
    return field_set.item_element(keys)


def all_fields(value: Any, node: MergeNode | None) -> Fields:
    """Return the set of all field paths in a value, including those of maps and lists themselves."""
    if node is None or node.is_atomic or not value or value.__class__ not in _HOLDERS:
        return {}
    result: Fields = {SELF: {}}
    if isinstance(value, dict):
        for name, child in value.items():  # without a call for each leaf
            result["f:" + name] = all_fields(child, node.child(name)) if child.__class__ in _HOLDERS else {}
    else:
        _add_items(value, node, result)
    return result


def _add_items(items: list[Any], node: MergeNode, result: Fields) -> None:
    """Add all field paths in the items of a list; items with equal keys count as one field."""
    item = node.item
    for each in items:
        element = element_of(each, node)
        result[element] = {} if element in result else all_fields(each, item)


def collect_fields(value: Any, node: MergeNode | None) -> Fields:
    """Return the fields that an apply claims: leaves, list items, map keys. Raise MissingKeyError without keys."""
    if node is None or node.is_atomic or not isinstance(value, dict | list) or not value:
        return {}
    result: Fields = {}
    if isinstance(value, dict):
        for name, child in value.items():
            found = collect_fields(child, node.child(name))
            result[f"f:{name}"] = {SELF: {}, **found} if found and node.shape == "map" else found
        return result
    for each in value:
        found = collect_fields(each, node.item)
        result[element_of(each, node)] = {SELF: {}, **found} if found else {}
    return result


def merge(live: Any, config: Any, node: MergeNode | None) -> Any:
    """Return the live value with an applied configuration merged in; neither argument is modified.

    A null clears an atomic value or a leaf; maps and lists whose items have managers of their own stay as they are.
    """
    if node is None or node.is_atomic:
        return config
    if config is None and isinstance(live, dict | list):
        return live
    if isinstance(live, dict) and isinstance(config, dict):
        result = dict(live)
        for name, value in config.items():
            result[name] = merge(live[name], value, node.child(name)) if name in live else value
        return result
    if isinstance(live, list) and isinstance(config, list):
        return _merge_lists(live, config, node)
    return config


def _merge_lists(live: list[Any], config: list[Any], node: MergeNode) -> list[Any]:
    """Merge list items by key, in the order of the configuration; items only in the live list keep their place."""
    wanted = {element_of(each, node): each for each in config}
    there = {element_of(each, node) for each in live}
    if not node.keys:
        return live + [each for element, each in wanted.items() if element not in there]
    before = {element_of(each, node): each for each in live}
    result: list[Any] = []
    rest = iter(wanted.items())
    for each in live:
        if element_of(each, node) not in wanted:
            result.append(each)
            continue
        for element, configured in rest:
            result.append(merge(before[element], configured, node.item) if element in before else configured)
            if element in before:
                break
    for element, configured in rest:
        result.append(merge(before[element], configured, node.item) if element in before else configured)
    return result


def prune(value: Any, node: MergeNode | None, last: Fields, kept: Fields) -> Any:
    """Return the value without the fields in `last`, except fields in `kept` and those that contain such a field."""
    if node is None or node.is_atomic or not last:
        return value
    if isinstance(value, dict):
        pruned = ((name, _prune(f"f:{name}", child, node.child(name), last, kept)) for name, child in value.items())
        return {name: child for name, child in pruned if child is not _REMOVED}
    if isinstance(value, list):
        items = (_prune(element_of(each, node), each, node.item, last, kept) for each in value)
        return [each for each in items if each is not _REMOVED]
    return value


def _prune(element: str, value: Any, node: MergeNode | None, last: Fields, kept: Fields) -> Any:
    owned, needed = last.get(element), kept.get(element)
    if owned is None:
        return value
    if field_set.is_member(owned) and needed is None:
        return _REMOVED
    result = prune(value, node, field_set.children_of(owned), field_set.children_of(needed))
    emptied = not result and bool(value) and isinstance(value, dict | list)
    return _REMOVED if emptied and needed is None else result
