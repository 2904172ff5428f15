"""Drop fields that are off in the emulated release; reject fields and enum values that are too new (4330.7).

Kubernetes silently drops fields whose gate is off; so does a server that emulates the release. Fields newer than the
minimum compatibility version are rejected, because an older server would lose them. Stored fields may stay. The API
history lists these fields; gates that Mooring implements are handled by the kinds. ``options.py`` decides what is off
and what is new. Called by ``pipeline.py`` for all kinds, by ``pod/`` for PodSpecs, and by the advisor.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from mooring.api import field_errors
from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path
from mooring.api.history.tables import Definitions, Enums, Field, Value, package
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import Resource

DETAIL = "may not be set while the minimum compatibility version is older than the field"
_POD_SPEC = "core.v1.PodSpec"
_SERVER_SET = frozenset({"exempt", "podReplacementPolicy"})
"""Fields of 1.28 that the server sets; dropped if too new, because otherwise no object could be written."""
_SERVER_DEFAULTS = {"preventPodSchedulingIfMissing": False}
"""Fields with the defaults that the server sets; any other value was set by a user and is rejected."""
_KINDS = 1024
Names = tuple[str, ...]
"""The field names on a path in an object, without indexes and keys."""


class _EnumValues(NamedTuple):
    """The values of an enumeration that are too new (`too_new`), and the others (`supported`), which errors list."""

    too_new: tuple[str, ...]
    supported: tuple[str, ...]


class _TypeFields(msgspec.Struct):
    """The fields of an API type that the server drops (`off`) or rejects (`too_new`), and of nested types (`below`)."""

    off: set[str] = msgspec.field(default_factory=set)
    too_new: set[str] = msgspec.field(default_factory=set)
    values: dict[str, _EnumValues] = msgspec.field(default_factory=dict)
    below: "dict[str, _TypeFields]" = msgspec.field(default_factory=dict)
    _readers: dict[type, "_FieldReader"] = msgspec.field(default_factory=dict)

    @property
    def has_any(self) -> bool:
        return bool(self.off or self.too_new or self.values or self.below)

    def may_have_unavailable(self, value: Any) -> bool:
        """Return False if a value sets no field to drop or reject, at any depth; True if it might: a fast check."""
        kind = type(value)
        if kind is list or kind is dict:
            return any(map(self.may_have_unavailable, value if kind is list else value.values()))
        read, parts, optional = self._readers.get(kind) or self._build_reader(kind)
        for found, below, may_lack in zip(read(value), parts, optional, strict=True):
            if found or (may_lack and found is not None):
                if below is None:
                    return True
                for each in found if type(found) is list else (found,):
                    if below.may_have_unavailable(each):
                        return True
        return False

    def _build_reader(self, struct: type) -> "_FieldReader":
        fields = _fields_by_json_name(struct) if issubclass(struct, msgspec.Struct) else {}
        names = [name for name in (*self.below, *self.off, *self.too_new, *self.values) if name in fields]
        parts = tuple(self.below.get(name) for name in names)
        optional = tuple(fields[name].default is None for name in names)
        if len(names) > 1:
            reader = _FieldReader(attrgetter(*(fields[name].name for name in names)), parts, optional)
        else:  # `attrgetter` of one name returns no tuple
            only = fields[names[0]].name if names else ""
            reader = _FieldReader(lambda value: (getattr(value, only),) if only else (), parts, optional)
        self._readers[struct] = reader
        return reader


class _FieldReader(NamedTuple):
    """Reads the values of all fields of a struct type that must be checked, with one call."""

    read: Callable[[Any], tuple[Any, ...]]
    below: tuple[_TypeFields | None, ...]
    """For each field, the part to check below it; None for fields that are off or new themselves."""
    optional: tuple[bool, ...]
    """For each field, whether it can be None, so that false and 0 count as set."""


class _UnavailableField(NamedTuple):
    """A field set in an object, but off in the emulated release (dropped) or too new (rejected)."""

    names: Names
    holder: Any
    field: msgspec.structs.FieldInfo
    refusal: FieldError | None
    """The error of a rejected field; None for a field to drop."""


class ReleaseFields:
    """Drops the fields that are off in the emulated release, and rejects fields and enum values that are too new."""

    def __init__(
        self,
        definitions: Definitions,
        enums: Enums,
        is_off: Callable[[Field], bool],
        is_too_new: Callable[[Field | Value], bool],
    ) -> None:
        self._build_type_fields = _build_type_fields(definitions, enums, is_off, is_too_new)
        self._pod_spec = self._build_type_fields.get(_POD_SPEC)
        self._found: dict[tuple[str, str], _TypeFields | None] = {}

    def reset_disabled(self, obj: Resource, old: Resource | None) -> None:
        """Reset the fields that are off in the emulated release to their defaults, unless the old object sets them."""
        part = self._find_type_fields(obj)
        if part is None or not part.may_have_unavailable(obj):
            return
        kept = {use.names for use in _find_set_fields(old, part, None, ())}
        for use in list(_find_set_fields(obj, part, None, ())):
            if use.refusal is None and use.names not in kept:
                made = use.field.default_factory is not msgspec.NODEFAULT
                setattr(use.holder, use.field.name, use.field.default_factory() if made else use.field.default)

    def validate_too_new(self, obj: Resource, old: Resource | None) -> Errors:
        """Return errors for fields and values that are too new, unless `old` has them; PodSpecs are left out."""
        part = self._find_type_fields(obj)
        if part is None or isinstance(obj, Pod) or not part.may_have_unavailable(obj):
            return []
        kept = {use.names for use in _find_set_fields(old, part, None, (), self._pod_spec)}
        return _list_refusals(_find_set_fields(obj, part, None, (), self._pod_spec), kept)

    def find_too_new_in_pod_spec(self, spec: PodSpec) -> frozenset[Names]:
        """Return the paths of fields in a stored PodSpec that are too new; updates may keep these."""
        if self._pod_spec is None or not self._pod_spec.may_have_unavailable(spec):
            return frozenset()
        return frozenset(use.names for use in _find_set_fields(spec, self._pod_spec, None, ()) if use.refusal)

    def validate_too_new_in_pod_spec(self, spec: PodSpec, path: Path, kept: frozenset[Names]) -> Errors:
        """Return errors for fields of a PodSpec that are too new, except those at the paths in `kept`."""
        if self._pod_spec is None or not self._pod_spec.may_have_unavailable(spec):
            return []
        return _list_refusals(_find_set_fields(spec, self._pod_spec, path, ()), kept)

    def _find_type_fields(self, obj: Resource) -> _TypeFields | None:
        key = (obj.api_version, obj.kind)
        if key not in self._found:
            if len(self._found) >= _KINDS:  # custom ones may come and go
                self._found.clear()
            group, version = GroupVersion.parse(obj.api_version)
            self._found[key] = self._build_type_fields.get(f"{package(group)}.{version}.{obj.kind}")
        return self._found[key]


def _list_refusals(uses: Iterator[_UnavailableField], kept: set[Names] | frozenset[Names]) -> Errors:
    return [use.refusal for use in uses if use.refusal and use.names not in kept]


def _build_type_fields(
    definitions: Definitions,
    enums: Enums,
    is_off: Callable[[Field], bool],
    is_too_new: Callable[[Field | Value], bool],
) -> dict[str, _TypeFields]:
    parts = {name: _TypeFields() for name in definitions}
    for name, fields in definitions.items():
        for each in fields.values():
            if is_too_new(each) and each.name not in _SERVER_SET:
                parts[name].too_new.add(each.name)
            elif is_too_new(each) or is_off(each):
                parts[name].off.add(each.name)
            else:
                values = enums.get(each.holds, {})
                too_new = tuple(value for value, about in values.items() if is_too_new(about))
                if too_new:
                    supported = tuple(value for value in values if value not in too_new)
                    parts[name].values[each.name] = _EnumValues(too_new, supported)
    grown = True
    while grown:
        grown = False
        for name, fields in definitions.items():
            part = parts[name]
            for each in fields.values():
                below = parts.get(each.holds)
                if below is None or not below.has_any or each.name in part.below:
                    continue
                if each.name not in part.off | part.too_new:
                    part.below[each.name] = below
                    grown = True
    return {name: part for name, part in parts.items() if part.has_any}


@lru_cache(maxsize=1024)
def _fields_by_json_name(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {each.encode_name: each for each in msgspec.structs.fields(struct)}


def _find_set_fields(
    value: Any, part: _TypeFields, path: Path | None, names: Names, skipped: _TypeFields | None = None
) -> Iterator[_UnavailableField]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_set_fields(item, part, path.index(index) if path else None, names, skipped)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_set_fields(item, part, path.key(key) if path else None, names, skipped)
    elif isinstance(value, msgspec.Struct):
        fields = _fields_by_json_name(type(value))
        for name, below in part.below.items():
            inner = getattr(value, fields[name].name) if name in fields and below is not skipped else None
            if inner:
                yield from _find_set_fields(
                    inner, below, path.child(name) if path else Path(name), (*names, name), skipped
                )
        for name in (*part.off, *part.too_new, *part.values):
            if name not in fields:
                continue
            about = fields[name]
            used = getattr(value, about.name)
            if used or (about.default is None and used is not None):
                here = path.child(name) if path else Path(name)
                for found in _classify_set_field(used, part, about, here):
                    yield found._replace(names=(*names, *found.names), holder=value)


def _classify_set_field(
    used: Any, part: _TypeFields, about: msgspec.structs.FieldInfo, path: Path
) -> Iterator[_UnavailableField]:
    name = about.encode_name
    if name in part.off or (name in part.too_new and used == _SERVER_DEFAULTS.get(name)):
        yield _UnavailableField((name,), None, about, None)
    elif name in part.too_new:
        yield _UnavailableField((name,), None, about, field_errors.forbidden(path, DETAIL))
    else:
        for index, value in enumerate(used if isinstance(used, list) else [used]):
            if value in part.values[name].too_new:
                here = path.index(index) if isinstance(used, list) else path
                refusal = field_errors.not_supported(here, value, part.values[name].supported)
                yield _UnavailableField((name, value), None, about, refusal)
