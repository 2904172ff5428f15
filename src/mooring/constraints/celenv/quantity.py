"""Kubernetes' quantity library: `quantity('1.5Gi')` and its arithmetic."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from mooring.api.quantity import Format, Quantity, QuantityError, parse
from mooring.base.short_string_cache import cache_short_or_error
from mooring.cel.costs import NOMINAL
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.network import succeeds
from mooring.cel.ext.traversal import READ
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, DOUBLE, INT, Type, object_type
from mooring.cel.types import STRING as TEXT


class QuantityValue(msgspec.Struct, frozen=True):
    """A quantity as a CEL value."""

    cel_type: ClassVar[Type] = object_type("kubernetes.Quantity")
    quantity: Quantity


@cache_short_or_error(4096, EvaluationError)
def quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(parse(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def as_integer(value: QuantityValue) -> int:
    integer = value.quantity.as_int64()
    if integer is None:
        raise EvaluationError("cannot convert value to integer")
    return integer


def _of_int(number: int) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_EXPONENT)


_Q: Final = QuantityValue.cel_type


def _member(name: str, overload: str, others: tuple[Type, ...], result: Type, impl: Callable[..., Any]) -> Function:
    return function(name, Overload(overload, (_Q, *others), result, impl, member=True))


QUANTITY_LIBRARY: Final = Library(
    "kubernetes.quantity",
    functions=(
        function("quantity", Overload("string_to_quantity", (TEXT,), _Q, quantity, cost=READ)),
        function("isQuantity", Overload("is_quantity_string", (TEXT,), BOOL, partial(succeeds, quantity), cost=READ)),
        # Kubernetes declares it as a function of a quantity, not as a member.
        function("sign", Overload("quantity_sign", (_Q,), INT, lambda value: value.quantity.sign())),
        _member("isGreaterThan", "quantity_is_greater_than", (_Q,), BOOL, lambda a, b: a.quantity > b.quantity),
        _member("isLessThan", "quantity_is_less_than", (_Q,), BOOL, lambda a, b: a.quantity < b.quantity),
        _member("compareTo", "quantity_compare_to", (_Q,), INT, lambda a, b: a.quantity.compare(b.quantity)),
        _member("asInteger", "quantity_get_int", (), INT, as_integer),
        _member("isInteger", "quantity_is_integer", (), BOOL, lambda value: value.quantity.as_int64() is not None),
        _member(
            "asApproximateFloat", "quantity_get_float", (), DOUBLE, lambda value: value.quantity.as_approximate_float()
        ),
        _member("add", "quantity_add", (_Q,), _Q, lambda a, b: QuantityValue(a.quantity + b.quantity)),
        _member("add", "quantity_add_int", (INT,), _Q, lambda a, b: QuantityValue(a.quantity + _of_int(b))),
        _member("sub", "quantity_sub", (_Q,), _Q, lambda a, b: QuantityValue(a.quantity - b.quantity)),
        _member("sub", "quantity_sub_int", (INT,), _Q, lambda a, b: QuantityValue(a.quantity - _of_int(b))),
    ),
    equality={_Q: NOMINAL},
)
