"""Admit one write of a batch in full, and store later writes with the same template by its result.

A batch may contain writes that share JSON (the template), each with its own values (its row): ``api/batch_writes.py``.
The first is admitted in full; what is stored of it, without the row's values (``admission/rows.py``), is kept.
`CreationTemplate` builds the new objects of later rows from it. `ChangeTemplate` keeps it beside the object that was
replaced, and reuses it for objects that equal that one except for row values. Values of rows must be valid. Templates
are not used if policies or webhooks match, a quota counts a changed object, or the JSON itself has a value that differs
between rows. Used by ``changes.py`` and ``deleting.py``; a template lives as long as a request.
"""

from collections.abc import Sequence
from operator import attrgetter, eq
from typing import cast

import msgspec
from msgspec.structs import replace

from mooring.admission import pipeline, rows
from mooring.admission.rows import PodSpecExcerpt, PodWithEncodedSpec
from mooring.api import codec
from mooring.api.batch_writes import Row
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages.http import JSON, Request
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.storage.stored import Stored
from mooring.store.kv import KeyValue

_MAX_KEPT = 16
"""The maximum number of cached outcomes of a batch template."""

_MAX_MISSES = 32
_WRITTEN_VALUES = ("pod_name_label", "pod_index_label", "zone_label", "pod_ip", "host_ip")
"""The values of a row that a status update writes, besides container ids."""
_written_values_of = attrgetter(*_WRITTEN_VALUES)
_PLACED_VALUES = (*_WRITTEN_VALUES, "node_name", "target_node", "hostname", "container_ids")
_SHARED_PATCHES = frozenset(f"application/{way}+json" for way in ("merge-patch", "strategic-merge-patch"))


class ReusedAdmission(msgspec.Struct, frozen=True):
    """The stored form of a write of a batch that reused an earlier one's admission, and the uid of its object."""

    value: bytes
    is_gone: bool
    uid: str


class _CachedAdmission(msgspec.Struct, frozen=True):
    """The admitted result of one write of a batch, without the values that differ between the batch's objects."""

    before: Resource | PodWithEncodedSpec
    read: PodSpecExcerpt | None
    after: Resource | PodWithEncodedSpec
    is_gone: bool
    pattern: tuple[bool, ...]


class _RowTemplate:
    _placed_values_of = attrgetter(*_PLACED_VALUES)

    def __init__(self, placeholders: Row | None) -> None:
        self._placeholders = placeholders
        """Which values the JSON takes from its rows; None if it is a patch or a deletion, which take none."""
        self._taken = None if placeholders is None else (*map(bool, self._placed_values_of(placeholders)),)

    def takes(self, row: Row | None) -> bool:
        """Return whether a row has exactly the values that the template lacks; if not, its write is admitted alone."""
        if row is None or self._placeholders is None:
            return True
        is_complete = (*map(bool, self._placed_values_of(row)),) == self._taken
        return is_complete and len(row.container_ids) == len(self._placeholders.container_ids)


class CreationTemplate(_RowTemplate):
    """The admitted object of a batch's first create, from which the objects of later rows are built."""

    _placed_values_of = attrgetter(*_PLACED_VALUES, "name")
    _admitted: Resource | None = None
    """The first object without its per-row values; None until it is admitted."""
    _created = ""
    _warnings: Sequence[str] = ()

    def takes(self, row: Row | None) -> bool:
        return (row is None or not row.resource_version) and super().takes(row)

    def keep(self, obj: Resource, warnings: Sequence[str]) -> None:
        """Keep an object that passed full admission, unless a rule derived one of its fields from its row."""
        if rows.may_share_admission(obj):
            self._admitted, first = rows.split_template(obj)
            self._created, self._warnings = first.creation_timestamp, (*warnings,)

    def build_object(self, call: Call) -> Resource | None:
        """Return the admitted object of a call's row, and warn as for the first; None if it needs full admission."""
        row = call.request.row
        if self._admitted is None or row is None or not rows.is_valid_row(row):
            return None
        call.warn(*self._warnings)
        return pipeline.create_from_template(self._admitted, replace(row, creation_timestamp=self._created))


class ChangeTemplate(_RowTemplate):
    """The outcomes of a batch's first updates or deletions, reused for later ones of equal objects."""

    def __init__(self, placeholders: Row | None, *, keeps_spec: bool) -> None:
        super().__init__(placeholders)
        self._keeps_spec = keeps_spec
        """Whether the writes leave the spec unchanged, and no rule reads more of it than `PodSpecExcerpt` contains."""
        self._kept: list[_CachedAdmission] = []
        self._is_usable = True
        self._misses = 0

    def reuse(self, stored: Stored, kv: KeyValue, given: Row | None) -> ReusedAdmission | None:
        """Return what a write would store, if an earlier write of the batch changed an equal object; else None.

        `given` are the object's own values (row) if the update writes them.
        """
        if not self._kept or (given is not None and not rows.is_valid_row(given)):
            return None
        old = self._decode_object(stored, kv.value)
        own, read = rows.extract_row(old), _read_spec(old)
        pattern = _kept_values(own, given)
        for kept in self._kept:
            if kept.pattern == pattern and kept.read == read and _is_equal(kept.before, old):
                self._misses = 0
                return ReusedAdmission(_fill_row(stored, kept, old, _merge_rows(own, given)), kept.is_gone, own.uid)
        self._misses += 1
        if self._misses >= _MAX_MISSES:
            self._is_usable, self._kept = False, []  # the stored objects are not of one template
        return None

    def keep(self, stored: Stored, kv: KeyValue, value: bytes, given: Row | None, *, is_gone: bool) -> None:
        """Cache the result of a write that passed full admission, for reuse by later writes of the batch."""
        if not self._is_usable or len(self._kept) >= _MAX_KEPT:
            return
        before, after = self._decode_object(stored, kv.value), self._decode_object(stored, value)
        own, written = rows.extract_row(before), rows.extract_row(after)
        has_other_spec = (
            isinstance(before, PodWithEncodedSpec)
            and isinstance(after, PodWithEncodedSpec)
            and before.spec != after.spec
        )
        if written != _merge_rows(own, given) or has_other_spec:
            self._is_usable, self._kept = False, []  # the write changes more than the row's values
        else:
            self._kept.append(_CachedAdmission(before, _read_spec(before), after, is_gone, _kept_values(own, given)))

    def _decode_object(self, stored: Stored, value: bytes) -> Resource | PodWithEncodedSpec:
        return codec.decode_own(value, PodWithEncodedSpec) if self._keeps_spec else stored.decode(value, 0)


def make_template(request: Request, verb: str, subresource: str) -> CreationTemplate | ChangeTemplate | None:
    """Return the template of a batch's rows; None if its JSON has values that differ between them."""
    keeps_spec = subresource == "status"
    if verb == "delete":
        return ChangeTemplate(None, keeps_spec=True)
    if verb == "patch":
        may_share = request.content_type in _SHARED_PATCHES and rows.is_patch_of_other_fields(request.body)
        return ChangeTemplate(None, keeps_spec=keeps_spec) if may_share else None
    placeholders = rows.read_placeholders(request.body) if request.content_type == JSON else None
    if placeholders is None:
        return None
    return CreationTemplate(placeholders) if verb == "create" else ChangeTemplate(placeholders, keeps_spec=keeps_spec)


def _read_spec(obj: Resource | PodWithEncodedSpec) -> PodSpecExcerpt | None:
    return rows.decode_spec_excerpt(obj) if isinstance(obj, PodWithEncodedSpec) else None


def _is_equal(before: Resource | PodWithEncodedSpec, old: Resource | PodWithEncodedSpec) -> bool:
    if isinstance(before, PodWithEncodedSpec) and isinstance(old, PodWithEncodedSpec):
        return before.metadata == old.metadata and before.status == old.status
    return before == old


def _fill_row(stored: Stored, kept: _CachedAdmission, old: Resource | PodWithEncodedSpec, row: Row) -> bytes:
    """Return an earlier write's stored result with the values that are this object's own (row)."""
    after = kept.after
    rows.insert_row(after, row)
    if isinstance(after, PodWithEncodedSpec) and isinstance(old, PodWithEncodedSpec):
        after.spec = old.spec
        value = codec.encode(after)
    else:
        value = stored.encode(cast("Resource", after))
    rows.extract_row(after)
    return value


def _merge_rows(own: Row, given: Row | None) -> Row:
    """Return an object's own values (row) after a write: those the client sent, else the stored ones."""
    if given is None:
        return own
    values = dict(zip(_WRITTEN_VALUES, _written_values_of(given), strict=True))
    return replace(own, container_ids=given.container_ids, **values)


def _kept_values(own: Row, given: Row | None) -> tuple[bool, ...]:
    """Return, for each value in a row, whether an update keeps it; this decides which fields change managers."""
    if given is None:
        return ()
    return (
        *map(eq, _written_values_of(own), _written_values_of(given)),
        *map(eq, own.container_ids, given.container_ids),
    )
