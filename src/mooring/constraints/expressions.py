"""Evaluate CEL over a taint (a toleration's `expression`) or over a node's labels (`matchCELExpressions`).

Used by `tolerations`, `node_selector` and `columns`. Compiled programs are kept in two caches, one per use. An
expression that does not compile, fails, exceeds the cost limit or returns no boolean does not match, and is logged once
per cause. Admission decides which expressions may be written: here every expression counts as stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mooring.api import times
from mooring.api.core_v1 import Taint
from mooring.base import logs
from mooring.cel.cache import ProgramCache
from mooring.cel.environment import Program
from mooring.cel.errors import CelError, CompileError
from mooring.cel.values import Timestamp
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT

log = logs.get(__name__)
T = TypeVar("T")

CACHE_SIZE: Final = 1024
_LABELS: Final = ("node", "labels")
_ESTIMATED_LABELS: Final = NODE.sizes[_LABELS]


class Dated(Protocol):
    """A taint of a node or of a device, with the time when it was added."""

    time_added: str | None


def parse_time_added(taint: Dated) -> datetime | None:
    """Parse `timeAdded`; return None if it is missing or malformed."""
    try:
        return times.parse(taint.time_added or "")
    except times.TimeError:
        return None


@dataclass(frozen=True, slots=True)
class NodeExpression:
    """A compiled expression over a node's labels. Two are equal if their sources are."""

    expression: str
    reads: tuple[str, ...] | None = field(compare=False)
    """The label keys that the expression reads; None if it may read all labels."""
    _program: Program = field(compare=False, repr=False)

    def matches(self, labels: Mapping[str, str]) -> bool:
        # The cost estimate assumes at most this many labels; with more, the cost is counted during evaluation.
        counted = self._program.max_cost > COST_LIMIT or len(labels) > _ESTIMATED_LABELS
        return _is_true(self._program, {"node": {"labels": labels}}, counted, "CEL runtime error")


class TaintExpression(msgspec.Struct, frozen=True):
    """A compiled expression over a taint."""

    reads_time_added: bool
    _program: Program

    def matches(self, taint: Taint) -> bool:
        values: dict[str, Any] = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        added = parse_time_added(taint) if self.reads_time_added else None
        if added is not None:
            values["timeAdded"] = Timestamp.from_datetime(added)
        return _is_true(self._program, {"taint": values}, self._program.max_cost > COST_LIMIT, "CEL Runtime error")


def compile_node_expression(expression: str) -> NodeExpression | None:
    """Compile an expression; return None if it is invalid."""
    return _get_or_log(node_expressions, expression, "Failed to compile CEL expression")


def matches_taint(expression: str, taint: Taint) -> bool:
    found = _get_or_log(taint_expressions, expression, "failed to compile CEL expression")
    return found is not None and found.matches(taint)


def reads_time_added(expression: str) -> bool:
    """Whether the expression reads `taint.timeAdded`."""
    found = _get_or_log(taint_expressions, expression, "failed to compile CEL expression")
    return found is not None and found.reads_time_added


def _compile_for_node(expression: str) -> NodeExpression:
    program = _require_valid(NODE.stored_expressions().compile(expression))
    keys: frozenset[str] | None = frozenset()
    for path, read in program.reads.items():
        if path == _LABELS and read is not None and keys is not None:
            keys |= read
        elif path[0] == "node":
            keys = None
    return NodeExpression(expression, None if keys is None else tuple(sorted(keys)), program)


def _compile_for_taint(expression: str) -> TaintExpression:
    program = _require_valid(TAINT.stored_expressions().compile(expression))
    return TaintExpression(("taint",) in program.reads or ("taint", "timeAdded") in program.reads, program)


def _require_valid(program: Program) -> Program:
    if program.issues:
        raise CompileError(program.issues)
    return program


node_expressions: Final = ProgramCache(_compile_for_node, CACHE_SIZE)
taint_expressions: Final = ProgramCache(_compile_for_taint, CACHE_SIZE)


def _get_or_log(cache: ProgramCache[T], expression: str, complaint: str) -> T | None:
    try:
        return cache.get(expression)
    except CelError as error:
        _log_once(complaint, expression, error)
        return None


def _is_true(program: Program, bindings: Mapping[str, Any], counted: bool, complaint: str) -> bool:
    try:
        if counted:
            return program.evaluate_counted(bindings, COST_LIMIT).value is True
        return program.evaluate(bindings) is True
    except CelError as error:
        _log_once(complaint, program.expression, error)
        return False


def _log_once(message: str, expression: str, error: CelError) -> None:
    cause = str(error)
    if logs.once(("cel", message, expression, cause)):
        log.error(message, extra={"fields": {"expression": expression, "error": cause}})
