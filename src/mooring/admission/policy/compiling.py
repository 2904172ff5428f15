"""Compiling the expressions of policies and match conditions: `Compiled` is one that can be evaluated, or why not.

This module knows no environment, so that those who only store policies do not load Kubernetes' libraries. Read next:
``evaluation.py``.
"""

from collections.abc import Sequence

import msgspec

from mooring.cel.environment import Environment, Program
from mooring.cel.types import Type

_GO_NAMES = {
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
}
"""What cel-go calls types where the checker does not write."""
ANYTHING: tuple[str, ...] = ()


class Compiled(msgspec.Struct, frozen=True):
    """An expression that can be evaluated, or why it cannot."""

    expression: str
    program: Program
    error: str = ""


def compiled(environment: Environment, expression: str, results: Sequence[str] = ANYTHING) -> Compiled:
    """Compile an expression whose value must be of one of some types; without any, of any."""
    program = environment.compile(expression)
    if program.issues:
        if not program.issues[0].line:  # no place in the text: folding constants failed
            detail = program.issues[0].message.removeprefix("program: ")
            return Compiled(expression, program, f"program instantiation failed: {detail}")
        return Compiled(expression, program, "compilation failed: " + "\n".join(map(str, program.issues)))
    if results and str(program.output_type) not in results:
        named = [_GO_NAMES.get(each, each) for each in results]
        wanted = named[0] if len(named) == 1 else f"one of [{' '.join(named)}]"
        return Compiled(expression, program, f"must evaluate to {wanted} but got {_shown(program.output_type)}")
    return Compiled(expression, program)


def _shown(found: Type) -> str:
    name = _GO_NAMES.get(found.name, found.name)
    return f"{name}({', '.join(map(_shown, found.params))})" if found.params else name
