"""Field errors with Kubernetes' messages.

Validation collects `FieldError`s in a list; `errors.invalid` turns the list into the `Status` for the client.

    >>> str(not_supported(Path("spec").child("x"), "Gt", ["Equal", "Exists"]))
    'spec.x: Unsupported value: "Gt": supported values: "Equal", "Exists"'
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from itertools import takewhile
from typing import Any, ParamSpec

import msgspec

from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector, OwnerReference
from mooring.api.quantity import Quantity
from mooring.api.quoting import go_quote
from mooring.api.response_limits import MAX_CAUSES, MAX_QUOTED, shorten

_P = ParamSpec("_P")

OMITTED = "<omitted>"
OMIT_VALUE = object()
"""As the value of an error: do not show a value."""
_BUDGET, _CHARGE_PER_ERROR = 1_000_000, 100
"""Total characters of the errors of one validation, and the fixed charge per error."""
_FIRST_WORD = re.compile("[a-z]+")
_ACRONYMS = {"api", "aws", "csi", "dns", "fc", "fs", "gce", "grpc", "http", "id", "ip", "iscsi"}
_ACRONYMS |= {"nfs", "os", "pid", "rbd", "se", "tcp", "tls", "uid", "url"}
"""First words of fields' names that Go writes in capitals."""


class ErrorType(StrEnum):
    """The reason of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TITLES = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.INTERNAL: "Internal error",
    ErrorType.TYPE_INVALID: "Invalid value",
}
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


class FieldError(msgspec.Struct, frozen=True):
    """One problem of one field. `str()` is the full message, `body` the message without the path."""

    type: ErrorType
    path: Path | None
    value: Any = None
    detail: str = ""

    def __post_init__(self) -> None:
        budget = _budget.get()
        if budget is not None:
            budget.add(self)

    @property
    def field(self) -> str:
        """The path as a string; Kubernetes writes `<nil>` where there is none."""
        return "<nil>" if self.path is None else shorten(str(self.path), MAX_QUOTED)

    @property
    def body(self) -> str:
        """The kind of error, the value and the detail."""
        title = _TITLES[self.type]
        silent = self.type in _WITHOUT_VALUE or self.value is OMIT_VALUE
        text = title if silent else f"{title}: {_format_value(self.value)}"
        return f"{text}: {shorten(self.detail)}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = list[FieldError]


class OverBudgetError(Exception):
    """A validation found too many errors or took too long; `first` holds the first errors."""

    def __init__(self, first: list[FieldError]) -> None:
        super().__init__(f"{len(first)} problems or more")
        self.first = first


class _Budget(msgspec.Struct, eq=False):
    """The work budget of one validation. Errors are charged by the character plus a fixed amount."""

    first: list[FieldError] = []
    left: int = _BUDGET

    def add(self, error: FieldError) -> None:
        if len(self.first) <= MAX_CAUSES:
            self.first.append(error)
        if not self.has(len(error.detail) + _CHARGE_PER_ERROR):
            raise OverBudgetError(self.first)

    def has(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def spend(cost: int, path: Path) -> None:
    """Charge expensive work: a unit is about a microsecond, and an error is a hundred units.

    Raise OverBudgetError, with an error at `path`, when the budget is used up.
    """
    budget = _budget.get()
    if budget is not None and not budget.has(cost):
        detail = "the object takes too long to validate: it has more and longer expressions than one request may have"
        raise OverBudgetError([*budget.first[: MAX_CAUSES - 1], FieldError(ErrorType.TOO_LONG, path, OMITTED, detail)])


def run_within_budget(
    validate: Callable[_P, list[FieldError]], *args: _P.args, **kwargs: _P.kwargs
) -> list[FieldError]:
    """Run a validation; return its errors, or the first ones if it exceeded the budget."""
    token = _budget.set(_Budget())
    try:
        return validate(*args, **kwargs)
    except OverBudgetError as error:
        return error.first
    finally:
        _budget.reset(token)


@contextmanager
def without_budget() -> Iterator[None]:
    """Validate without charging the budget, for trials whose errors may be discarded."""
    token = _budget.set(None)
    try:
        yield
    finally:
        _budget.reset(token)


def required(path: Path | None, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError(ErrorType.REQUIRED, path, "", detail)


def invalid(path: Path | None, value: Any, detail: str) -> FieldError:
    """Return the error for a value that is malformed, out of range or inconsistent."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def type_invalid(path: Path | None, value: Any, detail: str) -> FieldError:
    """Return the error for a value of the wrong type."""
    return FieldError(ErrorType.TYPE_INVALID, path, value, detail)


def not_supported(path: Path | None, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value outside an enumeration, listed in the order given."""
    names = ", ".join(map(go_quote, supported))
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {names}" if names else "")


def forbidden(path: Path | None, detail: str) -> FieldError:
    """Return the error for a field that must not be set or changed here."""
    return FieldError(ErrorType.FORBIDDEN, path, "", detail)


def duplicate(path: Path | None, value: Any, detail: str = "") -> FieldError:
    """Return the error for a value that must be unique and is not."""
    return FieldError(ErrorType.DUPLICATE, path, value, detail)


def not_found(path: Path | None, value: Any) -> FieldError:
    """Return the error for a value that names something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value)


def too_long(path: Path | None, limit: int) -> FieldError:
    """Return the error for a string over the byte limit. The value is not quoted."""
    detail = f"may not be more than {limit} bytes" if limit >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, path, OMITTED, detail)


def too_many(path: Path | None, actual: int, limit: int) -> FieldError:
    """Return the error for a list or map with too many entries."""
    items = "item" if limit == 1 else "items"
    detail = f"must have at most {limit} {items}" if limit >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, path, actual if actual >= 0 else OMITTED, detail)


def internal(path: Path | None, detail: str) -> FieldError:
    """Return the error for a failure of the server."""
    return FieldError(ErrorType.INTERNAL, path, None, detail)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return go_quote(value)
    shown = _to_go_form(value, _Room())
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    return shorten(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"), MAX_QUOTED)


class GoStruct(dict[str, Any]):
    """A value that error messages print like a Go struct: by the names and in the order of its fields."""


class _Room:
    """The remaining size for printing a value: the output is cut anyway."""

    def __init__(self) -> None:
        self.parts = MAX_QUOTED

    def __call__(self, _: object) -> bool:
        self.parts -= 1
        return self.parts >= 0


def _to_go_form(value: Any, room: _Room) -> Any:
    """Convert a value to how Go prints it: structs by their Go names, every field, null for empty ones.

    The types of meta/v1 have no internal counterpart and are printed as JSON.
    """
    if isinstance(value, LabelSelector | OwnerReference):
        return _truncate(msgspec.to_builtins(value), room)
    if isinstance(value, msgspec.Struct):
        shown = {}
        for info in msgspec.structs.fields(value):
            item = getattr(value, info.name)
            shown[_go_name(info.encode_name)] = None if item in ([], {}) else _to_go_form(item, room)
        return shown
    if isinstance(value, GoStruct):
        items = takewhile(room, value.items())
        return {key: None if item in ([], {}) else _to_go_form(item, room) for key, item in items}
    if isinstance(value, dict):
        return {key[:MAX_QUOTED]: _to_go_form(value[key], room) for key in takewhile(room, sorted(value))}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_go_form(item, room) for item in takewhile(room, value)]
    if isinstance(value, str):
        return value[:MAX_QUOTED]
    if isinstance(value, bytes):
        return b64encode(value[:MAX_QUOTED]).decode()
    return str(value) if isinstance(value, Quantity) else value


def _truncate(value: Any, room: _Room) -> Any:
    if isinstance(value, dict):
        return {key: _truncate(item, room) for key, item in takewhile(room, value.items())}
    if isinstance(value, list):
        return [_truncate(item, room) for item in takewhile(room, value)]
    return value[:MAX_QUOTED] if isinstance(value, str) else value


def _go_name(name: str) -> str:
    """Return the Go name of a JSON field: `seLinuxOptions` is SELinuxOptions, `name` is Name."""
    word = _FIRST_WORD.match(name)
    end = word.end() if word is not None and word.group() in _ACRONYMS else 1
    return name[:end].upper() + name[end:]
