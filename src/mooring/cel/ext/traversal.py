"""Costs of reading values: what the libraries' declarations share. The model itself is in `mooring.cel.costs`."""

from collections.abc import Mapping
from typing import Any, Final

from mooring.cel.costs import STRING, CallCost, arg, scaled

READ: Final = CallCost(scaled(arg(0), STRING))
"""A text is read once."""
READ_AND_KEEP_SIZE: Final = CallCost(scaled(arg(0), STRING), result=arg(0))
"""A text is read once, and what comes out is taken to be as long."""


def traversal_cost(value: Any) -> int:
    """What looking at everything inside a value costs, counted in UTF-8 bytes and rounded down, as Kubernetes does."""
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
