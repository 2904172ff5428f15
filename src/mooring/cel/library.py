"""The building blocks of function libraries; `cel/standard.py` and `cel/ext/` are libraries, and users can add more.

A complete one, with a member function, a constant and a cost::

    GREET = Library(
        "greet",
        functions=(
            Function("shout", (
                Overload("string_shout", (STRING,), STRING, lambda text: text.upper() + "!", member=True,
                         cost=CallCost(scaled(arg(0), STRING_COST), result=arg(0) + fixed(1))),
            )),
        ),
        constants={"greet.DEFAULT": Constant(STRING, "hello")},
    )
    Environment(libraries=[STANDARD, GREET])

Macros rewrite a call while it is parsed. They get the call's target and arguments and build new nodes with the
`Expander` (see macros.py for the standard ones)::

    def expand_never(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
        return new.literal(False)

    Macro("never", args=1, receiver=False, expand=expand_never)

Returning None leaves the call as it is; `new.error(where, text)` reports an issue.
Read next: environment.py, which puts libraries together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from .costs import NOMINAL, CallCost
from .types import ObjectType, Type
from .values import Value

if TYPE_CHECKING:
    from .macros import Expander
    from .syntax import Expr
    from .validators import Validator

Implementation = Callable[..., Any]


class Overload(NamedTuple):
    """One signature of a function.

    `impl` takes Python values of the declared types (see values.py) and returns one; it raises `EvaluationError` if
    there is no result. For a member function (`x.f(y)`) the receiver is the first of `args`.
    """

    id: str
    args: tuple[Type, ...]
    result: Type
    impl: Implementation
    member: bool = False
    cost: CallCost = NOMINAL
    inline: str | None = None
    """Python source that is faster than a call, e.g. `"({1} in {0})"`; each argument appears at most once."""
    lazy: bool = False
    """Pass the last argument as a function without arguments, to be called only if its value is needed."""
    pattern: int | None = None
    """The index of a regular-expression argument; if constant, it is compiled with the program."""
    uncounted: bool = False
    """cel-go evaluates these without a call, so the runtime counter does not charge them (the estimator does)."""


class Function(NamedTuple):
    """A function's name with all its overloads. The same name in another library adds overloads to it."""

    name: str
    overloads: tuple[Overload, ...]


def function(name: str, *overloads: Overload) -> Function:
    """Declare a function with its overloads."""
    return Function(name, overloads)


class Constant(NamedTuple):
    """A named value, such as an enum's."""

    type: Type
    value: Value


class Macro(NamedTuple):
    """A call that the parser rewrites. `args` is the number of arguments, None for any number."""

    name: str
    args: int | None
    receiver: bool
    expand: Callable[[Expander, Expr | None, Sequence[Expr]], Expr | None]


class Library(NamedTuple):
    """Functions, macros, constants, types and validators that an environment may switch on together."""

    name: str
    functions: tuple[Function, ...] = ()
    macros: tuple[Macro, ...] = ()
    constants: Mapping[str, Constant] = MappingProxyType({})
    types: tuple[ObjectType | Type, ...] = ()
    """Object types, and opaque types whose names may be written in expressions (`type(x) == net.IP`)."""
    validators: tuple[Validator, ...] = ()
    equality: Mapping[Type, CallCost] = MappingProxyType({})
    """The cost of `==` between two values of a type, if it differs from comparing their sizes."""
