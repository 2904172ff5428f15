"""The cost model: the cost of a call, declared once for the estimator and for the runtime counter.

Every overload carries a `CallCost`. Its terms are formulas over the *sizes* of the arguments (`arg(0)` is the receiver
of a member function), where the size of a string is its number of characters, of a list or map its number of entries
and of everything else 1. The same formula is read in two ways:

- `estimate` evaluates it with the size ranges known at compile time and returns the range of costs; `result` returns
  the range of sizes of the result, for enclosing calls;
- `count` evaluates it with the actual sizes at run time.

For example `'a-b-c'.contains('-')` reads the text once for each character of the substring, and `split` reads its
target and builds a list that has at most as many elements as the target has characters::

    CONTAINS = CallCost(scaled(arg(0), STRING) * scaled(arg(1), STRING))
    SPLIT    = CallCost(scaled(arg(0), 2 * STRING), result=up_to(arg(0)))

For a target of at most 63 characters `SPLIT.estimate(…)` is (0, 13) with a result of 0 to 63 elements; for the actual
target `'a-b-c'` `SPLIT.count(…)` is 1. Where Kubernetes counts differently from its estimate, give both::

    JOIN = CallCost(estimator=estimate_join, counter=lambda args, result: rounded_up(2 * STRING * size_of(result)))

Costs are unsigned 64-bit numbers that saturate at their maximum, as in cel-go. Read next:
estimator.py and interpreter.py, the two readers of this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .syntax import Expr, Literal
from .types import Type
from .values import Value, size_of

MAX: Final = 2**64 - 1

IDENT: Final = 1
"""Cost of reading a variable, and of each step of selecting a field, key or index."""
LIST: Final = 10
MAP: Final = 30
STRUCT: Final = 40
STRING: Final = 0.1
"""Cost per character read."""
REGEX: Final = 0.25
"""Cost per character of a regular expression, as an estimate of its number of states."""


def saturate(number: int) -> int:
    return min(number, MAX)


def rounded_up(number: float) -> int:
    return MAX if number >= 2.0**64 else math.ceil(number)


class Range(NamedTuple):
    """A range of sizes or costs."""

    min: int
    max: int

    def plus(self, other: Range) -> Range:
        return Range(saturate(self.min + other.min), saturate(self.max + other.max))

    def times(self, other: Range) -> Range:
        return Range(saturate(self.min * other.min), saturate(self.max * other.max))

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by a factor, rounded up."""
        return Range(rounded_up(self.min * float(factor)), rounded_up(self.max * float(factor)))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


UNKNOWN: Final = Range(0, MAX)
"""An unknown size."""
ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)


def exactly(number: int) -> Range:
    return Range(number, number)


class Argument(NamedTuple):
    """An operand of a call, as custom estimators read it."""

    expr: Expr
    size: Range
    element_size: Range
    """The size of a list's items, as far as known."""

    @property
    def type(self) -> Type:
        return self.expr.type

    @property
    def is_literal(self) -> bool:
        return isinstance(self.expr, Literal)

    @property
    def literal(self) -> Value:
        """The value, if it is a literal (see `is_literal`)."""
        return self.expr.value if isinstance(self.expr, Literal) else None


class Term(msgspec.Struct, eq=False):
    """A formula over sizes; build it from `arg`, `fixed`, `scaled`, `smaller`, `up_to`, and with `+` and `*`.

    `source` is the formula as Python, with `{0}` for the size of argument 0. It is compiled on first use.
    """

    estimate: Callable[[Sequence[Range]], Range]
    source: str
    _count: Callable[[Sequence[Value]], int] | None = None

    def count(self, args: Sequence[Value]) -> int:
        """Evaluate the formula for actual arguments."""
        if self._count is None:
            sizes = [f"size_of(args[{index}])" for index in range(len(args))]
            function = f"lambda args: {self.source.format(*sizes)}"
            self._count = eval(function, {"size_of": size_of, "ceil": math.ceil})  # noqa: S307  made of the terms below
        return self._count(args)

    def __add__(self, other: Term) -> Term:
        return Term(lambda sizes: self.estimate(sizes).plus(other.estimate(sizes)), f"({self.source} + {other.source})")

    def __mul__(self, other: Term) -> Term:
        return Term(
            lambda sizes: self.estimate(sizes).times(other.estimate(sizes)), f"({self.source} * {other.source})"
        )


def arg(index: int) -> Term:
    """Return the size of an argument; the receiver of a member function is argument 0."""
    return Term(lambda sizes: sizes[index], f"{{{index}}}")


def fixed(number: int) -> Term:
    constant = exactly(number)
    return Term(lambda _: constant, str(number))


def between(least: int, most: int, counted: int | None = None) -> Term:
    """Return a size with bounds for the estimate; `counted` is the value for the counter (default: `most`)."""
    limits = Range(least, most)
    return Term(lambda _: limits, str(most if counted is None else counted))


def scaled(term: Term, factor: float) -> Term:
    """Return the range multiplied by a factor, rounded up."""
    return Term(lambda sizes: term.estimate(sizes).scaled(factor), f"ceil({term.source} * {factor!r})")


def smaller(a: Term, b: Term) -> Term:
    """Return the smaller of two sizes; the estimate ranges from 1 (if not empty) to it."""

    def estimate(sizes: Sequence[Range]) -> Range:
        most = min(a.estimate(sizes).max, b.estimate(sizes).max)
        return Range(1 if most else 0, most)

    return Term(estimate, f"min({a.source}, {b.source})")


def up_to(term: Term) -> Term:
    """Return a size between 0 and the term."""
    return Term(lambda sizes: Range(0, term.estimate(sizes).max), term.source)


class CallEstimate(NamedTuple):
    cost: Range
    result: Range | None = None
    """The size of the result; None if the type implies it or it is unknown."""


class CallCost(msgspec.Struct, eq=False):
    """The cost of a call: `cost` and `result` as terms, or custom functions.

    `counter` gets the argument values and the result (None before the call is made, an exception when it failed).
    `counts_result` says that it needs the result; otherwise the call is paid for before it is made.
    """

    cost: Term = msgspec.field(default_factory=lambda: fixed(1))
    result: Term | None = None
    estimator: Callable[[Sequence[Argument]], CallEstimate] | None = None
    counter: Callable[[Sequence[Any], Any], int] | None = None
    counts_result: bool = False

    def estimate(self, args: Sequence[Argument]) -> CallEstimate:
        if self.estimator is not None:
            return self.estimator(args)
        sizes = [each.size for each in args]
        return CallEstimate(self.cost.estimate(sizes), self.result.estimate(sizes) if self.result else None)

    @property
    def formula(self) -> str | None:
        """The source of the term (see `Term`), unless there is a counter."""
        return self.cost.source if self.counter is None else None

    @property
    def constant(self) -> int | None:
        """The cost, when it does not depend on the arguments."""
        return int(self.formula) if self.formula is not None and self.formula.isdigit() else None

    def count(self, args: Sequence[Value], result: Value) -> int:
        if self.counter is not None:
            return self.counter(args, result)
        return self.cost.count(args)


FREE: Final = CallCost(fixed(0))
NOMINAL: Final = CallCost()
"""Cost 1 regardless of the arguments, as for most calls."""
