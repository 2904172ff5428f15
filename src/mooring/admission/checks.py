"""Check one value and return its field errors: required values, enumerations, limits, duplicates, numbers, percentages.

Strategies of all kinds call these; the pod rules, which run most often, check in place.
"""

from collections.abc import Callable, Collection, Iterable, Sized
from functools import cache
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import msgspec

from mooring.admission.meta import IMMUTABLE
from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.int_or_string import PercentError, parse_percent
from mooring.api.meta_v1 import Condition
from mooring.api.quantity import Quantity

T = TypeVar("T")
P = ParamSpec("P")
NEGATIVE = "must be greater than or equal to 0"


def require(value: object, path: Path, detail: str = "") -> Errors:
    """Return a `Required value` error if the value is empty, zero, false or None."""
    return [] if value else [field_errors.required(path, detail)]


def require_name(value: str, path: Path, check: Callable[[str], names.Messages], detail: str = "") -> Errors:
    """Return a `Required value` error for an empty name, else the errors of `check`, a function of ``api/names.py``."""
    return names.validate(path, value, check(value)) if value else [field_errors.required(path, detail)]


def optional_name(value: str | None, path: Path, check: Callable[[str], names.Messages]) -> Errors:
    """Return the errors that `check`, a function of ``api/names.py``, finds in a name; none for None."""
    return [] if value is None else names.validate(path, value, check(value))


def one_of(value: str | None, supported: Collection[str], path: Path) -> Errors:
    """Return an `Unsupported value` error in a list unless the value, even None, is supported; else []."""
    return [] if value in supported else [field_errors.not_supported(path, value, supported)]


def optional_one_of(value: str | None, supported: Collection[str], path: Path) -> Errors:
    """Return an `Unsupported value` error if the value is neither None nor among the supported ones."""
    return [] if value is None else one_of(value, supported, path)


def require_one_of(value: str, supported: Collection[str], path: Path) -> Errors:
    """Return a `Required value` error for an empty value, `Unsupported value` for an unsupported one, else none."""
    return one_of(value, supported, path) if value else [field_errors.required(path)]


def invalid_if(wrong: object, path: Path, value: object, detail: str) -> Errors:
    """Return a list with one `Invalid value` error if `wrong` is true, else an empty list."""
    return [field_errors.invalid(path, value, detail)] if wrong else []


def forbidden_if(wrong: object, path: Path, detail: str) -> Errors:
    """Return a list with one `Forbidden` error if `wrong` is true, else an empty list."""
    return [field_errors.forbidden(path, detail)] if wrong else []


Check = Callable[Concatenate[T, Path, P], Errors]
"""A function that validates a value at a path, perhaps with more arguments."""


def optional(value: T | None, path: Path, check: Check[T, P], *args: P.args, **options: P.kwargs) -> Errors:
    """Return no errors for None, else the errors of `check(value, path, *args, **options)`."""
    return [] if value is None else check(value, path, *args, **options)


def validate_items(items: Iterable[T], path: Path, check: Check[T, P], *args: P.args, **options: P.kwargs) -> Errors:
    """Return the errors of `check(item, item_path, *args, **options)` for every item of the list at `path`."""
    errors: Errors = []
    for index, item in enumerate(items):
        errors += check(item, path.index(index), *args, **options)
    return errors


def limit_bytes(text: str, limit: int, path: Path) -> Errors:
    """Return a `Too long` error for a string of more than `limit` bytes in UTF-8, else none."""
    return [field_errors.too_long(path, limit)] if len(text.encode(errors="surrogatepass")) > limit else []


def limit_items(items: Sized, limit: int, path: Path) -> Errors:
    """Return a `Too many` error for a list or map of more than `limit` items, else none."""
    return [field_errors.too_many(path, len(items), limit)] if len(items) > limit else []


@cache
def _attributes_by_json_name(struct: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))


def get_fields_by_json_name(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the values of all fields of a struct by their JSON names."""
    return {name: getattr(struct, attribute) for name, attribute in _attributes_by_json_name(type(struct)).items()}


def select_fields(struct: msgspec.Struct, *names: str) -> list[tuple[str, Any]]:
    """Return (JSON name, value) for those fields of a struct whose JSON names are given."""
    attributes = _attributes_by_json_name(type(struct))
    return [(name, getattr(struct, attributes[name])) for name in names]


def require_fields(struct: msgspec.Struct | None, path: Path, *names: str, detail: str = "") -> Errors:
    """Return a `Required value` error for each field (by JSON name) that is empty; none if the struct is None."""
    if struct is None:
        return []
    attributes = _attributes_by_json_name(type(struct))
    return [field_errors.required(path.child(name), detail) for name in names if not getattr(struct, attributes[name])]


def forbid_changes(new: msgspec.Struct, old: msgspec.Struct | None, *paths: str) -> Errors:
    """Return an error for each field in `paths`, such as `spec.selector`, that differs from `old`; none on create."""
    if old is None:
        return []
    getters = [(path, _build_getter(type(new), path)) for path in paths]
    changed = [(path, get(new)) for path, get in getters if get(new) != get(old)]
    return [field_errors.invalid(Path(path), value, IMMUTABLE) for path, value in changed]


@cache
def _build_getter(struct: type[msgspec.Struct], path: str) -> Callable[[msgspec.Struct], Any]:
    attributes: list[str] = []
    for name in path.split("."):
        attributes.append(_attributes_by_json_name(struct)[name])
        struct = get_type_hints(struct)[attributes[-1]]
    return attrgetter(".".join(attributes))


def non_negative_fields(struct: msgspec.Struct, path: Path, *names: str) -> Errors:
    """Return an error for each field (by JSON name) that is a negative number; None passes."""
    given = select_fields(struct, *names)
    return [field_errors.invalid(path.child(name), value, NEGATIVE) for name, value in given if (value or 0) < 0]


class UniqueKeys:
    """Collects keys, such as names of list items, and returns a `Duplicate value` error for each repeated one."""

    def __init__(self) -> None:
        self._seen: set[object] = set()

    def add(self, key: object, path: Path, shown: Any = None, detail: str = "") -> Errors:
        """Add a key; return a `Duplicate value` error, which shows `shown` if given, if it was added before."""
        if key in self._seen:
            return [field_errors.duplicate(path, key if shown is None else shown, detail)]
        self._seen.add(key)
        return []


def validate_token_lifetime(seconds: int, path: Path) -> Errors:
    """Return an error for the lifetime of a service account token unless it is 10 minutes to 2^32 seconds."""
    errors = invalid_if(seconds < 600, path, seconds, "may not specify a duration less than 10 minutes")
    return errors + invalid_if(seconds > 1 << 32, path, seconds, "may not specify a duration larger than 2^32 seconds")


def non_negative(value: int | None, path: Path) -> Errors:
    return [field_errors.invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def positive(value: int | None, path: Path, detail: str = "must be greater than zero") -> Errors:
    return [field_errors.invalid(path, value, detail)] if value is not None and value <= 0 else []


def limit_number(value: int | None, limit: int, path: Path, detail: str = "") -> Errors:
    """Return an error if a number is greater than `limit`; None passes."""
    wrong = value is not None and value > limit
    return invalid_if(wrong, path, value, detail or f"must be less than or equal to {limit}")


def non_negative_quantity(value: Quantity | None, path: Path) -> Errors:
    return [field_errors.invalid(path, str(value), NEGATIVE)] if value is not None and value.sign() < 0 else []


def number_or_percent(value: int | str, path: Path) -> Errors:
    """Return errors for a negative number, or for a string that is no percentage such as `25%`."""
    if isinstance(value, int):
        return non_negative(value, path)
    return names.validate(path, value, names.percent(value))


def at_most_100_percent(value: int | str, path: Path) -> Errors:
    """Return an error for a percentage above 100%; numbers and malformed percentages pass."""
    try:
        part = parse_percent(value)
    except PercentError:
        return []
    return invalid_if(part is not None and part > 100, path, value, "must not be greater than 100%")


STATUSES = ("False", "True", "Unknown")
_MAX_REASON_BYTES = 1024
_MAX_MESSAGE_BYTES = 32 * 1024


def validate_conditions(conditions: list[Condition], path: Path) -> Errors:
    errors: Errors = []
    seen = UniqueKeys()
    for index, each in enumerate(conditions):
        here = path.index(index)
        errors += seen.add(each.type, here)
        errors += require_name(each.type, here.child("type"), names.label_key, "is required")
        errors += require_one_of(each.status, STATUSES, here.child("status"))
        at, generation = here.child("observedGeneration"), each.observed_generation
        errors += invalid_if(generation < 0, at, generation, "must be greater than or equal to zero")
        errors += require(each.last_transition_time is not None, here.child("lastTransitionTime"))
        errors += require_name(each.reason, here.child("reason"), names.condition_reason)
        errors += limit_bytes(each.reason, _MAX_REASON_BYTES, here.child("reason"))
        errors += limit_bytes(each.message, _MAX_MESSAGE_BYTES, here.child("message"))
    return errors
