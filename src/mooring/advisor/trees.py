"""Read parsed documents in which any field may have a wrong type. Called by audits of objects as they were read."""

from typing import Any


def as_mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a dict, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []
