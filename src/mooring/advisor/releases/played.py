"""What Mooring's own engine says of the two releases, where it can emulate both: refusals, evictions, stuck pods.

Admission, the scheduler's engine and the eviction rules are asked twice, as `mooring audit` does for gates. To ask all
that of every object takes long, so admission of the release aimed at is asked first, once; only objects that it
complains about come to the engine, beside all nodes. What the history has told already is not told again. Called by
``auditor.py``.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from mooring.advisor.audit import Effect as Played
from mooring.advisor.audit import audit as play
from mooring.advisor.audit import judging
from mooring.advisor.audit import options as audit_options
from mooring.advisor.audit.options import Options
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import Resource

_EFFECTS = {
    Played.CREATE_REJECTED: Effect.REFUSED,
    Played.UPDATE_REJECTED: Effect.REFUSED,
    Played.NEVER_MATCHES: Effect.STUCK,
    Played.FIELD_DROPPED: Effect.FIELD_OFF,
    Played.EVICTED: Effect.STUCK,
    Played.STUCK_PENDING: Effect.STUCK,
}


def findings(snapshot: Snapshot, crossing: Crossing, told: Iterable[Finding], now: datetime) -> Iterator[Finding]:
    """What is not told yet."""
    if not crossing.can_be_played:
        return
    question = crossing.question()
    suspects = list(_suspects(snapshot, audit_options.build(question), now))
    if not suspects:
        return
    fields = {(each.object, each.field) for each in told}
    for each in play(_only(suspects, snapshot), question, now=now).findings:
        if each.effect in _EFFECTS and each.breaks and (each.object, each.field) not in fields:
            yield Finding(
                object=each.object,
                field=each.field,
                value=each.value,
                effect=_EFFECTS[each.effect],
                message=each.message,
                gate=each.feature,
            )


def _suspects(snapshot: Snapshot, options: Options, now: datetime) -> Iterator[Resource]:
    """Objects that admission judges otherwise there than here."""
    for kind in snapshot.kinds():
        for obj in snapshot.all(kind):
            if judging.has_rules(obj):
                there = judging.create(obj, options.then.admission, now)
                if not there.is_clean and not there.beyond(judging.create(obj, options.now.admission, now)).is_clean:
                    yield obj


def _only(suspects: Iterable[Resource], snapshot: Snapshot) -> Snapshot:
    """The snapshot with some objects and all nodes."""
    kept = [*suspects, *snapshot.all(Node)]
    names = {_identity(obj) for obj in kept}
    raw = [each for each in snapshot.raw() if each.identity in names or each.kind == "Node"]
    return Snapshot(snapshot.origin, kept, raw)


def _identity(obj: Resource) -> tuple[str, str, str, str]:
    return GroupVersion.parse(obj.api_version).group, obj.kind, obj.metadata.namespace, obj.metadata.name
