"""Optional values: construction, access and combination.

`or` and `orValue` evaluate their argument only if there is no value. `optMap` and `optFlatMap` are macros that bind the
value to a name. The syntax (`a.?b`, `a[?i]`, `[?x]`, `{?k: v}`) is the engine's.
"""

from collections.abc import Callable, Sequence
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


def _unwrap(items: list[Optional]) -> list[Value]:
    return [item.value for item in items if item.present]


def _mapping_macro(name: str, wrap: Callable[[Expander, Expr], Expr]) -> Macro:
    """Declare `o.name(v, e)`, which is `o.hasValue() ? wrap(e with v as o.value()) : optional.none()`."""

    def expand(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
        variable = new.variable(args[0], f"{name}() variable name must be a simple identifier")
        if target is None or variable is None:
            return None
        mapped = wrap(new, new.bind(variable, new.member(new.copy(target), "value"), args[1]))
        return new.call(op.CONDITIONAL, new.member(target, "hasValue"), mapped, new.call(_NONE))

    return Macro(name, 2, receiver=True, expand=expand)


_VALUE: Final = param("T")
_OPTIONAL: Final = optional_of(_VALUE)
_LIST: Final = list_of(_VALUE)

OPTIONALS: Final = Library(
    "optionals",
    functions=(
        function(_OF, Overload("optional_of", (_VALUE,), _OPTIONAL, Optional.of)),
        function(
            "optional.ofNonZeroValue", Overload("optional_ofNonZeroValue", (_VALUE,), _OPTIONAL, of_non_zero_value)
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
        function("optional.unwrap", Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap)),
        function("unwrapOpt", Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap, member=True)),
    ),
    macros=(
        _mapping_macro("optMap", lambda new, mapped: new.call(_OF, mapped)),
        _mapping_macro("optFlatMap", lambda _, mapped: mapped),
    ),
    types=(_OPTIONAL,),
)
