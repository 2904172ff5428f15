"""Audit a snapshot for a change of release: find affected objects, and the steps to take.

    audit(dump([Path("cluster.yaml")]), Crossing.between("1.36", "1.34")).findings

Nothing is changed and no server is called. The engine of ``mooring.advisor.audit``, emulating both releases, is used
too, by `simulated_findings`: for rejections by admission, and effects on pods.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import structs

from mooring.advisor.audit import Effect as Played
from mooring.advisor.audit import admission_checks
from mooring.advisor.audit import audit as play
from mooring.advisor.audit import options as audit_options
from mooring.advisor.audit.admission_checks import AdmissionResult, build_generated_object, content_key
from mooring.advisor.audit.auditor import reference_of
from mooring.advisor.audit.options import AuditOptions
from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.lint.linter import without_logs
from mooring.advisor.releases import checks, fields, rights, steps
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding, ReleaseAudit
from mooring.advisor.releases.subjects import ReleaseObject
from mooring.advisor.snapshot import RawObject, Snapshot
from mooring.advisor.snapshot.objects import Identity
from mooring.api.core_v1 import Node, Pod
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import ObjectMeta, Resource


def audit(
    snapshot: Snapshot,
    crossing: Crossing,
    *,
    beside: Iterable[Finding] = (),
    plays: bool = True,
    now: datetime | None = None,
) -> ReleaseAudit:
    """Return the objects of a snapshot that a change of release affects, and the steps to take.

    `beside` are further findings to include. `plays`: also run admission and the scheduler of both releases."""
    now = now or datetime.now(UTC)
    raw = snapshot.raw()
    notes = [f"{plural} are left out: {why}" for plural, why in snapshot.forbidden.items()]
    notes += [str(note) for note in snapshot.notes if note.is_unread]
    found: list[Finding] = []
    references: dict[Identity, ObjectReference] = {}
    with without_logs():
        for each in raw:
            subject = build_subject(each, crossing)
            group, kind, _, name = each.identity
            references[group, kind, subject.reference.namespace, name] = subject.reference
            try:
                found += _audit_object(subject, crossing, now)
            except Exception as error:  # one object that Mooring fails on must not hide what happens to others
                notes.append(
                    f"{subject.reference}: not checked: Mooring failed: {type(error).__name__}; please report it"
                )
        found += beside
        if plays:
            found += simulated_findings(snapshot, crossing, references, found, now)
    return ReleaseAudit(
        origin=snapshot.origin,
        from_version=str(crossing.start),
        to_version=str(crossing.end),
        objects=len(raw),
        findings=found,
        steps=steps.build_steps(found, crossing),
        notes=notes,
        unread=sorted(snapshot.forbidden),
    )


def _audit_object(subject: ReleaseObject, crossing: Crossing, now: datetime) -> Iterator[Finding]:
    yield from checks.check_versions(subject, crossing)
    yield from checks.check_bystanders(subject, crossing)
    yield from rights.check_rights(subject, crossing)
    yield from checks.check_expressions(subject, crossing, now)
    yield from fields.check_fields(subject, crossing)
    yield from checks.check_annotations(subject, crossing)


def build_subject(raw: RawObject, crossing: Crossing) -> ReleaseObject:
    """Return an object of a snapshot with its reference for findings and the history of its kind."""
    served = crossing.history.kind(*GroupVersion.parse(raw.api_version), raw.kind)
    return ReleaseObject(raw, reference_of(raw, served.namespaced if served else bool(raw.namespace)), served)


_FATES = frozenset({Played.EVICTED, Played.STUCK_PENDING, Played.NEVER_MATCHES})
_ALL = ""
"""The field path of a whole object: if its kind is not served, findings about its fields are omitted."""
_CEL_RULES_FIELD = "x-kubernetes-validations"
"""The field of CEL rules in a CustomResourceDefinition; ``checks.py`` reports refusals below it."""
_RETRIES = "the controller tries again and again, with growing pauses"


class _Suspect(NamedTuple):
    """An object that admission in the target release rejects or changes, and the rejected and dropped fields."""

    object: Resource
    admission: AdmissionResult


def simulated_findings(
    snapshot: Snapshot,
    crossing: Crossing,
    references: Mapping[Identity, ObjectReference],
    earlier: Iterable[Finding],
    now: datetime,
) -> Iterator[Finding]:
    """Run admission and the scheduler of both releases; yield findings on differences that `earlier` does not have."""
    question = crossing.build_question()
    options = audit_options.build_options(question)
    suspects = list(_find_suspects(snapshot, options, now))
    if not suspects:
        return
    reported = {(each.object, _ALL if each.field == "apiVersion" else each.field) for each in earlier}
    for suspect in suspects:
        reference = references.get(identity_of(suspect.object))
        for finding in _explain_refusal(suspect, reference, options, now) if reference else ():
            if not any(finding.object == other and _overlaps(finding.field, field) for other, field in reported):
                yield finding
    kept = [*(each.object for each in suspects), *snapshot.all(Node)]
    names = {(*identity_of(obj)[:2], obj.metadata.name) for obj in kept}
    raw = [each for each in snapshot.raw() if (*each.identity[:2], each.name) in names]
    for each in play(Snapshot(snapshot.origin, kept, raw), question, now=now).findings:
        if each.effect in _FATES and each.breaks:
            yield Finding(
                object=each.object,
                field=each.field,
                value=each.value,
                effect=Effect.STUCK,
                message=each.message,
                gate=each.feature,
            )


def _overlaps(field: str, text: str) -> bool:
    return field.startswith(text) or text.startswith(f"{field}.")


def _find_suspects(snapshot: Snapshot, options: AuditOptions, now: datetime) -> Iterator[_Suspect]:
    results: dict[tuple[type[Resource], bytes], AdmissionResult] = {}
    for kind in snapshot.kinds():
        for obj in snapshot.all(kind):
            if not admission_checks.has_admission_rules(obj):
                continue
            # Many objects differ only in their names, which do not matter.
            key = kind, content_key(obj if isinstance(obj, Pod) else structs.replace(obj, metadata=ObjectMeta()))
            found = results.get(key)
            if found is None:
                found = admission_checks.try_create(obj, options.then.admission, now)
                if not found.is_clean:
                    found = found.subtract(admission_checks.try_create(obj, options.now.admission, now))
                results[key] = found
            if not found.is_clean:
                yield _Suspect(obj, found)


def _explain_refusal(
    suspect: _Suspect, reference: ObjectReference, options: AuditOptions, now: datetime
) -> Iterator[Finding]:
    """Yield findings about fields of an object that admission in the target release rejects."""
    obj = suspect.object
    made = build_generated_object(obj) if reference.stored else None
    stays = False
    if reference.stored and made is None:
        after = admission_checks.try_update(obj, options.then.admission, now)
        stays = not after.subtract(admission_checks.try_update(obj, options.now.admission, now)).refused
    for field, refusal in suspect.admission.refused.items():
        if _CEL_RULES_FIELD in field:
            continue
        if made is not None and field.startswith(made.there):
            text = f"new {made.words} are refused, and {_RETRIES}; those that are there stay"
        elif stays:
            text = "it stays and may be updated; another one like it is refused"
        elif reference.stored:
            text = "the next update of the object is refused unless it takes it away"
        else:
            text = "it cannot be created so"
        severity = "info" if stays else ""
        message = f"{refusal.partition(': ')[2]}: {text}"
        yield Finding(object=reference, field=field, effect=Effect.REFUSED, severity=severity, message=message)


def identity_of(obj: Resource) -> Identity:
    """Return the group, kind, namespace and name of an object, which do not depend on its API version."""
    return GroupVersion.parse(obj.api_version).group, obj.kind, obj.metadata.namespace, obj.metadata.name
