"""Replay CEL expressions recorded from Kubernetes: types, results and costs.

A file holds the inputs for each environment (`taint`, `node`) and cases. A case names its environment and expression,
and then either the error that compiling it gives, or its type, the estimated cost, and for each input the result (or
that there is an error) and the cost counted. Of a compile error the position and the kind must match; the wording is
ours. Where a number is not recorded, it is not compared.

Go iterates over maps in random order, and each expression was recorded once. The cost of a loop that ends early depends
on that order: it is enough that ours is equal in some order.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from mooring.base.version import Version
from mooring.cel.environment import Environment, Program
from mooring.cel.errors import EvaluationError, Issue
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT
from mooring.testing.replay import Result, read_json, report_wrong_form

_ENVIRONMENTS = {each.variable: each for each in (TAINT, NODE)}
_ORDERS = 1000
"""The number of map orders that are tried."""
_POSITION = re.compile(r"ERROR: <input>:(\d+):(\d+): ")
_KINDS = (
    "Syntax error",
    "reserved identifier",
    "undeclared reference",
    "found no matching overload",
    "undefined field",
    "does not support field selection",
    "expected type",
    "invalid",
)
"""Kinds of errors by their texts; the first that occurs in a message is its kind."""


def replay(file: Path) -> Result:
    """Replay one file."""
    recorded = read_json(file, dict, "an object of recorded expressions")
    result = Result()
    with report_wrong_form(file):
        version = Version.parse(recorded.get("version", "1.37"))
        environments = {name: each.new_expressions(version) for name, each in _ENVIRONMENTS.items()}
        for number, case in enumerate(recorded["cases"]):
            name = case["env"]
            problems = _problems(environments[name], name, case, recorded["inputs"][name])
            result.count(f"{file.name} case {number} ({name}) {case['expr']!r}", next(problems, None))
    return result


def _problems(environment: Environment, variable: str, case: dict[str, Any], inputs: list[Any]) -> Iterator[str]:
    program = environment.compile(case["expr"])
    if "compileError" in case:
        yield from _compile_problems(program, case["compileError"])
        return
    if program.issues:
        yield f"does not compile: {_first_line(program.issues[0])}"
        return
    if str(program.output_type) != case["outputType"]:
        yield f"is of type {program.output_type}, recorded {case['outputType']}"
    if "maxCost" in case and program.max_cost != int(case["maxCost"]):
        yield f"is estimated to cost {program.max_cost}, recorded {case['maxCost']}"
    for index, (value, expected) in enumerate(zip(inputs, case["evals"], strict=True)):
        yield from (f"on input {index} {problem}" for problem in _eval_problems(program, {variable: value}, expected))


def _compile_problems(program: Program, recorded: str) -> Iterator[str]:
    if not program.issues:
        yield f"compiles, recorded {recorded.splitlines()[0]}"
        return
    ours = program.issues[0]
    if _parse_error(str(ours)) != _parse_error(recorded):
        yield f"gives {_first_line(ours)!r}, recorded {recorded.splitlines()[0]!r}"


def _parse_error(text: str) -> tuple[str, str, str]:
    """Return line, column and kind of an error."""
    if text.startswith("program: "):
        return "", "", "program"
    found = _POSITION.match(text)
    line, column = found.groups() if found else ("", "")
    return line, column, next((kind for kind in _KINDS if kind in text), text)


def _first_line(issue: Issue) -> str:
    return str(issue).splitlines()[0]


def _eval_problems(program: Program, bindings: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    try:
        value, cost = program.evaluate_counted(bindings, limit=COST_LIMIT)
    except EvaluationError as error:
        if "error" not in expected:
            yield f"fails with {error.message!r}, recorded {expected['result']}"
        return
    if not isinstance(value, bool):
        # Kubernetes accepts no other result, so the recording has an error here.
        if "error" not in expected:
            yield f"gives {value!r}, recorded {expected['result']}"
        return
    if "error" in expected:
        yield f"gives {value}, recorded the error {expected['error']!r}"
    elif value is not expected["result"]:
        yield f"gives {value}, recorded {expected['result']}"
    elif "cost" in expected and cost != expected["cost"] and expected["cost"] not in _other_costs(program, bindings):
        yield f"costs {cost}, recorded {expected['cost']}"


def _other_costs(program: Program, bindings: dict[str, Any]) -> Iterator[int]:
    """Return the costs of an evaluation with map entries in other orders."""
    chance = Random(0)  # noqa: S311 - the same orders each time
    shuffled = _shuffle(bindings, chance)
    for _ in range(_ORDERS):
        yield program.evaluate_counted(shuffled, limit=COST_LIMIT).cost


def _shuffle(value: Any, chance: Random) -> Any:
    if not isinstance(value, dict):
        return value
    return _AnyOrder({key: _shuffle(item, chance) for key, item in value.items()}, chance)


class _AnyOrder(dict[str, Any]):
    """A map with a different iteration order each time, as in Go."""

    def __init__(self, entries: dict[str, Any], chance: Random) -> None:
        super().__init__(entries)
        self._chance = chance

    def __iter__(self) -> Iterator[str]:
        return iter(self._chance.sample(list(super().keys()), len(self)))

    def items(self) -> Any:
        return [(key, self[key]) for key in self]
