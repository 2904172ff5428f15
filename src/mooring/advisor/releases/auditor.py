"""An audit of two releases from end to end: every object, what becomes of it, and what to do about it.

    audit(dump([Path("cluster.yaml")]), Crossing.between("1.36", "1.34")).findings

Nothing is changed and nothing is asked of a server. The engine of ``mooring.advisor.audit``, emulating both releases,
is asked too, by ``played.py``: what admission refuses, and what becomes of pods.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from mooring.advisor.audit.auditor import reference_of
from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.lint.linter import without_logs
from mooring.advisor.releases import annotations, bystanders, definitions, fields, kinds, played, rights, steps
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Finding, ReleaseAudit
from mooring.advisor.releases.subjects import Subject
from mooring.advisor.snapshot import RawObject, Snapshot
from mooring.advisor.snapshot.objects import Identity
from mooring.api.kinds import GroupVersion


def audit(
    snapshot: Snapshot,
    crossing: Crossing,
    *,
    beside: Iterable[Finding] = (),
    plays: bool = True,
    now: datetime | None = None,
) -> ReleaseAudit:
    """Audit a snapshot. `beside`: other findings, such as about clients; `plays`: run the engine too."""
    now = now or datetime.now(UTC)
    raw = snapshot.raw()
    notes = [f"{plural} are left out: {why}" for plural, why in snapshot.forbidden.items()]
    notes += [str(note) for note in snapshot.notes if note.is_unread]
    found: list[Finding] = []
    references: dict[Identity, ObjectReference] = {}
    with without_logs():
        for each in raw:
            subject = subject_of(each, crossing)
            group, kind, _, name = each.identity
            references[group, kind, subject.reference.namespace, name] = subject.reference
            try:
                found += _evaluate(subject, crossing, now)
            except Exception as error:  # one object that Mooring fails on must not hide what happens to others
                notes.append(
                    f"{subject.reference}: not judged: Mooring failed: {type(error).__name__}; please report it"
                )
        found += beside
        if plays:
            found += played.findings(snapshot, crossing, references, found, now)
    return ReleaseAudit(
        origin=snapshot.origin,
        from_version=str(crossing.start),
        to_version=str(crossing.end),
        objects=len(raw),
        findings=found,
        steps=steps.of(found, crossing),
        notes=notes,
        unread=sorted(snapshot.forbidden),
    )


def _evaluate(subject: Subject, crossing: Crossing, now: datetime) -> Iterator[Finding]:
    yield from kinds.findings(subject, crossing)
    yield from bystanders.findings(subject, crossing)
    yield from rights.findings(subject, crossing)
    yield from definitions.findings(subject, crossing, now)
    yield from fields.findings(subject, crossing)
    yield from annotations.findings(subject, crossing)


def subject_of(raw: RawObject, crossing: Crossing) -> Subject:
    """Return the subject of an object."""
    served = crossing.history.kind(*GroupVersion.parse(raw.api_version), raw.kind)
    return Subject(raw, reference_of(raw, served.namespaced if served else bool(raw.namespace)), served)
