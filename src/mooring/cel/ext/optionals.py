"""Optional values: construction, access and combination.

`or` and `orValue` evaluate their argument only if there is no value. `optMap` and `optFlatMap` are macros that bind the
value to a name. The syntax (`a.?b`, `a[?i]`, `[?x]`, `{?k: v}`) is the engine's.
"""

from collections.abc import Sequence
from typing import Final

from mooring.cel import operators as op
from mooring.cel.library import Library, Macro, Overload, function
from mooring.cel.macros import Expander
from mooring.cel.syntax import Expr
from mooring.cel.types import BOOL, list_of, optional_of, param
from mooring.cel.values import NONE, Optional, Value, is_zero

_OF: Final = "optional.of"
_NONE: Final = "optional.none"


def of_non_zero_value(value: Value) -> Optional:
    return NONE if is_zero(value) else Optional.of(value)


def first(items: list[Value]) -> Optional:
    return Optional.of(items[0]) if items else NONE


def last(items: list[Value]) -> Optional:
    return Optional.of(items[-1]) if items else NONE


def unwrap(items: list[Optional]) -> list[Value]:
    return [item.value for item in items if item.present]


def _expand_opt_map(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    """Expand `o.optMap(v, e)` to `o.hasValue() ? optional.of(e with v as o.value()) : optional.none()`."""
    bound = _bind_value(new, target, args, "optMap() variable name must be a simple identifier")
    return None if target is None or bound is None else _if_present(new, target, new.call(_OF, bound))


def _expand_opt_flat_map(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    bound = _bind_value(new, target, args, "optFlatMap() variable name must be a simple identifier")
    return None if target is None or bound is None else _if_present(new, target, bound)


def _bind_value(new: Expander, target: Expr | None, args: Sequence[Expr], complaint: str) -> Expr | None:
    variable = new.variable(args[0], complaint)
    if target is None or variable is None:
        return None
    return new.bind(variable, new.member(new.copy(target), "value"), args[1])


def _if_present(new: Expander, target: Expr, mapped: Expr) -> Expr:
    return new.call(op.CONDITIONAL, new.member(target, "hasValue"), mapped, new.call(_NONE))


_VALUE: Final = param("T")
_OPTIONAL: Final = optional_of(_VALUE)
_LIST: Final = list_of(_VALUE)

OPTIONALS: Final = Library(
    "optionals",
    functions=(
        function(_OF, Overload("optional_of", (_VALUE,), _OPTIONAL, Optional.of)),
        function(
            "optional.ofNonZeroValue",
            Overload("optional_ofNonZeroValue", (_VALUE,), _OPTIONAL, of_non_zero_value),
        ),
        function(_NONE, Overload("optional_none", (), _OPTIONAL, lambda: NONE)),
        function(
            "value", Overload("optional_value", (_OPTIONAL,), _VALUE, lambda optional: optional.value, member=True)
        ),
        function(
            "hasValue",
            Overload("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.present, member=True),
        ),
        function(
            "or",
            Overload(
                "optional_or_optional",
                (_OPTIONAL, _OPTIONAL),
                _OPTIONAL,
                lambda optional, other: optional if optional.present else other(),
                member=True,
                uncounted=True,
                lazy=True,
            ),
        ),
        function(
            "orValue",
            Overload(
                "optional_orValue_value",
                (_OPTIONAL, _VALUE),
                _VALUE,
                lambda optional, default: optional.value if optional.present else default(),
                member=True,
                uncounted=True,
                lazy=True,
            ),
        ),
        function("first", Overload("list_first", (_LIST,), _OPTIONAL, first, member=True)),
        function("last", Overload("list_last", (_LIST,), _OPTIONAL, last, member=True)),
        function("optional.unwrap", Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, unwrap)),
        function("unwrapOpt", Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, unwrap, member=True)),
    ),
    macros=(
        Macro("optMap", 2, receiver=True, expand=_expand_opt_map),
        Macro("optFlatMap", 2, receiver=True, expand=_expand_opt_flat_map),
    ),
    types=(_OPTIONAL,),
)
