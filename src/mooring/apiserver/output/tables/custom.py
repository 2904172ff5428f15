"""Table printers of custom kinds: the name, then the columns of the definition, or the age if it has none.

Columns have JSONPaths, such as `.status.conditions[?(@.type=="Ready")].status`. Supported is the part of kubectl's
JSONPath that columns use: fields, indices, slices, `*`, quoted names and comparisons in filters. Malformed paths find
nothing.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api.apiextensions_v1 import CustomResourceColumnDefinition, CustomResourceDefinitionVersion
from mooring.api.meta_v1 import TableColumnDefinition
from mooring.apiserver.output.tables.printer import NAME, Printer, age

_STEP = re.compile(
    r"""
    \.(?P<field>(?:[^.\[\]\\]|\\.)+)               # .name, with dots escaped
    | \[\s*(?P<index>-?\d+)\s*\]                   # [0]
    | \[\s*(?P<slice>-?\d*:-?\d*)\s*\]             # [1:3]
    | \[\s*(?P<all>\*)\s*\]                        # [*]
    | \[\s*(?P<quote>['"])(?P<name>.*?)(?P=quote)\s*\]
    | \[\s*\?\(\s*@(?P<path>[^=!<>\s)]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+))?\s*\)\s*\]
    """,
    re.VERBOSE,
)
Step = Callable[[Any], Iterable[Any]]
_LIMIT = 1000
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_AGE = CustomResourceColumnDefinition(
    name="Age",
    type="date",
    description="How long ago the object was created.",
    json_path=".metadata.creationTimestamp",
)


def make_printer(version: CustomResourceDefinitionVersion) -> Printer:
    """Return the printer that a custom kind's version declares by its `additionalPrinterColumns`."""
    columns = version.additional_printer_columns or [_AGE]
    paths = [compile_path(column.json_path) for column in columns]

    def cells(tree: dict[str, Any]) -> list[Any]:
        shown = (_format_cell(path(tree), column) for path, column in zip(paths, columns, strict=True))
        return [tree["metadata"]["name"], *shown]

    return Printer((NAME.definition, *map(_make_column, columns)), cells, read=msgspec.json.decode)


def _make_column(column: CustomResourceColumnDefinition) -> TableColumnDefinition:
    about = column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return TableColumnDefinition(
        name=column.name, type=column.type, format=column.format, description=about, priority=column.priority
    )


def _format_cell(values: list[Any], column: CustomResourceColumnDefinition) -> Any:
    """Return a cell: the first found value, formatted by the column's type; in a string column, all values."""
    if not values or values[0] is None:
        return None
    value = values[0]
    match column.type:
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value) if isinstance(value, str) else "<unknown>"
    return ",".join(map(_format_value, values)) if len(values) > 1 else _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# -- JSONPath


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """Return a function that finds all values at a JSONPath in an object; a malformed path finds none."""
    steps = _parse_steps(text)

    def find(tree: Any) -> list[Any]:
        if steps is None:
            return []
        values = [tree]
        for step in steps:
            values = [found for value in values for found in step(value)][:_LIMIT]
        return values

    return find


def _parse_steps(text: str) -> list[Step] | None:
    steps: list[Step] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            return None if text != "." else []
        steps.append(_compile_step(match))
        place = match.end()
    return steps


def _compile_step(match: re.Match[str]) -> Step:
    found = match.groupdict()
    if found["field"] is not None:
        name = found["field"].replace("\\", "")
        return _all_values if name == "*" else lambda value: _field_values(value, name)
    if found["name"] is not None:
        quoted = found["name"]
        return lambda value: _field_values(value, quoted)
    if found["all"]:
        return _all_values
    if found["index"] is not None:
        index = int(found["index"])
        return lambda value: _list_items(value, slice(index, index + 1 or None))
    if found["slice"] is not None:
        begin, _, end = found["slice"].partition(":")
        part = slice(int(begin) if begin else None, int(end) if end else None)
        return lambda value: _list_items(value, part)
    return _compile_filter(found["path"], found["op"], found["value"])


def _compile_filter(path: str, operator: str | None, literal: str | None) -> Step:
    inner = compile_path(path)
    wanted = _parse_literal(literal) if literal is not None else None

    def passes_filter(item: Any) -> bool:
        found = inner(item)
        if operator is None:
            return bool(found)
        try:
            return bool(found) and _OPERATORS[operator](found[0], wanted)
        except TypeError:
            return False

    return lambda value: [item for item in value if passes_filter(item)] if isinstance(value, list) else []


def _parse_literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _field_values(value: Any, name: str) -> list[Any]:
    return [value[name]] if isinstance(value, dict) and name in value else []


def _list_items(value: Any, part: slice) -> list[Any]:
    return value[part] if isinstance(value, list) else []


def _all_values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
