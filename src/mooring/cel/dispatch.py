"""Select the Python function of a checked call. Used by interpreter.py and codegen.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import operators as op
from .costs import FREE, NOMINAL, CallCost
from .errors import EvaluationError
from .library import Overload
from .syntax import Call
from .types import Type
from .values import Value, is_decided_by_class, is_of, no_such_overload


def invoker(call: Call) -> Callable[..., Value]:
    """Return the implementation if the static types determine it, otherwise a dispatcher on run-time types."""
    first, *others = call.overloads
    if others:
        return dispatcher(call.overloads)
    pairs = zip(call.operands, first.args, strict=True)
    known = all(wanted.is_dyn or not operand.type.is_dyn for operand, wanted in pairs)
    return first.impl if known else dispatcher(call.overloads)


def dispatcher(overloads: Sequence[Overload]) -> Callable[..., Value]:
    """Return a function that calls the first overload that accepts the values."""
    choices = [(each.args, each.impl) for each in overloads]

    def choose(args: Sequence[Value]) -> Callable[..., Value]:
        for wanted, impl in choices:
            if all(map(is_of, args, wanted)):
                return impl
        raise no_such_overload()

    if not all(is_decided_by_class(each) for wanted, _ in choices for each in wanted):
        return lambda *args: choose(args)(*args)
    known: dict[tuple[type, ...], Callable[..., Value]] = {}

    def invoke(*args: Value) -> Value:
        classes = tuple(map(type, args))
        impl = known.get(classes)
        if impl is None:
            impl = known[classes] = choose(args)
        return impl(*args)

    return invoke


Counter = Callable[[Sequence[Value], Value], int]
"""Compute the cost from the arguments and the result (None before the call)."""


def counter(call: Call, equality: Mapping[Type, CallCost]) -> tuple[CallCost, Counter]:
    """Return the cost of a call. If overloads with different costs are possible, it is nominal, as in cel-go."""
    first = call.overloads[0]
    cost = first.cost if all(each.cost is first.cost for each in call.overloads) else NOMINAL
    if first.uncounted:
        return FREE, FREE.count
    if call.function != op.EQUALS or not equality:
        return cost, cost.count
    special = {type_.name: each for type_, each in equality.items()}

    def count(args: Sequence[Value], result: Value) -> int:
        declared = getattr(args[0], "cel_type", None)
        choose = special.get(declared.name, cost) if isinstance(declared, Type) else cost
        return choose.count(args, result)

    return cost, count


def as_error(problem: Exception) -> EvaluationError:
    """Convert any exception of an implementation, such as a type mismatch, to an evaluation error."""
    if isinstance(problem, EvaluationError):
        return problem
    if isinstance(problem, RecursionError):
        return EvaluationError("expression nested too deeply")
    return EvaluationError(f"{type(problem).__name__}: {problem}")
