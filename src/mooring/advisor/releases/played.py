"""What Mooring's own engine says when it emulates the two releases: refusals, evictions, stuck pods.

Admission, the scheduler's engine and the eviction rules are asked twice, as `mooring audit` does for gates. To ask all
that of every object takes long, so admission of the release aimed at is asked first, once; only objects that it
complains about come to the engine, beside all nodes. What the history has told already is not told again. Called by
``auditor.py``.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from mooring.advisor.audit import Effect as Played
from mooring.advisor.audit import audit as play
from mooring.advisor.audit import judging
from mooring.advisor.audit import options as audit_options
from mooring.advisor.audit.judging import Judgement
from mooring.advisor.audit.made import made_from
from mooring.advisor.audit.options import Options
from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.audit.uses import content
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import Identity
from mooring.api.core_v1 import Node, Pod
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import ObjectMeta, Resource

_FATES = frozenset({Played.EVICTED, Played.STUCK_PENDING, Played.NEVER_MATCHES})
_ALL = ""
"""How every field begins: of what is not served at all, nothing more is said."""
_RULES = "x-kubernetes-validations"
"""Rules of custom kinds are judged by themselves: see ``definitions.py``."""
_RETRIES = "the controller tries again and again, with growing pauses"


class _Suspect(NamedTuple):
    """An object that admission judges otherwise there than here, and what is new about the judgement."""

    object: Resource
    judgement: Judgement


def findings(
    snapshot: Snapshot,
    crossing: Crossing,
    references: Mapping[Identity, ObjectReference],
    told: Iterable[Finding],
    now: datetime,
) -> Iterator[Finding]:
    """What is not told yet."""
    question = crossing.question()
    options = audit_options.build(question)
    suspects = list(_suspects(snapshot, options, now))
    if not suspects:
        return
    told_of = {(each.object, _ALL if each.field == "apiVersion" else each.field) for each in told}
    for suspect in suspects:
        reference = references.get(identity_of(suspect.object))
        for finding in _told(suspect, reference, options, now) if reference else ():
            if not any(finding.object == other and _concerns(finding.field, field) for other, field in told_of):
                yield finding
    for each in play(_only(suspects, snapshot), question, now=now).findings:
        if each.effect in _FATES and each.breaks:
            yield Finding(
                object=each.object,
                field=each.field,
                value=each.value,
                effect=Effect.STUCK,
                message=each.message,
                gate=each.feature,
            )


def _concerns(field: str, told: str) -> bool:
    """Whether a field is one that was told of, or in it, or has lost it and is refused as incomplete."""
    return field.startswith(told) or told.startswith(f"{field}.")


def _suspects(snapshot: Snapshot, options: Options, now: datetime) -> Iterator[_Suspect]:
    judged: dict[tuple[type[Resource], bytes], Judgement] = {}
    for kind in snapshot.kinds():
        for obj in snapshot.all(kind):
            if not judging.has_rules(obj):
                continue
            nameless = obj if isinstance(obj, Pod) else structs.replace(obj, metadata=ObjectMeta())
            key = (
                kind,
                content(nameless),
            )  # many objects are alike apart from their names, which no release decides about
            found = judged.get(key)
            if found is None:
                found = judging.create(obj, options.then.admission, now)
                if not found.is_clean:
                    found = found.beyond(judging.create(obj, options.now.admission, now))
                judged[key] = found
            if not found.is_clean:
                yield _Suspect(obj, found)


def _told(suspect: _Suspect, reference: ObjectReference, options: Options, now: datetime) -> Iterator[Finding]:
    """What is refused, and what that means for an object that is there, or is still to come.

    What is dropped the history has told, and only of fields that somebody has written.
    """
    obj = suspect.object
    made = made_from(obj) if reference.stored else None
    stays = False
    if reference.stored and made is None:
        stays = (
            not judging.update(obj, options.then.admission, now)
            .beyond(judging.update(obj, options.now.admission, now))
            .refused
        )
    for field, refusal in suspect.judgement.refused.items():
        if _RULES in field:
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


def _only(suspects: Iterable[_Suspect], snapshot: Snapshot) -> Snapshot:
    """The snapshot with some objects and all nodes."""
    kept = [*(each.object for each in suspects), *snapshot.all(Node)]
    names = {(*identity_of(obj)[:2], obj.metadata.name) for obj in kept}
    raw = [each for each in snapshot.raw() if (*each.identity[:2], each.name) in names]
    return Snapshot(snapshot.origin, kept, raw)


def identity_of(obj: Resource) -> Identity:
    """What an object is called in every version."""
    return GroupVersion.parse(obj.api_version).group, obj.kind, obj.metadata.namespace, obj.metadata.name
