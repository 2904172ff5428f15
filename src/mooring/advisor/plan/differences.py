"""Fields that differ between an object and what a manifest or the server makes of it.

A manifest that is compared with a stored object says nothing about fields that it leaves out, except those that the
last ``kubectl apply`` set: these are removed. Lists of objects with a name are compared item by item.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.advisor.plan.results import FieldChange

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VOLATILE = frozenset({"status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation",
                       "metadata.uid", "metadata.creationTimestamp", "apiVersion", "kind",
                       f"metadata.annotations.{LAST_APPLIED}"})  # fmt: skip
_ITEM_KEYS = ("name", "mountPath", "containerPort", "key", "topologyKey", "port", "ip")
_MOST_FIELDS = 200
_MISSING = object()


def whole_differences(old: Any, new: Any) -> tuple[FieldChange, ...]:
    """Compare two whole objects, without what the server keeps for itself."""
    return _limited(_compare(old, new, "", is_whole=True))


def manifest_differences(stored: Any, manifest: Any) -> tuple[FieldChange, ...]:
    """Compare a stored object with a manifest, as ``kubectl apply`` would change it."""
    text = stored.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED, "")
    found = [*_compare(stored, manifest, "", is_whole=False)]
    try:
        applied = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        applied = {}
    found += [change for change in _removed(applied, manifest, stored, "") if change.path not in _VOLATILE]
    return _limited(iter(found))


def _limited(changes: Iterator[FieldChange]) -> tuple[FieldChange, ...]:
    return tuple(change for change, _ in zip(changes, range(_MOST_FIELDS), strict=False))


def _compare(old: Any, new: Any, path: str, *, is_whole: bool) -> Iterator[FieldChange]:
    if path in _VOLATILE or old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*new, *(key for key in old if is_whole and key not in new)]
        for key in keys:
            below = f"{path}.{key}" if path else str(key)
            yield from _compare(old.get(key, _MISSING), new.get(key, _MISSING), below, is_whole=is_whole)
        return
    if isinstance(old, list) and isinstance(new, list) and (key := _item_key(old, new)):
        stored = {item[key]: item for item in old}
        wanted = {item[key]: item for item in new}
        for name in [*wanted, *(name for name in stored if name not in wanted)]:
            below = f"{path}[{name}]"
            yield from _compare(stored.get(name, _MISSING), wanted.get(name, _MISSING), below, is_whole=is_whole)
        return
    if new is _MISSING and not is_whole and not path.endswith("]"):
        return
    yield FieldChange(path, None if old is _MISSING else old, None if new is _MISSING else new)


def _item_key(old: list[Any], new: list[Any]) -> str:
    """Return the field by which the items of both lists are identified; empty if there is none."""
    items = [*old, *new]
    for key in _ITEM_KEYS:
        if items and all(isinstance(item, dict) and key in item for item in items):
            names = [[item[key] for item in part] for part in (old, new)]
            if all(len({repr(name) for name in part}) == len(part) for part in names):
                return key
    return ""


def _removed(applied: Any, manifest: Any, stored: Any, path: str) -> Iterator[FieldChange]:
    """Find fields that the last apply set and the manifest leaves out."""
    if not all(isinstance(each, dict) for each in (applied, manifest, stored)):
        return
    for key, value in applied.items():
        below = f"{path}.{key}" if path else str(key)
        if key not in manifest and key in stored:
            yield FieldChange(below, stored[key], None)
        elif key in manifest:
            yield from _removed(value, manifest[key], stored.get(key), below)
