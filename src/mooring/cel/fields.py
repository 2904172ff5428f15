"""Read a field of an object, a mapping or an optional. Used by interpreter.py and codegen.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from .conversions import adapter
from .errors import EvaluationError
from .types import Kind, ObjectType, Type
from .values import NONE, Optional, Value, no_such_overload

ABSENT: Final = object()
"""Marks a missing value, where None would be null."""


@lru_cache(maxsize=512)
def _is_mapping(class_: type) -> bool:
    return issubclass(class_, Mapping)


class Accessor:
    """Read the field `name` of values with the static type `operand`."""

    __slots__ = ("adapt", "attribute", "name")

    def __init__(self, operand: Type, name: str, objects: Mapping[str, ObjectType]) -> None:
        holder = operand.params[0] if operand.is_optional else operand
        declared = objects.get(holder.name) if holder.kind is Kind.OBJECT else None
        field = declared.fields.get(name) if declared is not None else None
        self.name = name
        self.attribute = None if field is None else field.attribute or name
        """What to read of a plain Python object; None when the value cannot be one."""
        self.adapt = None if field is None else adapter(field.type)

    def find(self, value: Value) -> Value:
        """Return the field, or `ABSENT`."""
        if _is_mapping(value.__class__):
            found = value.get(self.name, ABSENT)
        elif self.attribute is not None:
            found = getattr(value, self.attribute, None)
            found = ABSENT if found is None else found
        else:
            raise no_such_overload()
        return found if found is ABSENT or self.adapt is None else self.adapt(found)

    def read(self, value: Value) -> Value:
        """Return `value.name`; on an optional, an optional."""
        if isinstance(value, Optional):
            return self.read_optional(value)
        found = self.find(value)
        if found is ABSENT:
            raise EvaluationError(f"no such key: {self.name}")
        return found

    def read_optional(self, value: Value) -> Optional:
        """Return `value.?name`."""
        if isinstance(value, Optional):
            if not value.present:
                return NONE
            value = value.value
        found = self.find(value)
        return NONE if found is ABSENT else Optional.of(found)

    def has(self, value: Value) -> bool:
        """Return `has(value.name)`."""
        if value.__class__ is dict and self.adapt is None:
            return self.name in value
        if isinstance(value, Optional):
            return value.present and self.has(value.value)
        return value is not ABSENT and self.find(value) is not ABSENT
