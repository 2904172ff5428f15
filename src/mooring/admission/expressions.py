"""Validate CEL expressions before they are stored (KEP-5500, and device selectors of DRA).

Called for `expression` in tolerations, `matchCELExpressions` and device selectors. A new expression is checked in the
environment of the minimum compatibility version, an unchanged one in that of stored expressions. Results are cached,
because controllers send the same few expressions repeatedly.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from mooring.api import field_errors
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

if TYPE_CHECKING:
    from mooring.cel.environment import Environment, Program

MAX_BYTES = 10 * 1024
MAX_COST = 1_000_000
NOT_INSTANTIATED = "program instantiation failed"
TOO_COMPLEX = "too complex, exceeds cost limit"
_REMEMBERED = 2048
_COST = 25
"""The validation budget charged for each character of a new expression, in the units of `field_errors.spend`."""


class ExpressionFault(StrEnum):
    """The reasons for rejecting a CEL expression: it is invalid, no program can be built, or it may cost too much."""

    INVALID = "it does not compile, or not to a boolean"
    INTERNAL = "no program can be made of it, because a constant part of it has no value"
    TOO_COMPLEX = "it may cost too much"


class ExpressionError(msgspec.Struct, frozen=True):
    """The error of a rejected CEL expression: its fault, which decides the type of the field error, and a message."""

    fault: ExpressionFault
    detail: str


ExpressionCheck = Callable[[str], ExpressionError | None]
"""A function that checks a CEL expression; it returns why the expression is rejected, or None."""


class ExpressionChecks(msgspec.Struct, frozen=True, eq=False):
    """Functions that check CEL expressions about taints, nodes and devices; stored ones may use every CEL library."""

    new_taint: ExpressionCheck
    new_node: ExpressionCheck
    stored_taint: ExpressionCheck
    stored_node: ExpressionCheck
    new_device: ExpressionCheck


def validate(expression: str, path: Path, check: ExpressionCheck) -> Errors:
    """Return an error for a CEL expression that is too long, or that `check` rejects; else none."""
    if len(expression.encode(errors="surrogatepass")) > MAX_BYTES:
        return [field_errors.too_long(path, MAX_BYTES)]
    field_errors.spend(_COST * len(expression), path)
    complaint = check(expression)
    if complaint is None:
        return []
    match complaint.fault:
        case ExpressionFault.TOO_COMPLEX:
            return [field_errors.forbidden(path, complaint.detail)]
        case ExpressionFault.INTERNAL:
            return [field_errors.internal(path, complaint.detail)]
        case ExpressionFault.INVALID:
            return [field_errors.invalid(path, expression, complaint.detail)]


def build_expression_check(
    environment: Callable[[], "Environment"], results: tuple[str, ...] = ("bool",)
) -> ExpressionCheck:
    """Return a cached function that compiles a CEL expression and returns the error, if any. The CEL environment is
    built when the function is first called; `results` are the allowed result types.
    """

    @lru_cache(maxsize=_REMEMBERED)
    def check(expression: str) -> ExpressionError | None:
        return _find_expression_error(environment().compile(expression), results)

    return check


def find_compile_problem(program: "Program", begin: str = "compilation failed: ") -> str:
    """Return why a CEL program has no value or does not compile, after the string `begin`; empty if it compiles."""
    if not program.issues:
        return ""
    if not program.issues[0].line:  # without a position: constant folding failed
        return f"{NOT_INSTANTIATED}: {program.issues[0].message.removeprefix('program: ')}"
    return begin + "\n".join(map(str, program.issues))


def _find_expression_error(program: "Program", results: tuple[str, ...]) -> ExpressionError | None:
    if program.issues:
        detail = find_compile_problem(program)
        fault = ExpressionFault.INTERNAL if detail.startswith(NOT_INSTANTIATED) else ExpressionFault.INVALID
        return ExpressionError(fault, detail)
    if str(program.output_type) not in results:
        detail = f"must evaluate to bool or the unknown type, not {program.output_type}"
        return ExpressionError(ExpressionFault.INVALID, detail)
    return ExpressionError(ExpressionFault.TOO_COMPLEX, TOO_COMPLEX) if program.max_cost > MAX_COST else None
