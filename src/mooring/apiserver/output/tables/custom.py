"""Table printers of custom kinds: the name, then the columns of the definition, or the age if it has none."""

import json
from typing import Any

import msgspec

from mooring.api.apiextensions_v1 import CustomResourceColumnDefinition, CustomResourceDefinitionVersion
from mooring.api.meta_v1 import TableColumnDefinition
from mooring.apiserver.output.tables.json_path import compile_path
from mooring.apiserver.output.tables.printer import NAME, Printer, age

_AGE = CustomResourceColumnDefinition(
    name="Age",
    type="date",
    description="How long ago the object was created.",
    json_path=".metadata.creationTimestamp",
)


def printer_of(version: CustomResourceDefinitionVersion) -> Printer:
    """Return the printer for a version of a custom kind."""
    columns = version.additional_printer_columns or [_AGE]
    paths = [compile_path(column.json_path) for column in columns]

    def cells(tree: dict[str, Any]) -> list[Any]:
        shown = (_cell(path(tree), column) for path, column in zip(paths, columns, strict=True))
        return [tree["metadata"]["name"], *shown]

    return Printer((NAME.definition, *map(_column, columns)), cells, read=msgspec.json.decode)


def _column(column: CustomResourceColumnDefinition) -> TableColumnDefinition:
    about = column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return TableColumnDefinition(
        name=column.name, type=column.type, format=column.format, description=about, priority=column.priority
    )


def _cell(values: list[Any], column: CustomResourceColumnDefinition) -> Any:
    """Return the first value in the format of the column's type; for a string column, all values."""
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
