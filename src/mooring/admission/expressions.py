"""What the API server says about a CEL expression before it stores it (KEP-5500).

Called for `expression` in tolerations and for `matchCELExpressions`. A new expression is judged in the environment of
the minimum compatibility version, one that an update leaves as it was in the environment of stored expressions. The
compiled programs, and the causes for which one was refused, are remembered, since controllers send the same few again
and again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.base.version import Version

MAX_BYTES = 10 * 1024
MAX_COST = 1_000_000
_REMEMBERED = 2048
TOO_COMPLEX = "too complex, exceeds cost limit"

Judge = Callable[[str], str | None]
"""Says what is wrong with an expression: None if nothing, `TOO_COMPLEX`, or why it cannot be compiled."""


@dataclass(frozen=True, slots=True, eq=False)
class Judges:
    """The judges of one component: over taints and over nodes, for new and for stored expressions."""

    new_taint: Judge
    new_node: Judge
    stored_taint: Judge
    stored_node: Judge


@lru_cache(maxsize=8)
def judges_for(min_compatibility: Version) -> Judges:
    """The judges of a component with this minimum compatibility version."""
    return Judges(
        new_taint=_judge("TAINT", min_compatibility),
        new_node=_judge("NODE", min_compatibility),
        stored_taint=_judge("TAINT", None),
        stored_node=_judge("NODE", None),
    )


def _judge(subject: str, version: Version | None) -> Judge:
    @lru_cache(maxsize=_REMEMBERED)
    def judge(expression: str) -> str | None:
        # Imported here because most servers and most runs of lint never meet an expression.
        from mooring.constraints.celenv import environments  # noqa: PLC0415 - see above

        family = getattr(environments, subject)
        environment = family.stored_expressions() if version is None else family.new_expressions(version)
        return _verdict(environment.compile(expression))

    return judge


def _verdict(program: Any) -> str | None:
    if program.issues:
        return "compilation failed: " + "\n".join(map(str, program.issues))
    if str(program.output_type) != "bool":
        return f"must evaluate to bool or the unknown type, not {program.output_type}"
    return TOO_COMPLEX if program.max_cost > MAX_COST else None


def validate(expression: str, path: Path, judge: Judge) -> list[FieldError]:
    """What is wrong with an expression at `path`: its length, its syntax and types, or its cost."""
    if len(expression.encode(errors="surrogatepass")) > MAX_BYTES:
        return [field_errors.too_long(path, MAX_BYTES)]
    verdict = judge(expression)
    if verdict is None:
        return []
    if verdict == TOO_COMPLEX:
        return [field_errors.forbidden(path, TOO_COMPLEX)]
    return [field_errors.invalid(path, expression, verdict)]
