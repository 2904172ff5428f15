"""Format resource amounts, given in the scheduler's units, as quantities."""

from mooring.api.quantity import Quantity, parse
from mooring.constraints.requests import CPU

_BINARY = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES = ("memory", "ephemeral-storage", "storage")


def amount(resource: str, number: int) -> str:
    """Format an amount as an exact quantity, as short as possible: `1500m`, `2`, `3Gi`."""
    if resource == CPU:
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if number and number % size == 0:
                return f"{number // size}{suffix}"
    return str(number)


def quantity(resource: str, number: int) -> Quantity:
    return parse(amount(resource, number))
