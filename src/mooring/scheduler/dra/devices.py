"""Represent devices of ResourceSlices, and evaluate the CEL expressions that select devices.

Devices of a driver with equal attributes and capacities share a `DeviceKind`: an expression is evaluated once per kind,
however many nodes have such devices.
"""

from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.resource_v1 import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from mooring.cel.cache import ProgramCache
from mooring.cel.environment import Program
from mooring.cel.errors import CelError, CompileError
from mooring.constraints.celenv import COST_LIMIT, DEVICE
from mooring.constraints.celenv.quantity import QuantityValue
from mooring.constraints.celenv.semver import semver

_CACHE_SIZE: Final = 1024


class DeviceId(NamedTuple):
    """The identity of a device: the names of its driver, of the pool and of the device in the pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class SelectorError(ValueError):
    """A CEL expression does not compile or fails; the message says which and why."""


class _Domains(dict[str, dict[str, Any]]):
    """The map of device attributes by domain that CEL expressions read; an unknown domain is an empty map."""

    def get(self, key: str, _default: Any = None) -> Any:
        return dict.get(self, key, {})


class DeviceKind:
    """The driver, attributes and capacities of a device: everything that expressions can read."""

    __slots__ = ("__weakref__", "_value", "_verdicts")

    def __init__(self, driver: str, device: Device) -> None:
        attributes, capacity = _Domains(), _Domains()
        for name, attribute in device.attributes.items():
            domain, identifier = split_qualified_name(name, driver)
            attributes.setdefault(domain, {})[identifier] = attribute_value(attribute)
        for name, entry in device.capacity.items():
            domain, identifier = split_qualified_name(name, driver)
            capacity.setdefault(domain, {})[identifier] = QuantityValue(entry.value)
        self._value = {
            "driver": driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        }
        self._verdicts: dict[str, bool | str] = {}

    def is_selected_by(self, expression: str) -> bool:
        """Return whether a CEL expression selects devices of this kind. Raise SelectorError if evaluation fails."""
        verdict = self._verdicts.get(expression)
        if verdict is None:
            verdict = self._verdicts[expression] = self._evaluate(expression)
        if isinstance(verdict, str):
            raise SelectorError(verdict)
        return verdict

    def _evaluate(self, expression: str) -> bool | str:
        try:
            program = _programs.get(expression)
        except CelError as problem:
            return f"CEL compile error: {problem}"
        try:
            # What was admitted costs little enough; an expression from elsewhere is watched while it runs.
            if program.max_cost > COST_LIMIT:
                return program.evaluate_counted({"device": self._value}, COST_LIMIT).value is True
            return program.evaluate({"device": self._value}) is True
        except CelError as problem:
            return f"CEL runtime error: {problem}"


def _compile_expression(expression: str) -> Program:
    program = DEVICE.stored_expressions().compile(expression)
    if program.issues:
        raise CompileError(program.issues)
    return program


_programs: Final = ProgramCache(_compile_expression, _CACHE_SIZE)


class PooledDevice(msgspec.Struct, eq=False):
    """A device as a ResourceSlice of its pool publishes it, with its taints.

    Do not modify it: it is not frozen only because creating half a million frozen objects would take too long.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice
    kind: DeviceKind
    taints: tuple[DeviceTaint, ...]
    """The taints that the driver publishes, and those that DeviceTaintRules add."""
    twin_key: tuple[object, ...]
    """A key that is equal for devices that are interchangeable in a search."""
    order: int = msgspec.field(default=0)
    """The sort key by which a search tries the devices of a node."""

    @property
    def is_shareable(self) -> bool:
        return bool(self.device.allow_multiple_allocations)


def split_qualified_name(name: str, driver: str) -> tuple[str, str]:
    """Split an attribute's name into domain and identifier; without a domain, the driver's name is the domain."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def attribute_of(device: PooledDevice, name: str) -> tuple[str, object] | None:
    """Return the type and value of the attribute with a fully qualified name; None if the device lacks it."""
    attributes = device.device.attributes
    attribute = attributes.get(name)
    if attribute is None:
        domain, _, identifier = name.partition("/")
        attribute = attributes.get(identifier) if domain == device.id.driver else None
    if attribute is None:
        return None
    for field_name in ("string_value", "int_value", "bool_value", "version_value"):
        value = getattr(attribute, field_name)
        if value is not None:
            return field_name, value
    return None


def attribute_value(attribute: DeviceAttribute) -> Any:
    """Convert a device attribute to a CEL value."""
    if attribute.version_value is not None:
        return _version_value(attribute.version_value)
    for value in (attribute.string_value, attribute.int_value, attribute.bool_value):
        if value is not None:
            return value
    if attribute.version_values:
        return [_version_value(text) for text in attribute.version_values]
    return attribute.string_values or attribute.int_values or attribute.bool_values


def _version_value(text: str) -> Any:
    try:
        return semver(text)
    except CelError:  # admission lets no such version in; as a text it equals no version
        return text
