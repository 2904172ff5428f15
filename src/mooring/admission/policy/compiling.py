"""Compile expressions of policies and match conditions: `CompiledExpression` holds the program or the error.

This module imports no environment, so that code that only stores policies does not load Kubernetes' CEL libraries. Read
next: ``evaluation.py``.
"""

from collections.abc import Sequence

import msgspec

from mooring.admission.expressions import find_compile_problem
from mooring.cel.environment import Environment, Program
from mooring.cel.types import Type

_GO_NAMES = {
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
}
"""The names of CEL types in cel-go's messages, where they differ from ours."""
ANYTHING: tuple[str, ...] = ()


class CompiledExpression(msgspec.Struct, frozen=True):
    """A compiled CEL expression; `error` says why it does not compile, and is empty if it does."""

    expression: str
    program: Program
    error: str = ""


def compile_expression(
    environment: Environment, expression: str, results: Sequence[str] = ANYTHING
) -> CompiledExpression:
    """Compile a CEL expression. The result has an error if its type is not among `results`, if any are given."""
    program = environment.compile(expression)
    if program.issues:
        return CompiledExpression(expression, program, find_compile_problem(program))
    if results and str(program.output_type) not in results:
        named = [_GO_NAMES.get(each, each) for each in results]
        wanted = named[0] if len(named) == 1 else f"one of [{' '.join(named)}]"
        return CompiledExpression(
            expression, program, f"must evaluate to {wanted} but got {_format_type(program.output_type)}"
        )
    return CompiledExpression(expression, program)


def _format_type(found: Type) -> str:
    name = _GO_NAMES.get(found.name, found.name)
    return f"{name}({', '.join(map(_format_type, found.params))})" if found.params else name
