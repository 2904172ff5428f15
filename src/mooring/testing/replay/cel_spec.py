"""Replay the CEL project's own tests of the language and of the extension libraries.

A file is a list of tests: an expression with declarations, bindings and a container, and what is expected: a value, a
type, or an error. Values are tagged (`{"int": "5"}`, `{"map": [[key, value], …]}`). Everything runs in one environment
that has every library.
"""

import base64
import json
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from mooring.cel import types
from mooring.cel.environment import Environment, Program
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.bindings import BINDINGS
from mooring.cel.ext.comprehensions import TWO_VARIABLES
from mooring.cel.ext.encoders import ENCODERS
from mooring.cel.ext.lists import lists
from mooring.cel.ext.math import MATH
from mooring.cel.ext.network import NETWORK
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.ext.sets import SETS
from mooring.cel.ext.strings import strings
from mooring.cel.library import Function, Library, Overload
from mooring.cel.standard import STANDARD
from mooring.cel.types import Type
from mooring.cel.values import TypeValue, UInt, from_key, map_of_pairs, runtime_type
from mooring.testing.replay import Result, read_json, report_wrong_form

LIBRARIES = (
    STANDARD,
    OPTIONALS,
    TWO_VARIABLES,
    strings(),
    lists(),
    SETS,
    MATH,
    BINDINGS,
    ENCODERS,
    *NETWORK,
)
_SCALARS = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null_type": types.NULL,
    "dyn": types.DYN,
    "type": types.TYPE,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "google.protobuf.Duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
}
_LEFT_OUT = {
    (
        "bytes_literals",
        f"triple_{quotes}_quoted_unescaped_punctuation",
    ): "expects a backslash that is not in the expression"
    for quotes in ("single", "double")
}
"""Tests that contradict the specification, by section and name."""


def replay(file: Path) -> Result:
    """Replay one file."""
    result = Result()
    with report_wrong_form(file):
        for test in read_json(file, list, "a list of CEL tests"):
            name = f"{file.name} {test['section']}/{test['name']} {test['expr']!r}"
            reason = _LEFT_OUT.get((test["section"], test["name"]))
            if "unknown" in test["expect"]:
                reason = "the engine has no unknown values"
            if reason:
                result.left_out.append(f"{name}: {reason}")
            else:
                result.count(name, _problem(test))
    return result


def _problem(test: dict[str, Any]) -> str | None:
    """Return the difference from the expectation, or None."""
    expect = test["expect"]
    program = _environment(json.dumps(test.get("declarations", [])), test.get("container", "")).compile(
        test["expr"], check_types=not test.get("disableCheck", False)
    )
    if program.issues:
        return None if "error" in expect else f"does not compile: {str(program.issues[0]).splitlines()[0]}"
    if "type" in expect and program.output_type != read_type(expect["type"]):
        return f"is of type {program.output_type}, expected {expect['type']}"
    if test.get("checkOnly"):
        return None
    return _evaluation_problem(program, test, expect)


def _evaluation_problem(program: Program, test: dict[str, Any], expect: dict[str, Any]) -> str | None:
    bindings = {name: read_value(value) for name, value in test.get("bindings", {}).items()}
    try:
        value = program.evaluate(bindings)
    except EvaluationError as error:
        return None if "error" in expect else f"fails with {error.message!r}, expected {expect.get('value')}"
    if "error" in expect:
        return f"gives {value!r}, expected an error"
    if "value" in expect and not same(value, read_value(expect["value"])):
        return f"gives {value!r}, expected {expect['value']}"
    return None


@lru_cache(maxsize=256)
def _environment(declarations: str, container: str) -> Environment:
    variables = {}
    functions = []
    for each in json.loads(declarations):
        if "variable" in each:
            variables[each["variable"]] = read_type(each["type"])
        else:
            functions.append(Function(each["function"], tuple(map(_overload, each["overloads"]))))
    declared = Library("declared", functions=tuple(functions))
    return Environment(variables=variables, libraries=(*LIBRARIES, declared), container=container, optimize=False)


def _overload(declared: dict[str, Any]) -> Overload:
    def missing(*_args: object) -> object:
        raise EvaluationError(f"{declared['id']} is declared without an implementation")

    args = tuple(map(read_type, declared["args"]))
    return Overload(declared["id"], args, read_type(declared["result"]), missing, member=declared["member"])


def read_type(text: str) -> Type:
    """Parse a type such as `map(string, list(T))`; a single capital letter is a type parameter."""
    name, bracket, inner = text.partition("(")
    if not bracket:
        return _SCALARS[name] if name in _SCALARS else types.param(name) if len(name) == 1 else types.opaque(name)
    params = [read_type(part) for part in _split(inner.removesuffix(")"))]
    builders: dict[str, Callable[..., Type]] = {
        "list": types.list_of,
        "map": types.map_of,
        "optional_type": types.optional_of,
        "type": types.type_of,
    }
    return builders[name](*params) if name in builders else types.opaque(name, *params)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def read_value(tagged: dict[str, Any]) -> Any:
    """Decode a tagged value."""
    ((tag, value),) = tagged.items()
    readers: dict[str, Callable[[Any], Any]] = {
        "null": lambda _: None,
        "bool": bool,
        "int": int,
        "uint": lambda text: UInt(int(text)),
        "double": float,
        "string": str,
        "bytes": base64.b64decode,
        "type": TypeValue,
        "list": lambda items: [read_value(item) for item in items],
        "map": lambda pairs: map_of_pairs([(read_value(key), read_value(item)) for key, item in pairs]),
    }
    return readers[tag](value)


def same(ours: Any, expected: Any) -> bool:
    """Return whether two values are equal and of the same types at every level; NaN equals NaN."""
    if runtime_type(ours) != runtime_type(expected):
        return False
    if isinstance(expected, float):
        return ours == expected or (math.isnan(ours) and math.isnan(expected))
    if isinstance(expected, list):
        return len(ours) == len(expected) and all(map(same, ours, expected))
    if isinstance(expected, dict):
        return len(ours) == len(expected) and all(
            any(same(from_key(key), from_key(other)) and same(value, item) for other, item in expected.items())
            for key, value in ours.items()
        )
    return bool(ours == expected)
