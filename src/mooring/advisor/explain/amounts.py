"""Amounts of resources in the units of the scheduler, as quantities for people and objects."""

from mooring.api.quantity import Quantity, parse
from mooring.constraints.requests import CPU

_BINARY = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES = ("memory", "ephemeral-storage", "storage")


def amount(resource: str, number: int) -> str:
    """`1500m`, `2`, `3Gi`: exact, and as short as that allows."""
    if resource == CPU:
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if number and number % size == 0:
                return f"{number // size}{suffix}"
    return str(number)


def quantity(resource: str, number: int) -> Quantity:
    return parse(amount(resource, number))
