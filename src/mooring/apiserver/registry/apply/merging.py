"""Merge an applied configuration into an object, and prune fields that it no longer has."""

from typing import Any

from mooring.apiserver.registry.apply.comparison import element_of
from mooring.apiserver.registry.apply.field_set import Fields, below, field, is_member
from mooring.apiserver.registry.patch.schema import Node


def merge(live: Any, config: Any, node: Node | None) -> Any:
    """Return the live value with a configuration merged into it.

    Neither is modified; the result shares parts with both. A null clears a value that is one field; where parts have
    managers of their own, it modifies none of them.
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


def _merge_lists(live: list[Any], config: list[Any], node: Node) -> list[Any]:
    """Merge items in the order of the configuration; other items keep their place before their successor."""
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


def prune(value: Any, node: Node | None, last: Fields, kept: Fields) -> Any:
    """Remove the fields of the field set `last` that are neither in `kept` nor contain a field in `kept`."""
    if node is None or node.is_atomic or not last:
        return value
    if isinstance(value, dict):
        pruned = ((name, _prune(field(name), child, node.child(name), last, kept)) for name, child in value.items())
        return {name: child for name, child in pruned if child is not _REMOVED}
    if isinstance(value, list):
        items = (_prune(element_of(each, node), each, node.item, last, kept) for each in value)
        return [each for each in items if each is not _REMOVED]
    return value


_REMOVED: Any = object()


def _prune(element: str, value: Any, node: Node | None, last: Fields, kept: Fields) -> Any:
    owned, needed = last.get(element), kept.get(element)
    if owned is None:
        return value
    if is_member(owned) and needed is None:
        return _REMOVED
    result = prune(value, node, below(owned), below(needed))
    emptied = not result and bool(value) and isinstance(value, dict | list)
    return _REMOVED if emptied and needed is None else result
