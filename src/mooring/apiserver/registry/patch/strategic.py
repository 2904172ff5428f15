"""Strategic merge patch: a merge patch that knows which lists are merged, and by which key.

Beside plain values a patch may carry directives:

- `$patch: replace | delete | merge` in an object: put this in place of what is there, or remove it;
- `$retainKeys: [a, b]`: of the object that is there, keep only these fields;
- `$deleteFromPrimitiveList/finalizers: [x]`: take values out of a list;
- `$setElementOrder/containers: [{name: a}, {name: b}]`: the order of a merged list.

Fields that the type does not have merge as in a JSON merge patch (`merge_values`). Called by ``patch/__init__.py``.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from mooring.apiserver.registry.patch.json_patch import PatchError
from mooring.apiserver.registry.patch.schema import MergeNode

_MARK = "$"
_HOLDERS = (dict, list)
_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge_values(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch; return the result, which may be the modified target."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_values(result.get(key), value) if isinstance(value, dict) else value
    return result


def merge_object(target: dict[str, Any], patch: dict[str, Any], node: MergeNode | None) -> dict[str, Any]:
    """Apply a strategic merge patch to an object's tree; return it, maybe the modified target. Raise PatchError."""
    if _MARK not in "".join(patch):
        return _merge_fields(target, patch, node)
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise PatchError(f"unknown patch type found: {directive}")
    _retain_keys(target, patch)
    for key, value in patch.items():
        if key in {_PATCH, _RETAIN} or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            _delete_from_list(target, key.removeprefix(_DELETE_FROM), value)
        elif value is None:
            target.pop(key, None)
        else:
            child = node.child(key) if node else None
            target[key] = _merge_value(target.get(key), value, child, patch.get(_ORDER + key))
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(target.get(name), list):
            child = node.child(name) if node else None
            target[name] = _merge_list(target[name], [], child, order)
    return target


def _merge_fields(target: dict[str, Any], patch: dict[str, Any], node: MergeNode | None) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, _HOLDERS):
            target[key] = _merge_value(target.get(key), value, node.child(key) if node else None, None)
        else:
            target[key] = value
    return target


def _merge_value(found: Any, value: Any, node: MergeNode | None, order: Any) -> Any:
    if isinstance(value, dict):
        if "replace" in _patch_strategies_of(node):
            return {key: item for key, item in value.items() if key != _PATCH}
        return merge_object(found if isinstance(found, dict) else {}, value, node)
    if isinstance(value, list) and "merge" in _patch_strategies_of(node):
        if found is None and order is None and node and not any(map(_is_directive, value)):
            return _new_list(value, node)
        return _merge_list(found if isinstance(found, list) else [], value, node, order)
    return value


def _new_list(items: list[Any], node: MergeNode) -> list[Any]:
    """Return a patch's list, without directives, for a field the object lacks; no item needs a merge key."""
    is_keyed = bool(node.merge and node.merge.patch_key)
    if any(isinstance(each, _HOLDERS) is not is_keyed for each in items):
        return _merge_list([], items, node, None)  # which refuses them
    return [merge_object({}, each, node.item) for each in items] if is_keyed else list(dict.fromkeys(items))


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _PATCH in item


def _patch_strategies_of(node: MergeNode | None) -> tuple[str, ...]:
    return node.merge.patch_strategies if node and node.merge else ()


def _merge_list(found: list[Any], patch: list[Any], node: MergeNode | None, order: Any) -> list[Any]:
    key = node.merge.patch_key if node and node.merge else ""
    if order is not None and not isinstance(order, list):
        raise PatchError(f"the value of a {_ORDER} directive must be a list")
    before = list(found)
    if key:
        result = _merge_items(found, patch, key, node.item if node else None)
    else:
        known = set(map(_require_scalar, found))
        result = found + [item for item in dict.fromkeys(map(_require_scalar, patch)) if item not in known]
    if order is None and not before and len(result) == len(patch):
        return result  # nothing but what the patch says, in its order
    if order is None:  # then the patch itself says it: what is new comes first
        order = [item for item in patch if not (key and _PATCH in item)]
    wanted = [_identify(item, key) for item in order]
    if wanted == [_identify(item, key) for item in result]:
        return result
    return _order_items(result, wanted, [_identify(item, key) for item in before], key)


def _merge_items(found: list[Any], patch: list[Any], key: str, node: MergeNode | None) -> list[Any]:
    """Merge the items with equal merge keys, and append the new ones; return the list."""
    items, replace = _without_directives(patch, key, found)
    result: list[Any] = [] if replace else found
    places = {_identify(result[place], key): place for place in reversed(range(len(result)))}
    for item in items:
        identity = _identify(item, key)
        place = places.get(identity)
        if place is None:
            places[identity] = len(result)
            result.append(merge_object({}, item, node))
        elif item.get(_PATCH) == "replace":
            result[place] = {name: value for name, value in item.items() if name != _PATCH}
        else:
            result[place] = merge_object(result[place], item, node)
    return result


def _without_directives(patch: list[Any], key: str, found: list[Any]) -> tuple[list[dict[str, Any]], bool]:
    """Return the items to merge and whether they replace the list; `$patch: delete` items are removed in `found`."""
    items, replace = [], False
    gone = set()
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(f"expected an object with the key {key} in a list of objects")
        directive = item.get(_PATCH)
        if directive == "replace" and key not in item:
            replace = True
        elif directive == "delete":
            gone.add(_identify(item, key))
        elif directive == "merge" and key not in item:
            continue
        else:
            items.append(item)
    if gone:
        found[:] = [other for other in found if _identify(other, key) not in gone]
    return items, replace


def _order_items(items: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return items in the order that the patch requests; other items keep their position among these."""
    rank = {identity: place for place, identity in enumerate(wanted)}
    was = {identity: place for place, identity in enumerate(before)}
    named = deque(
        sorted((item for item in items if _identify(item, key) in rank), key=lambda item: rank[_identify(item, key)])
    )
    others = deque(item for item in items if _identify(item, key) not in rank)
    result: list[Any] = []
    while named and others:
        here, there = was.get(_identify(others[0], key)), was.get(_identify(named[0], key))
        first = others if here is not None and there is not None and here < there else named
        result.append(first.popleft())
    return [*result, *named, *others]


def _identify(item: Any, key: str) -> Any:
    if not key:
        return _require_scalar(item)
    if not isinstance(item, dict) or item.get(key) is None:
        raise PatchError(f"map: {item} does not contain declared merge key: {key}")
    return _require_scalar(item[key])


def _require_scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise PatchError("expected a list of plain values")
    return value


def _retain_keys(target: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = patch.get(_RETAIN)
    if kept is None:
        return
    if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
        raise PatchError(f"the value of {_RETAIN} must be a list of fields")
    kept = frozenset(kept)
    stray = [key for key in patch if not key.startswith("$") and patch[key] is not None and key not in kept]
    if stray:
        raise PatchError(f"{_RETAIN} list must contain all the fields of the patch: {', '.join(stray)} missing")
    for name in [name for name in target if name not in kept]:
        del target[name]


def _delete_from_list(target: dict[str, Any], name: str, values: Any) -> None:
    if not isinstance(values, Iterable) or isinstance(values, str | dict):
        raise PatchError(f"the value of a {_DELETE_FROM} directive must be a list")
    gone = set(map(_require_scalar, values))
    found = target.get(name)
    if isinstance(found, list):
        target[name] = [item for item in found if isinstance(item, dict | list) or item not in gone]
