"""The constraints of a claim: an attribute must be equal on all of its devices, or different on each.

The search adds a device while it tries it, and removes it when it backtracks.
"""

from collections.abc import Sequence

from mooring.api.resource_v1 import ResourceClaim
from mooring.scheduler.dra.claims import Request, full_name
from mooring.scheduler.dra.devices import PooledDevice, attribute_of


class Constraint:
    """A constraint on an attribute of the devices that some requests get."""

    def __init__(self, name: str, requests: Sequence[str]) -> None:
        self._name = name
        self._requests = frozenset(requests)
        self._values: list[tuple[str, object]] = []

    def add(self, request: Request, device: PooledDevice) -> bool:
        """Add a device if it meets the constraint; return whether it does."""
        if not request.is_meant_by(self._requests):
            return True
        value = attribute_of(device, self._name)
        if value is None or not self._allows(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: Request, _device: PooledDevice) -> None:
        """Remove the device that the last successful `add` added."""
        if request.is_meant_by(self._requests):
            self._values.pop()

    def _allows(self, value: tuple[str, object]) -> bool:
        raise NotImplementedError


class MatchAttribute(Constraint):
    def _allows(self, value: tuple[str, object]) -> bool:
        return not self._values or self._values[0] == value


class DistinctAttribute(Constraint):
    def _allows(self, value: tuple[str, object]) -> bool:
        return value not in self._values


def constraints_of(claim: ResourceClaim) -> list[Constraint]:
    """Return the constraints of a claim. Raise ValueError for a kind of constraint that this release does not know."""
    found: list[Constraint] = []
    for index, entry in enumerate(claim.spec.devices.constraints):
        if entry.match_attribute is not None:
            found.append(MatchAttribute(entry.match_attribute, entry.requests))
        elif entry.distinct_attribute is not None:
            found.append(DistinctAttribute(entry.distinct_attribute, entry.requests))
        else:
            what = "empty constraint (unsupported constraint type?)"
            raise ValueError(f"claim {full_name(claim)}, constraint #{index}: {what}")
    return found
