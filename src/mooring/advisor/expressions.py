"""Evaluate a CEL expression on a cluster: whether the server would accept it, its cost, and where it is true or why
not.

`mooring cel` and the dashboard call this. Nodes with equal labels are evaluated once. Read next:
``mooring.cel.tracing``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mooring.advisor.node_facts import format_taint
from mooring.api.core_v1 import Node, Taint
from mooring.cel.environment import Program
from mooring.cel.errors import EvaluationError
from mooring.cel.tracing import trace
from mooring.cel.types import BOOL
from mooring.cel.values import Timestamp
from mooring.constraints.celenv import COST_LIMIT
from mooring.constraints.expressions import parse_time_added


class ExpressionOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One result of a CEL expression (true, or why not) and the nodes or taints for which it has this result."""

    matches: bool
    why: str
    """Why it is not true; empty if it is."""
    cost: int | None
    """The actual cost of the evaluation; None if it failed."""
    count: int
    names: list[str]


def find_objections(program: Program) -> Iterator[str]:
    """Yield the reasons why the API server would reject a CEL expression that compiles: its type, its cost."""
    if program.output_type != BOOL:
        yield f"must evaluate to bool, not {program.output_type}"
    if program.max_cost > COST_LIMIT:
        yield f"the estimated cost {program.max_cost} exceeds the limit of {COST_LIMIT}"


def evaluate_on_nodes(program: Program, nodes: Iterable[Node]) -> list[ExpressionOutcome]:
    """Evaluate a CEL expression on `node` for all nodes; return each different outcome with its nodes."""
    inputs = ((node.metadata.name, {"labels": node.metadata.labels}) for node in nodes)
    return _group_outcomes(program, "node", inputs, _read_keys(program))


def evaluate_on_taints(program: Program, nodes: Iterable[Node]) -> list[ExpressionOutcome]:
    """Evaluate a CEL expression on `taint` for all taints of nodes; return each different outcome with its taints."""
    inputs = (
        (f"{node.metadata.name} {format_taint(taint)}", taint_variable(taint))
        for node in nodes
        for taint in node.spec.taints
    )
    return _group_outcomes(program, "taint", inputs, None)


def taint_variable(taint: Taint) -> dict[str, Any]:
    """Return the value of the CEL variable `taint` for a taint."""
    values: dict[str, Any] = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    added = parse_time_added(taint)
    return values if added is None else {**values, "timeAdded": Timestamp.from_datetime(added)}


def _read_keys(program: Program) -> frozenset[str] | None:
    """Return the keys of the node labels that an expression reads; None if it may read any."""
    found: frozenset[str] = frozenset()
    for path, keys in program.reads.items():
        if path != ("node", "labels") or keys is None:
            return None
        found |= keys
    return found


def _group_outcomes(
    program: Program, variable: str, inputs: Iterable[tuple[str, Mapping[str, Any]]], keys: frozenset[str] | None
) -> list[ExpressionOutcome]:
    by_input: dict[object, tuple[Mapping[str, Any], list[str]]] = {}
    for name, value in inputs:
        given = value["labels"] if variable == "node" else value
        seen = tuple(sorted((str(k), str(v)) for k, v in given.items() if keys is None or k in keys))
        by_input.setdefault(seen, (value, []))[1].append(name)
    grouped: dict[tuple[bool, str, int | None], list[str]] = {}
    for value, names in by_input.values():
        grouped.setdefault(_evaluate(program, {variable: value}), []).extend(names)
    made = [
        ExpressionOutcome(matches=matches, why=why, cost=cost, count=len(names), names=names)
        for (matches, why, cost), names in grouped.items()
    ]
    return sorted(made, key=lambda each: (not each.matches, -each.count, each.why))


def _evaluate(program: Program, bindings: dict[str, Any]) -> tuple[bool, str, int | None]:
    try:
        value, cost = program.evaluate_counted(bindings, limit=COST_LIMIT)
    except EvaluationError as error:
        return False, f"it fails: {error.message}", None
    if value is True:
        return True, "", cost
    return False, " and ".join(map(str, trace(program, bindings))) or f"it is {value!r}", cost
