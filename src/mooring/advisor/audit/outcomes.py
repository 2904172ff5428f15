"""What would happen to each object: asked of admission, the scheduler's engine and the eviction rules, not of a table.

`Outcomes.of` gives the findings about one object. A stored object is also asked whether it may still be updated
(ratcheting); for a template the question is about what controllers make from it. Called by ``auditor.py``; read next:
``admission_checks.py`` and ``pods.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from mooring.advisor.audit import admission_checks
from mooring.advisor.audit.admission_checks import AdmissionResult
from mooring.advisor.audit.made import Made, is_over, made_from
from mooring.advisor.audit.options import COMPATIBILITY, Options
from mooring.advisor.audit.pods import Pods
from mooring.advisor.audit.results import BREAKING, Effect, Finding, ObjectReference
from mooring.advisor.audit.uses import Use, Uses, value_at
from mooring.advisor.snapshot import Snapshot
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Node, PersistentVolume, Pod
from mooring.api.meta_v1 import Resource
from mooring.constraints import node_selector

_RETRIES = "controllers try again and again (with growing pauses)"


@dataclass(frozen=True, slots=True)
class Subject:
    """An object in the newest version of its kind, and what to call it."""

    object: Resource
    reference: ObjectReference


@dataclass(frozen=True, slots=True)
class _Answers:
    """The results of admission for one object."""

    made: Made | None
    create: AdmissionResult
    """About creating it, or what is made from it, that it does not say now; by fields of the object."""
    already: AdmissionResult
    """The same, of now."""
    update: AdmissionResult
    """About writing it back, that it does not say now."""


class Outcomes:
    """Find the effects."""

    def __init__(self, snapshot: Snapshot, options: Options, uses: Uses, pods: Pods, now: datetime) -> None:
        self._snapshot = snapshot
        self._options = options
        self._uses = uses
        self._pods = pods
        self._now = now

    def of(self, subject: Subject) -> Iterator[Finding]:
        """Yield the findings about an object: one per use, and one more if it can no longer be updated."""
        uses = self._uses.of(subject.object)
        if not uses:
            return
        tree = codec.to_tree(subject.object)
        if self._options.is_inventory:
            for use in uses:
                yield _finding(subject, use, tree, Effect.UNAFFECTED, self._unreadable(use))
            return
        answers = self._answers(subject)
        for use in uses:
            effect, message = self._effect(subject, use, answers)
            yield _finding(subject, use, tree, effect, message)
        for field, text in answers.update.refused.items():
            if subject.reference.stored:
                yield Finding(
                    object=subject.reference,
                    field=field,
                    feature=uses[0].feature,
                    proposal=uses[0].switch.proposal,
                    effect=Effect.UPDATE_REJECTED,
                    breaks=True,
                    message=f"it can no longer be updated: {text}",
                )

    def _answers(self, subject: Subject) -> _Answers:
        obj = subject.object
        now, then = self._options.now.admission, self._options.then.admission
        made = made_from(obj) if subject.reference.stored else None
        asked = made.object if made else obj
        before = admission_checks.create(asked, now, self._now)
        after = admission_checks.create(asked, then, self._now)
        if made is not None:
            before, after = _renamed(before, made), _renamed(after, made)
        update = AdmissionResult({})
        if subject.reference.stored:
            update = admission_checks.update(obj, then, self._now).beyond(admission_checks.update(obj, now, self._now))
        return _Answers(made, after.beyond(before), before, update)

    def _effect(self, subject: Subject, use: Use, answers: _Answers) -> tuple[Effect, str]:
        refusal = answers.create.refused.get(use.field, "")
        dropped = use.field in answers.create.dropped
        already = answers.already.refused.get(use.field) or next(iter(answers.already.refused.values()), "")
        if subject.reference.stored and answers.made is None and (refusal or dropped or self._goes_off(use)):
            return self._stored(subject.object, use)
        if already or use.field in answers.already.dropped:
            return Effect.ALREADY_OFF, f"a new one is {f'refused now as well: {already}' if already else 'changed now'}"
        if not refusal and not dropped:
            unreadable = self._unreadable(use)
            is_stuck = unreadable and subject.reference.stored and self._options.checks_stored
            return Effect.STORED_UNREADABLE if is_stuck else Effect.UNAFFECTED, unreadable
        over = is_over(subject.object)
        if over:
            return Effect.FINISHED, over
        what = f"new {answers.made.words} are" if answers.made else "it is"
        if dropped:
            return Effect.FIELD_DROPPED, f"{what} accepted without this field, and a warning says so"
        if isinstance(subject.object, DaemonSet):  # the controller itself asks whether a node tolerates its pods
            text = "no pods are made where its tolerations no longer match, and where they still do, they are refused"
            return Effect.CREATE_REJECTED, f"{text}: {refusal}"
        loop = f"; {_RETRIES}" if answers.made else ""
        return Effect.CREATE_REJECTED, f"{what} refused: {refusal}{loop}"

    def _unreadable(self, use: Use) -> str:
        if use.feature not in self._options.forced:
            return ""
        return f"the gate is forced on: servers of {self._options.oldest_reader} cannot read this"

    def _goes_off(self, use: Use) -> bool:
        return any(change.gate == use.feature and not change.enabled for change in self._options.changes)

    def _stored(self, obj: Resource, use: Use) -> tuple[Effect, str]:
        if use.feature == COMPATIBILITY and not isinstance(obj, Pod):
            return Effect.KEPT, "it stays as it is and may be updated; another one like it is refused"
        if isinstance(obj, Pod):
            fate = self._pods.fate(obj)
            return fate.effect, fate.why
        if isinstance(obj, PersistentVolume):
            before, after = (self._nodes_of(obj, then=then) for then in (False, True))
            if before and not after:
                return Effect.NEVER_MATCHES, f"{before} nodes can use the volume now, and then none"
            return Effect.KEPT, f"{before} nodes can use the volume now, and then {after}; another like it is refused"
        return Effect.KEPT, "it stays as it is and may be updated; another one like it is refused"

    def _nodes_of(self, volume: PersistentVolume, *, then: bool) -> int:
        options = (self._options.then if then else self._options.now).constraints
        nodes = self._snapshot.all(Node)
        return sum(node_selector.volume_matches(volume, node.metadata.labels, options) for node in nodes)


def _renamed(judgement: AdmissionResult, made: Made) -> AdmissionResult:
    return AdmissionResult(
        {made.path(field): text for field, text in judgement.refused.items()},
        frozenset(map(made.path, judgement.dropped)),
    )


def _finding(subject: Subject, use: Use, tree: object, effect: Effect, message: str) -> Finding:
    return Finding(
        object=subject.reference,
        field=use.field,
        value=value_at(tree, use.field),
        feature=use.feature,
        proposal=use.switch.proposal,
        needs=use.switch.needs,
        effect=effect,
        breaks=effect in BREAKING,
        message=message,
    )
