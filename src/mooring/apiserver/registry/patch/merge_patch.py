"""JSON Merge Patch (RFC 7386): what the patch says is put over the object, and null removes."""

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Merge a patch into a target, which may be changed; return the result."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value) if isinstance(value, dict) else value
    return result
