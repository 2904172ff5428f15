"""From a checked call to the Python function that does it. Used by interpreter.py and codegen.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import operators as op
from .costs import FREE, NOMINAL, CallCost
from .errors import EvaluationError
from .library import Overload
from .syntax import Call
from .types import Type
from .values import Value, is_of, no_such_overload, told_by_class


def invoker(call: Call) -> Callable[..., Value]:
    """The implementation itself when the types are known, otherwise one that looks at the types of the values."""
    first, *others = call.overloads
    if others:
        return dispatcher(call.overloads)
    pairs = zip(call.operands, first.args, strict=True)
    known = all(wanted.is_dyn or not operand.type.is_dyn for operand, wanted in pairs)
    return first.impl if known else dispatcher(call.overloads)


def dispatcher(overloads: Sequence[Overload]) -> Callable[..., Value]:
    """Calls the first overload that takes the values."""
    choices = [(each.args, each.impl) for each in overloads]

    def chosen(args: Sequence[Value]) -> Callable[..., Value]:
        for wanted, impl in choices:
            if all(map(is_of, args, wanted)):
                return impl
        raise no_such_overload()

    if not all(told_by_class(each) for wanted, _ in choices for each in wanted):
        return lambda *args: chosen(args)(*args)
    known: dict[tuple[type, ...], Callable[..., Value]] = {}

    def invoke(*args: Value) -> Value:
        classes = tuple(map(type, args))
        impl = known.get(classes)
        if impl is None:
            impl = known[classes] = chosen(args)
        return impl(*args)

    return invoke


Counter = Callable[[Sequence[Value], Value], int]
"""From the arguments and the result (None before the call) to the cost."""


def counter(call: Call, equality: Mapping[Type, CallCost]) -> tuple[CallCost, Counter]:
    """What the call costs. Where several overloads may be called and cost differently, cel-go knows none of them."""
    first = call.overloads[0]
    cost = first.cost if all(each.cost is first.cost for each in call.overloads) else NOMINAL
    if first.uncounted:
        return FREE, FREE.count
    if call.function != op.EQUALS or not equality:
        return cost, cost.count
    special = {type_.name: each for type_, each in equality.items()}

    def count(args: Sequence[Value], result: Value) -> int:
        declared = getattr(args[0], "cel_type", None)
        chosen = special.get(declared.name, cost) if isinstance(declared, Type) else cost
        return chosen.count(args, result)

    return cost, count


def as_error(problem: Exception) -> EvaluationError:
    """Whatever an implementation trips over, e.g. a value of another type than was declared, is an evaluation error."""
    if isinstance(problem, EvaluationError):
        return problem
    if isinstance(problem, RecursionError):
        return EvaluationError("expression nested too deeply")
    return EvaluationError(f"{type(problem).__name__}: {problem}")
