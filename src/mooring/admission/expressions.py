"""What the API server says about a CEL expression before it stores it (KEP-5500, and the selectors of DRA).

Called for `expression` in tolerations, for `matchCELExpressions` and for selectors of devices. A new expression is
judged in the environment of the minimum compatibility version, one that an update leaves as it was in that of stored
expressions. Verdicts are remembered, since controllers send the same few expressions again and again.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

if TYPE_CHECKING:
    from mooring.cel.environment import Environment, Program

MAX_BYTES = 10 * 1024
MAX_COST = 1_000_000
TOO_COMPLEX = "too complex, exceeds cost limit"
_REMEMBERED = 2048
_COST = 25
"""Of a character of an expression, in the units of `field_errors.spend`: a new one takes about as many microseconds."""


class Fault(StrEnum):
    """What kind of error an expression gives."""

    INVALID = "it does not compile, or not to a boolean"
    INTERNAL = "no program can be made of it, because a constant part of it has no value"
    TOO_COMPLEX = "it may cost too much"


class Complaint(msgspec.Struct, frozen=True):
    """Why an expression is refused."""

    fault: Fault
    detail: str


Judge = Callable[[str], Complaint | None]
"""Says why an expression is refused; None if it is not."""


class Judges(msgspec.Struct, frozen=True, eq=False):
    """The judges of one component: over taints, nodes and devices, for new and for stored expressions.

    Stored expressions over devices are not judged again: where they stand nothing may change.
    """

    new_taint: Judge
    new_node: Judge
    stored_taint: Judge
    stored_node: Judge
    new_device: Judge


def validate(expression: str, path: Path, judge: Judge) -> list[FieldError]:
    """What is wrong with an expression at `path`: its length, its syntax and types, or its cost."""
    if len(expression.encode(errors="surrogatepass")) > MAX_BYTES:
        return [field_errors.too_long(path, MAX_BYTES)]
    field_errors.spend(_COST * len(expression), path)
    complaint = judge(expression)
    if complaint is None:
        return []
    match complaint.fault:
        case Fault.TOO_COMPLEX:
            return [field_errors.forbidden(path, complaint.detail)]
        case Fault.INTERNAL:
            return [field_errors.internal(path, complaint.detail)]
        case Fault.INVALID:
            return [field_errors.invalid(path, expression, complaint.detail)]


def judge_in(environment: Callable[[], "Environment"], results: tuple[str, ...] = ("bool",)) -> Judge:
    """A judge by an environment, which is made when the first expression comes: most servers never meet one.

    `results` are the types that an expression may have.
    """

    @lru_cache(maxsize=_REMEMBERED)
    def judge(expression: str) -> Complaint | None:
        return _complaint(environment().compile(expression), results)

    return judge


def _complaint(program: "Program", results: tuple[str, ...]) -> Complaint | None:
    if program.issues:
        if not program.issues[0].line:  # no place in the text: folding constants failed
            detail = program.issues[0].message.removeprefix("program: ")
            return Complaint(Fault.INTERNAL, f"program instantiation failed: {detail}")
        return Complaint(Fault.INVALID, "compilation failed: " + "\n".join(map(str, program.issues)))
    if str(program.output_type) not in results:
        detail = f"must evaluate to bool or the unknown type, not {program.output_type}"
        return Complaint(Fault.INVALID, detail)
    return Complaint(Fault.TOO_COMPLEX, TOO_COMPLEX) if program.max_cost > MAX_COST else None
