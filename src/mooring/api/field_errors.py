"""What is wrong with a field, in Kubernetes' words.

Validation gathers `FieldError`s in a list; `errors.invalid` turns the list into the `Status` that the client sees.

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

from mooring.api.answer_limits import MAX_CAUSES, MAX_QUOTED, shortened
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector, OwnerReference
from mooring.api.quantity import Quantity
from mooring.api.quoting import quoted

_P = ParamSpec("_P")

OMITTED = "<omitted>"
OMIT_VALUE = object()
"""As the value of an error: the error does not show one."""
_BUDGET, _EACH = 1_000_000, 100
"""How many characters the errors of a validation may have; each counts for so many beside its text."""
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
    """One thing that is wrong with one field. `str()` is the whole text, `body` the text without the path."""

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
        """The path as text; Kubernetes writes `<nil>` where there is none."""
        return "<nil>" if self.path is None else shortened(str(self.path), MAX_QUOTED)

    @property
    def body(self) -> str:
        """The kind of error, the value and the detail."""
        title = _TITLES[self.type]
        silent = self.type in _WITHOUT_VALUE or self.value is OMIT_VALUE
        text = title if silent else f"{title}: {_rendered(self.value)}"
        return f"{text}: {shortened(self.detail)}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


class OverBudgetError(Exception):
    """A validation has found more than anybody reads, or has worked for too long; `first` has the first of it."""

    def __init__(self, first: list[FieldError]) -> None:
        super().__init__(f"{len(first)} problems or more")
        self.first = first


class _Budget(msgspec.Struct, eq=False):
    """What one validation may cost. Errors are paid by the character, and something for each."""

    first: list[FieldError] = []
    left: int = _BUDGET

    def add(self, error: FieldError) -> None:
        if len(self.first) <= MAX_CAUSES:
            self.first.append(error)
        if not self.has(len(error.detail) + _EACH):
            raise OverBudgetError(self.first)

    def has(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def spend(cost: int, path: Path) -> None:
    """Count work that takes long for its size: a unit is about a microsecond, and an error a hundred of them.

    Raises OverBudgetError, with an error at `path`, when a validation has had its share.
    """
    budget = _budget.get()
    if budget is not None and not budget.has(cost):
        detail = "the object takes too long to judge: it has more and longer expressions than one request may have"
        raise OverBudgetError([*budget.first[: MAX_CAUSES - 1], FieldError(ErrorType.TOO_LONG, path, OMITTED, detail)])


def gathered(validate: Callable[_P, list[FieldError]], *args: _P.args, **kwargs: _P.kwargs) -> list[FieldError]:
    """What a validation finds, or the first of it where it finds so much, or takes so long, that it is stopped."""
    token = _budget.set(_Budget())
    try:
        return validate(*args, **kwargs)
    except OverBudgetError as error:
        return error.first
    finally:
        _budget.reset(token)


@contextmanager
def uncounted() -> Iterator[None]:
    """Errors of a trial, which may come to nothing: they do not count among those of the validation."""
    token = _budget.set(None)
    try:
        yield
    finally:
        _budget.reset(token)


def required(path: Path | None, detail: str = "") -> FieldError:
    """A value must be given."""
    return FieldError(ErrorType.REQUIRED, path, "", detail)


def invalid(path: Path | None, value: Any, detail: str) -> FieldError:
    """The value is malformed, out of bounds or does not go with another one."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def type_invalid(path: Path | None, value: Any, detail: str) -> FieldError:
    """The value is of another type than the field."""
    return FieldError(ErrorType.TYPE_INVALID, path, value, detail)


def not_supported(path: Path | None, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is not one of an enumeration, listed in the order given."""
    names = ", ".join(map(quoted, supported))
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {names}" if names else "")


def forbidden(path: Path | None, detail: str) -> FieldError:
    """The field must not be given here, or not be changed."""
    return FieldError(ErrorType.FORBIDDEN, path, "", detail)


def duplicate(path: Path | None, value: Any, detail: str = "") -> FieldError:
    """The value occurs twice where it must be unique."""
    return FieldError(ErrorType.DUPLICATE, path, value, detail)


def not_found(path: Path | None, value: Any) -> FieldError:
    """The value names something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value)


def too_long(path: Path | None, limit: int) -> FieldError:
    """The text has more bytes than the limit. The value is not quoted: it is long."""
    detail = f"may not be more than {limit} bytes" if limit >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, path, OMITTED, detail)


def too_many(path: Path | None, actual: int, limit: int) -> FieldError:
    """The list or map has more entries than the limit."""
    items = "item" if limit == 1 else "items"
    detail = f"must have at most {limit} {items}" if limit >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, path, actual if actual >= 0 else OMITTED, detail)


def internal(path: Path | None, detail: str) -> FieldError:
    """The server failed; the object may be right."""
    return FieldError(ErrorType.INTERNAL, path, None, detail)


def _rendered(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    shown = _as_go_shows_it(value, _Room())
    return shortened(_html_safe(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))), MAX_QUOTED)


class GoStruct(dict[str, Any]):
    """A value that errors quote as a struct of Go: by the names and in the order of its fields."""


class _Room:
    """How much of a value is still looked at: what is shown of it is cut anyway, and each part takes two characters."""

    def __init__(self) -> None:
        self.parts = MAX_QUOTED

    def __call__(self, _: object) -> bool:
        self.parts -= 1
        return self.parts >= 0


def _as_go_shows_it(value: Any, room: _Room) -> Any:
    """Structs by their Go names, every field, null for what is empty: Kubernetes prints its internal types so.

    The types of meta/v1 have no internal twin and are printed as JSON.
    """
    if isinstance(value, LabelSelector | OwnerReference):
        return _beginning(msgspec.to_builtins(value), room)
    if isinstance(value, msgspec.Struct):
        shown = {}
        for info in msgspec.structs.fields(value):
            item = getattr(value, info.name)
            shown[_go_name(info.encode_name)] = None if item in ([], {}) else _as_go_shows_it(item, room)
        return shown
    if isinstance(value, GoStruct):
        items = takewhile(room, value.items())
        return {key: None if item in ([], {}) else _as_go_shows_it(item, room) for key, item in items}
    if isinstance(value, dict):
        return {key[:MAX_QUOTED]: _as_go_shows_it(value[key], room) for key in takewhile(room, sorted(value))}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_go_shows_it(item, room) for item in takewhile(room, value)]
    if isinstance(value, str):
        return value[:MAX_QUOTED]
    if isinstance(value, bytes):
        return b64encode(value[:MAX_QUOTED]).decode()
    return str(value) if isinstance(value, Quantity) else value


def _beginning(value: Any, room: _Room) -> Any:
    """As much of a JSON value as there is room for."""
    if isinstance(value, dict):
        return {key: _beginning(item, room) for key, item in takewhile(room, value.items())}
    if isinstance(value, list):
        return [_beginning(item, room) for item in takewhile(room, value)]
    return value[:MAX_QUOTED] if isinstance(value, str) else value


def _go_name(name: str) -> str:
    """The Go name of a field of that JSON name: `seLinuxOptions` is SELinuxOptions, `name` is Name."""
    word = _FIRST_WORD.match(name)
    end = word.end() if word is not None and word.group() in _ACRONYMS else 1
    return name[:end].upper() + name[end:]


def _html_safe(text: str) -> str:
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
