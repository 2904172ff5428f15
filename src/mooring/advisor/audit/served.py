"""Which API versions go away: for objects as they are written, for clients that wrote them, and for what is stored.

Called by ``auditor.py`` for every object, kinds that Mooring does not have included.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.advisor.audit.options import API, COMPATIBILITY, PROPOSALS, Options
from mooring.advisor.audit.results import Effect, Finding, ObjectReference
from mooring.advisor.snapshot import RawObject
from mooring.api.kinds import Kind

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Served:
    """Compare the API versions of both sides."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def of(self, raw: RawObject, reference: ObjectReference, *, as_stored: bool) -> Iterator[Finding]:
        """Yield effects of API versions on an object. `as_stored`: its version is the storage version."""
        options = self._options
        if options.is_inventory:
            return
        kind = options.now.scheme.kind(raw.api_version, raw.kind)
        if kind is None:
            yield from self._unknown(raw, reference)
            return
        if not as_stored:
            yield from self._written(kind, reference)
        elif not self._served(kind):
            yield self._lost(kind, reference, "apiVersion")
        yield from self._written_by_clients(raw, reference)
        stored = kind if as_stored else options.now.scheme.storage(kind)
        if reference.stored and kind.stored and not options.reads(stored):
            yield self._unreadable(stored, reference)

    def _unknown(self, raw: RawObject, reference: ObjectReference) -> Iterator[Finding]:
        removal = self._options.removal(raw.api_version, raw.kind)
        if removal is not None:
            yield Finding(
                object=reference,
                field="apiVersion",
                value=raw.api_version,
                feature=API,
                proposal=PROPOSALS[API],
                effect=Effect.NOT_SERVED,
                breaks=True,
                message=f"{raw.api_version} {raw.kind} is removed in {removal}",
            )

    def _written(self, kind: Kind, reference: ObjectReference) -> Iterator[Finding]:
        now, then = self._options.now.scheme, self._options.then.scheme
        if now.is_served(kind) and not then.is_served(kind):
            yield self._lost(kind, reference, "apiVersion")

    def _written_by_clients(self, raw: RawObject, reference: ObjectReference) -> Iterator[Finding]:
        version = _applied_version(raw.tree)
        scheme = self._options.now.scheme
        kind = scheme.kind(version, raw.kind) if version and version != raw.api_version else None
        if kind is not None and scheme.is_served(kind) and not self._options.then.scheme.is_served(kind):
            yield self._lost(kind, reference, f"metadata.annotations[{_APPLIED}]")

    def _served(self, kind: Kind) -> list[Kind]:
        now, then = self._options.now.scheme, self._options.then.scheme
        family = then.family(kind)
        if not any(now.is_served(each) for each in family):
            return list(family)
        return [each for each in family if then.is_served(each)]

    def _lost(self, kind: Kind, reference: ObjectReference, field: str) -> Finding:
        others = self._served(kind)
        then = self._options.then.scheme
        text = f"{kind.api_version} {kind.kind} is not served any more"
        if others:
            text += f"; what is stored can be reached as {others[0].api_version}"
        else:
            known = [each for each in then.family(kind) if each is not kind]
            text += "; what is stored stays, and nobody can reach it"
            if known:
                text += f" unless --runtime-config switches {' or '.join(each.api_version for each in known)} on"
        return Finding(
            object=reference,
            field=field,
            value=kind.api_version,
            feature=API,
            proposal=PROPOSALS[API],
            needs=str(kind.lifecycle.introduced),
            effect=Effect.NOT_SERVED,
            breaks=True,
            message=text,
        )

    def _unreadable(self, stored: Kind, reference: ObjectReference) -> Finding:
        scheme, oldest = self._options.then.scheme, self._options.oldest_reader
        storage = scheme.storage(stored)
        text = f"it is stored as {stored.api_version}, which {oldest} cannot read"
        if self._options.reads(storage):
            text += f"; written again, it is stored as {storage.api_version}"
        else:
            text += "; no version of the kind is known there: delete it before servers of that version start"
        return Finding(
            object=reference,
            field="apiVersion",
            value=stored.api_version,
            feature=COMPATIBILITY,
            proposal=PROPOSALS[COMPATIBILITY],
            needs=str(stored.lifecycle.introduced),
            effect=Effect.STORED_UNREADABLE,
            breaks=True,
            message=text,
        )


def _applied_version(tree: Any) -> str:
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    applied = annotations.get(_APPLIED) if isinstance(annotations, dict) else None
    if not isinstance(applied, str):
        return ""
    try:
        found = msgspec.json.decode(applied)
    except msgspec.DecodeError:
        return ""
    version = found.get("apiVersion") if isinstance(found, dict) else None
    return version if isinstance(version, str) else ""
