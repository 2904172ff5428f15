"""Costs of traversing values, shared by the libraries' declarations. The model is in `mooring.cel.costs`."""

from collections.abc import Mapping
from typing import Any, Final

from mooring.cel.costs import STRING, CallCost, arg, scaled

READ: Final = CallCost(scaled(arg(0), STRING))
"""Traverse a string once."""
READ_AND_KEEP_SIZE: Final = CallCost(scaled(arg(0), STRING), result=arg(0))
"""Traverse a string once; the result is as long."""


def traversal_cost(value: Any) -> int:
    """Return the cost of traversing a value, in UTF-8 bytes rounded down, as Kubernetes does."""
    match value:
        case str():
            return int(len(value.encode(errors="replace")) * STRING)
        case bytes():
            return int(len(value) * STRING)
        case list() | tuple():
            return sum(map(traversal_cost, value))
        case Mapping():
            return sum(traversal_cost(key) + traversal_cost(item) for key, item in value.items())
    return 1
