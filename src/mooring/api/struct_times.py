"""Normalize the times in objects to Kubernetes' format (UTC, to the second or microsecond), or reject invalid ones.

Go clients cannot decode an object with an invalid time, nor a list with such an object. A field is a time by its name;
a test compares the names with the types that Kubernetes publishes.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from mooring.api import times
from mooring.api.dynamic import Dynamic
from mooring.base.short_string_cache import cache_short

_TO_THE_MICROSECOND = frozenset({"acquire_time", "renew_time", "event_time", "last_observed_time"})
_TIMES = _TO_THE_MICROSECOND | {
    "allocation_timestamp",
    "begin_refresh_at",
    "completion_time",
    "creation_timestamp",
    "deletion_timestamp",
    "deprecated_first_timestamp",
    "deprecated_last_timestamp",
    "disrupted_pods",
    "expiration_timestamp",
    "finished_at",
    "first_timestamp",
    "last_heartbeat_time",
    "last_phase_transition_time",
    "last_probe_time",
    "last_scale_time",
    "last_schedule_time",
    "last_successful_time",
    "last_timestamp",
    "last_transition_time",
    "last_update_time",
    "not_after",
    "not_before",
    "start_time",
    "started_at",
    "time",
    "time_added",
}
_NO_TIME = "0001-01-01T00:00:00"


class WrongTimeError(ValueError):
    """A string is not a valid time; `path` is its field."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


class _Step(NamedTuple):
    attribute: str
    name: str
    """The JSON name."""
    written: Callable[[str], str | None] | None
    """The formatter of a time; None for fields that contain times."""


def normalize_times(obj: msgspec.Struct) -> None:
    """Normalize all times of an object in place. Raise WrongTimeError."""
    for attribute, name, written in _steps(Dynamic if isinstance(obj, Dynamic) else type(obj)):  # types come and go
        value = getattr(obj, attribute)
        if not value and (value is None or written is None):
            continue
        try:
            if written is None:
                if isinstance(value, msgspec.Struct):
                    normalize_times(value)
                else:
                    _normalize_items(value)
            elif value.__class__ is not str:
                setattr(obj, attribute, {key: written(text) for key, text in value.items()})
            elif (normal := written(value)) != value:
                setattr(obj, attribute, normal)
        except times.TimeError as error:
            raise WrongTimeError(name, str(error)) from None
        except WrongTimeError as error:
            path = f"{name}{error.path}" if error.path.startswith("[") else f"{name}.{error.path}"
            raise WrongTimeError(path, error.why) from None


def has_times(cls: type[msgspec.Struct]) -> bool:
    """Whether objects of a type contain times."""
    return bool(_steps(cls))


def _normalize_items(items: list[Any] | dict[str, Any]) -> None:
    """Normalize all times in the values of a list or map in place."""
    for key, each in items.items() if isinstance(items, dict) else enumerate(items):
        try:
            normalize_times(each)
        except WrongTimeError as error:
            raise WrongTimeError(f"[{key}].{error.path}", error.why) from None


@cache_short(4096)
def _to_the_second(text: str) -> str | None:
    """Normalize to the second; cached, because objects written together have the same times."""
    found = times.to_seconds(times.parse(text))
    return None if found.startswith(_NO_TIME) else found


@cache_short(4096)
def _to_the_microsecond(text: str) -> str | None:
    return times.to_microseconds(times.parse_microseconds(text))


_begun: set[type[msgspec.Struct]] = set()
"""Types being inspected: recursive types are met again."""


@cache
def _steps(cls: type[msgspec.Struct]) -> tuple[_Step, ...]:
    if cls in _begun:
        return ()
    _begun.add(cls)
    try:
        return tuple(_find_steps(cls))
    finally:
        _begun.discard(cls)


def _find_steps(cls: type[msgspec.Struct]) -> Iterator[_Step]:
    hints = get_type_hints(cls)
    for attribute, name in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        if attribute in _TO_THE_MICROSECOND:
            yield _Step(attribute, name, _to_the_microsecond)
        elif attribute in _TIMES:
            yield _Step(attribute, name, _to_the_second)
        elif any(map(has_times, _structs(hints[attribute]))):
            yield _Step(attribute, name, None)


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in get_args(annotation):
        yield from _structs(argument)
