"""From a checked call to the Python function that does it. Used by interpreter.py and codegen.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import EvaluationError
from .library import Overload
from .syntax import Call
from .values import Value, is_of, no_such_overload


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

    def invoke(*args: Value) -> Value:
        for wanted, impl in choices:
            if all(map(is_of, args, wanted)):
                return impl(*args)
        raise no_such_overload()

    return invoke


def as_error(problem: Exception) -> EvaluationError:
    """Whatever an implementation trips over, e.g. a value of another type than was declared, is an evaluation error."""
    if isinstance(problem, EvaluationError):
        return problem
    if isinstance(problem, RecursionError):
        return EvaluationError("expression nested too deeply")
    return EvaluationError(f"{type(problem).__name__}: {problem}")
