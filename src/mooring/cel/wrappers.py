"""Protobuf wrapper messages, which stand for a plain value: `google.protobuf.Int64Value{value: 1}` is `1`.

The checker gives such a message the type `wrapper(int)`, which is accepted wherever an `int` is and may be null; at run
time it is the plain value. Called by checker.py and interpreter.py.
"""

import math
import struct
from typing import Final, NamedTuple

from .errors import EvaluationError
from .types import BOOL, BYTES, DOUBLE, INT, STRING, UINT, Field, Kind, ObjectType, Type
from .values import UInt, Value

FIELD: Final = "value"


class Wrapper(NamedTuple):
    """One wrapper message type."""

    name: str
    wraps: Type
    empty: Value
    """The value of a message without its field."""
    bits: int = 64

    @property
    def type(self) -> Type:
        return Type(Kind.WRAPPER, "wrapper", (self.wraps,))

    @property
    def declaration(self) -> ObjectType:
        return ObjectType(self.name, {FIELD: Field(self.wraps)})

    def unwrap(self, value: Value) -> Value:
        """Return the plain value; raise EvaluationError if the field cannot hold it."""
        if value.__class__ is not self.empty.__class__:
            raise self._cannot_hold(f"unsupported native conversion to '{self.wraps}'")
        if self.bits == 64:
            return value
        if isinstance(value, float):
            return _float32(value)
        if isinstance(value, UInt):
            if value >= 1 << self.bits:
                raise self._cannot_hold("unsigned integer overflow")
        elif isinstance(value, int) and not -(1 << self.bits - 1) <= value < 1 << self.bits - 1:
            raise self._cannot_hold("integer overflow")
        return value

    def _cannot_hold(self, why: str) -> EvaluationError:
        return EvaluationError(f"field type conversion error for {self.name}.{FIELD} value type: {why}")


def _float32(number: float) -> float:
    """Round to 32-bit precision; overflow gives an infinity."""
    try:
        found: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


_ALL: Final = (
    Wrapper("google.protobuf.BoolValue", BOOL, False),
    Wrapper("google.protobuf.BytesValue", BYTES, b""),
    Wrapper("google.protobuf.DoubleValue", DOUBLE, 0.0),
    Wrapper("google.protobuf.FloatValue", DOUBLE, 0.0, bits=32),
    Wrapper("google.protobuf.Int32Value", INT, 0, bits=32),
    Wrapper("google.protobuf.Int64Value", INT, 0),
    Wrapper("google.protobuf.StringValue", STRING, ""),
    Wrapper("google.protobuf.UInt32Value", UINT, UInt(0), bits=32),
    Wrapper("google.protobuf.UInt64Value", UINT, UInt(0)),
)
WRAPPERS: Final = {each.name: each for each in _ALL}
