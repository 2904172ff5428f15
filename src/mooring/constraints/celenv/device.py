"""The environment in which the selectors of DeviceClasses and ResourceClaims are compiled: `DEVICE` (structured DRA).

    device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "a100"
    device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("10Gi"))

Attributes and capacities are maps of maps, by domain and by name; attribute values are dynamic. Used by admission and
by the scheduler's allocator.
"""

from typing import Final

from mooring.base.version import Version
from mooring.cel.costs import Range
from mooring.cel.ext.bindings import BINDINGS
from mooring.cel.types import BOOL, DYN, STRING, Field, ObjectType, map_of
from mooring.constraints.celenv.environments import Environments, VersionedLibrary
from mooring.constraints.celenv.quantity import QuantityValue
from mooring.constraints.celenv.semver import SEMVER_LIBRARY

_SINCE: Final = Version(1, 31)
_DRIVER_SIZE: Final = 63
_DOMAIN_SIZE: Final = 63
_NAME_SIZE: Final = 32
_VALUE_SIZE: Final = 64
_ENTRIES: Final = 32


class DeviceEnvironments(Environments):
    """Environments whose size estimates hold for any attribute name."""

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        match path:
            case ("device", "driver"):
                return Range(0, _DRIVER_SIZE)
            case ("device", "attributes" | "capacity", *below):
                most = _size_of_entry(below, values=path[1] == "attributes")
                return None if most is None else Range(0, most)
            case _:
                return None


def _size_of_entry(below: list[str], *, values: bool) -> int | None:
    """Return the maximum size of a map of maps, or of its keys, inner maps, inner keys or values."""
    match below:
        case []:
            return _ENTRIES
        case ["@keys"]:
            return _DOMAIN_SIZE
        case ["@items" | "@values"]:
            return _ENTRIES
        case ["@items" | "@values", "@keys"]:
            return _NAME_SIZE
        case ["@items" | "@values", _] if values:
            return _VALUE_SIZE
        case _:
            return None


DEVICE: Final = DeviceEnvironments(
    variable="device",
    declaration=ObjectType(
        "kubernetes.DRADevice",
        {
            "driver": Field(STRING),
            "attributes": Field(map_of(STRING, map_of(STRING, DYN))),
            "capacity": Field(map_of(STRING, map_of(STRING, QuantityValue.cel_type))),
            "allowMultipleAllocations": Field(BOOL, attribute="allow_multiple_allocations"),
        },
    ),
    sizes={},
    since=_SINCE,
    libraries=(VersionedLibrary(BINDINGS, _SINCE), VersionedLibrary(SEMVER_LIBRARY, _SINCE, until=Version(1, 33))),
)
"""The environments for device selectors, evaluated on one device."""
