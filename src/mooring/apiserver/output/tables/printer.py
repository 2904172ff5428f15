"""Declare the tables of kinds: a `Printer` has the columns of a kind and the functions that compute its cells.

    printer(NAME, text("Type", "spec.type"), number("Data", lambda secret: len(secret.data)), AGE)

Cells equal those of kubectl's tables with Kubernetes. The other modules of this package declare printers;
``__init__.py`` collects them.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from mooring.api.label_selector import SelectorError, from_label_selector
from mooring.api.meta_v1 import LabelSelector, TableColumnDefinition, TableRowCondition
from mooring.apiserver.output.tables.row import Ago, Times

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
Cell = str | Callable[[Any], Any]
"""The path of a field in an object, or a function that computes a cell from the object."""


class Column(msgspec.Struct, frozen=True):
    """A Table column's definition, and the function that returns an object's cell."""

    definition: TableColumnDefinition
    cell: Callable[[Any], Any]


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind's Table; `cells` returns the values of an object's row."""

    columns: tuple[TableColumnDefinition, ...]
    cells: Callable[[Any], list[Any]]
    conditions: Callable[[Any], list[TableRowCondition]] | None = None
    read: Callable[[bytes], Any] | None = None
    """A function that decodes the argument of `cells`; None if that is an object of the kind's type."""
    write: Callable[[bytes], tuple[bytes, Times, int]] | None = None
    """A function that renders a row directly from an object's JSON: the row, its times, and where the metadata ends."""


def printer(*columns: Column) -> Printer:
    """Return a printer with the given columns."""
    cells = [column.cell for column in columns]
    return Printer(tuple(column.definition for column in columns), lambda obj: [cell(obj) for cell in cells])


def text(name: str, cell: Cell, empty: str | None = None) -> Column:
    """Return a string column for an attribute path or a function; empty values are shown as `empty`."""
    return Column(define(name), _make_cell_reader(cell, empty))


def wide(name: str, cell: Cell, empty: str | None = None) -> Column:
    """Return a string column that is shown only with `kubectl get -o wide`."""
    return Column(define(name, priority=1), _make_cell_reader(cell, empty))


def number(name: str, cell: Cell) -> Column:
    """Return an integer column, for a field path or a function of the object."""
    return Column(define(name, "integer"), _make_cell_reader(cell, None))


def boolean(name: str, cell: Cell) -> Column:
    """Return a boolean column, for a field path or a function of the object."""
    return Column(define(name, "boolean"), _make_cell_reader(cell, None))


def date(name: str, cell: Cell) -> Column:
    """Return a column of times, which kubectl shows as ages."""
    return Column(define(name, "date"), _make_cell_reader(cell, None))


def define(name: str, kind: str = "string", *, priority: int = 0) -> TableColumnDefinition:
    """Return a column's definition as sent to clients: name, type, description, priority."""
    form, about = "name" if name == "Name" else "", _DESCRIPTIONS.get(name, f"{name} of the object.")
    return TableColumnDefinition(name=name, type=kind, format=form, description=about, priority=priority)


_DESCRIPTIONS = {
    "Name": "The name of the object, unique within its namespace.",
    "Age": "How long ago the object was created.",
    "Created At": "When the object was created.",
}


def _make_cell_reader(cell: Cell, empty: str | None) -> Callable[[Any], Any]:
    get = attrgetter(cell) if isinstance(cell, str) else cell
    return get if empty is None else lambda obj: get(obj) or empty


def age(time: str | None) -> Ago | str:
    """Return a cell that shows the time since a timestamp; `<unknown>` if that is empty."""
    return Ago(time) if time else UNKNOWN


NAME = text("Name", "metadata.name")
AGE = text("Age", lambda obj: age(obj.metadata.creation_timestamp))


def class_name(*groups: str) -> Column:
    """Return a name column that adds `(default)` if an annotation `<group>/is-default-class` is true."""

    def format_name(obj: Any) -> str:
        marks = (obj.metadata.annotations.get(f"{group}/is-default-class") for group in groups)
        return f"{obj.metadata.name} (default)" if "true" in marks else obj.metadata.name

    return text("Name", format_name)


def containers(path: str) -> tuple[Column, Column]:
    """Return two wide columns: names and images of the containers in the pod template at `path`, joined by commas."""
    template = attrgetter(path)

    def container_column(name: str, field: str) -> Column:
        get = attrgetter(field)
        return wide(name, lambda obj: ",".join(map(get, template(obj).spec.containers)) if template(obj) else "")

    return container_column("Containers", "name"), container_column("Images", "image")


def join_values(values: Iterable[str], empty: str = NONE) -> str:
    """Return values joined by commas; `empty` if there are none."""
    return ",".join(values) or empty


def labels(values: Mapping[str, str]) -> str:
    """Return labels as `a=b,c=d`, sorted by key."""
    return join_values(f"{key}={value}" for key, value in sorted(values.items()))


def selector(value: LabelSelector | None) -> str:
    """Return a label selector as text, in the form of a query parameter."""
    if value is None:
        return NONE
    try:
        return str(from_label_selector(value)) or NONE
    except SelectorError:
        return "<error>"
