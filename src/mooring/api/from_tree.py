"""Convert a tree of plain values to a typed object, with Kubernetes' leniency and precise errors.

Kubernetes reads JSON with rules that a strict decoder does not have: null means absent, unknown fields are dropped and
reported, and an error names the path. ``codec.py`` uses this when its fast decoder fails, and always for YAML and patch
results.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from mooring.api.field_path import Path
from mooring.api.json_tree import DecodeError, Members
from mooring.api.quantity import Quantity, QuantityError, parse
from mooring.api.quoting import go_quote

T = TypeVar("T")
_REPORT_LIMIT = 100
_INT32 = 2**31 - 1


class FieldValidation(StrEnum):
    """The handling of unknown and duplicate fields: reject, warn or ignore."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


class WrongFieldsError(DecodeError):
    """Some values have a wrong type or are malformed; `problems` lists them, each starting with its path."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Report(msgspec.Struct):
    """The problems found: values of a wrong type, and unknown or duplicate fields."""

    wrong: list[str] = msgspec.field(default_factory=list)
    strange: list[str] = msgspec.field(default_factory=list)

    def wrong_type(self, path: Path | None, expected: str, value: Any) -> None:
        self.wrong_value(path, f"expected {expected}, got {_describe_value(value)}")

    def wrong_value(self, path: Path | None, message: str) -> None:
        if len(self.wrong) < _REPORT_LIMIT:
            self.wrong.append(message if path is None else f"{path}: {message}")

    def strange_field(self, what: str, path: Path) -> None:
        if len(self.strange) < _REPORT_LIMIT:
            self.strange.append(f"{what} field {go_quote(str(path))}")


def from_tree(tree: Any, cls: type[T], validation: FieldValidation) -> tuple[T, tuple[str, ...]]:
    """Convert a tree into an object of type `cls`, with warnings. Raise DecodeError that lists all problems."""
    report = Report()
    kind: Any = cls
    value = _reader(kind)(tree, None, report)
    if report.wrong:
        raise WrongFieldsError(report.wrong)
    if report.strange and validation is FieldValidation.STRICT:
        raise DecodeError(f"strict decoding error: {', '.join(report.strange)}")
    return value, tuple(report.strange) if validation is FieldValidation.WARN else ()


def quantity_from(value: Any) -> Quantity:
    """Parse a quantity from a JSON string or number; raise QuantityError."""
    if isinstance(value, str):
        return parse(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse(str(value))
    raise QuantityError(f"expected a quantity, got {_describe_value(value)}")


Reader = Callable[[Any, Path | None, Report], Any]


@cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads values of a type. It never gets null, which means absent."""
    base = _without_annotation(kind)
    origin, args = get_origin(base), get_args(base)
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        return _struct_reader(base)
    if origin is list:
        return _list_reader(args[0])
    if origin is dict:
        return _dict_reader(args[1])
    if origin in {Union, UnionType} and type(None) in args and len(args) == 2:
        return _reader(next(arg for arg in args if arg is not type(None)))
    if origin in {Union, UnionType} and any(_is_struct(arg) for arg in args):
        return _choosing_reader(args)
    if base is Quantity:
        return _read_quantity
    if base is bytes:
        return _read_base64
    if base is Any:
        return _plain
    if base is msgspec.Raw:
        return _encode_object
    return _leaf_reader(kind)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choosing_reader(options: tuple[Any, ...]) -> Reader:
    objects = [option for option in options if _is_struct(option)]
    lists = [option for option in options if get_origin(option) is list]
    plain = [option for option in options if option not in (*objects, *lists, type(None))]

    def read(value: Any, path: Path | None, report: Report) -> Any:
        if plain and not isinstance(value, dict | list):
            return _reader(plain[0])(value, path, report)
        return _reader((lists or objects if isinstance(value, list) else objects)[0])(value, path, report)

    return read


def _without_annotation(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _struct_reader(cls: type[msgspec.Struct]) -> Reader:
    fields: dict[str, tuple[str, Reader]] = {}

    def read(value: Any, path: Path | None, report: Report) -> Any:
        if not isinstance(value, dict):
            report.wrong_type(path, "an object", value)
            return None
        if not fields:  # on first use, since a type may contain itself
            fields.update({info.encode_name: (info.name, _reader(info.type)) for info in msgspec.structs.fields(cls)})
        found = {}
        for key, item in value.items():
            here = _child(path, key)
            _report_duplicate(value, key, here, report)
            name_and_reader = fields.get(key)
            if name_and_reader is None:
                report.strange_field("unknown", here)
            elif item is not None:
                name, reader = name_and_reader
                found[name] = reader(item, here, report)
        return None if report.wrong else cls(**found)

    return read


def _list_reader(item_type: Any) -> Reader:
    def read(value: Any, path: Path | None, report: Report) -> Any:
        if not isinstance(value, list):
            report.wrong_type(path, "an array", value)
            return None
        reader = _reader(item_type)
        return [
            _zero(item_type) if item is None else reader(item, _item(path, index), report)
            for index, item in enumerate(value)
        ]

    return read


def _dict_reader(value_type: Any) -> Reader:
    def read(value: Any, path: Path | None, report: Report) -> Any:
        if not isinstance(value, dict):
            report.wrong_type(path, "an object", value)
            return None
        reader = _reader(value_type)
        found = {}
        for key, item in value.items():
            here = _child(path, key)
            _report_duplicate(value, key, here, report)
            found[key] = _zero(value_type) if item is None else reader(item, here, report)
        return found

    return read


def _leaf_reader(kind: Any) -> Reader:
    def read(value: Any, path: Path | None, report: Report) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            report.wrong_type(path, _describe_type(kind), value)
            return None

    return read


def _read_quantity(value: Any, path: Path | None, report: Report) -> Any:
    try:
        return quantity_from(value)
    except QuantityError as error:
        report.wrong_value(path, str(error))
        return None


def _read_base64(value: Any, path: Path | None, report: Report) -> Any:
    """Decode base64, which may contain line breaks as in Go."""
    try:
        return b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (AttributeError, ValueError):
        report.wrong_type(path, "a string in base64", value)
        return None


def _plain(value: Any, path: Path | None, report: Report) -> Any:
    if isinstance(value, dict):
        for key in value:
            _report_duplicate(value, key, _child(path, key), report)
        return {key: _plain(item, _child(path, key), report) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, _item(path, index), report) for index, item in enumerate(value)]
    return value


def _encode_object(value: Any, path: Path | None, report: Report) -> msgspec.Raw | None:
    if isinstance(value, msgspec.Raw):
        return value
    if not isinstance(value, dict):
        report.wrong_type(path, "an object", value)
        return None
    return msgspec.Raw(msgspec.json.encode(_plain(value, path, report)))


def report_duplicates(value: Any, path: Path | None, report: Report) -> None:
    """Report every duplicate field, recursively."""
    if isinstance(value, dict):
        for key, item in value.items():
            here = _child(path, key)
            _report_duplicate(value, key, here, report)
            if isinstance(item, dict | list):
                report_duplicates(item, here, report)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                report_duplicates(item, _item(path, index), report)


def _report_duplicate(value: dict[str, Any], key: str, path: Path, report: Report) -> None:
    if isinstance(value, Members) and key in value.repeated:
        report.strange_field("duplicate", path)


def _zero(kind: Any) -> Any:
    """Return Go's zero value for null in a list or map, where it cannot be absent."""
    base = _without_annotation(kind)
    origin = get_origin(base)
    if base is Any or origin in {Union, UnionType}:
        return None if base is Any or type(None) in get_args(base) else 0
    return parse("0") if base is Quantity else (origin or base)()


def _child(path: Path | None, name: str) -> Path:
    return Path(name) if path is None else path.child(name)


def _item(path: Path | None, index: int) -> Path:
    return Path(f"[{index}]") if path is None else path.index(index)


def _describe_type(kind: Any) -> str:
    base = _without_annotation(kind)
    if get_origin(base) in {Union, UnionType}:
        return " or ".join(_describe_type(arg) for arg in get_args(base))
    if base is int:
        limits = [note.le for note in getattr(kind, "__metadata__", ()) if isinstance(note, msgspec.Meta)]
        return "a 32-bit integer" if limits == [_INT32] else "a 64-bit integer"
    return {str: "a string", bool: "a boolean", float: "a number"}.get(base, str(base))


def _describe_value(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return f"the number {str(value)[:40]}"
    names = {type(None): "null", str: "a string", list: "an array", dict: "an object", Members: "an object"}
    return names.get(type(value), type(value).__name__)
