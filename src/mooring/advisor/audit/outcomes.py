"""Find the effects of the target flags on each object, with admission, the scheduler's engine and the eviction rules.

`EffectFinder.find` yields the findings about one object. A stored object is also checked for updates (ratcheting); a
template, by what controllers create from it. Called by ``auditor.py``; read next: ``admission_checks.py``, ``pods.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from mooring.advisor.audit import admission_checks
from mooring.advisor.audit.admission_checks import (
    AdmissionResult,
    GatedUse,
    GatedUseFinder,
    GeneratedObject,
    build_generated_object,
    format_value_at,
    reason_not_creating,
)
from mooring.advisor.audit.options import AuditOptions
from mooring.advisor.audit.pods import PodEffectFinder
from mooring.advisor.audit.results import API, COMPATIBILITY, Effect, Finding, ObjectReference
from mooring.advisor.lint import specs
from mooring.advisor.snapshot import RawObject, Snapshot
from mooring.advisor.trees import as_mapping
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Affinity, Node, PersistentVolume, Pod, PodSpec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.constraints import annotations, node_selector

_RETRIES = "controllers try again and again (with growing pauses)"


@dataclass(frozen=True, slots=True)
class AuditedObject:
    """An object to audit, in the newest version of its kind, and its reference for findings."""

    object: Resource
    reference: ObjectReference


@dataclass(frozen=True, slots=True)
class _AdmissionComparison:
    """The fields of one object that admission treats differently with the current and with the target flags."""

    made: GeneratedObject | None
    create: AdmissionResult
    """The fields that creating the object, or objects made from it, would have rejected with the target flags only."""
    already: AdmissionResult
    """The fields that admission rejects or drops with the current flags already."""
    update: AdmissionResult
    """The fields that an update of the stored object would have rejected with the target flags only."""


@dataclass(frozen=True, slots=True)
class EffectFinder:
    """Finds the effects of the target flags on the gated fields of objects."""

    snapshot: Snapshot
    options: AuditOptions
    uses: GatedUseFinder
    pods: PodEffectFinder
    now: datetime

    def find(self, subject: AuditedObject) -> Iterator[Finding]:
        """Yield a finding for each gated field of an object, and for each that makes updates of it fail."""
        uses = self.uses.find(subject.object)
        if not uses:
            return
        tree = codec.to_tree(subject.object)
        if self.options.is_inventory:
            for use in uses:
                yield build_use_finding(subject.reference, use, tree, Effect.UNAFFECTED, self._explain_unreadable(use))
            return
        answers = self._compare_admission(subject)
        for use in uses:
            effect, message = self._effect_on_use(subject, use, answers)
            yield build_use_finding(subject.reference, use, tree, effect, message)
        for field, text in answers.update.refused.items():
            if subject.reference.stored:
                yield Finding(
                    object=subject.reference,
                    field=field,
                    feature=uses[0].feature,
                    effect=Effect.UPDATE_REJECTED,
                    message=f"it can no longer be updated: {text}",
                )

    def _compare_admission(self, subject: AuditedObject) -> _AdmissionComparison:
        obj = subject.object
        now, then = self.options.now.admission, self.options.then.admission
        made = build_generated_object(obj) if subject.reference.stored else None
        asked = made.object if made else obj
        before = admission_checks.try_create(asked, now, self.now)
        after = admission_checks.try_create(asked, then, self.now)
        if made is not None:
            before, after = _with_source_paths(before, made), _with_source_paths(after, made)
        update = AdmissionResult({})
        if subject.reference.stored:
            update = admission_checks.try_update(obj, then, self.now).subtract(
                admission_checks.try_update(obj, now, self.now)
            )
        return _AdmissionComparison(made, after.subtract(before), before, update)

    def _effect_on_use(
        self, subject: AuditedObject, use: GatedUse, answers: _AdmissionComparison
    ) -> tuple[Effect, str]:
        refusal = answers.create.refused.get(use.field, "")
        dropped = use.field in answers.create.dropped
        already = answers.already.refused.get(use.field) or next(iter(answers.already.refused.values()), "")
        is_lost = refusal or dropped or self.options.turns_gate_off(use.feature)
        if subject.reference.stored and answers.made is None and is_lost:
            return self._stored_effect(subject.object, use)
        if already or use.field in answers.already.dropped:
            return Effect.ALREADY_OFF, f"a new one is {f'refused now as well: {already}' if already else 'changed now'}"
        if not refusal and not dropped:
            unreadable = self._explain_unreadable(use)
            is_stuck = unreadable and subject.reference.stored and self.options.checks_stored
            return Effect.STORED_UNREADABLE if is_stuck else Effect.UNAFFECTED, unreadable
        over = reason_not_creating(subject.object)
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

    def _explain_unreadable(self, use: GatedUse) -> str:
        if use.feature not in self.options.forced:
            return ""
        return f"the gate is forced on: servers of {self.options.oldest_reader} cannot read this"

    def _stored_effect(self, obj: Resource, use: GatedUse) -> tuple[Effect, str]:
        if isinstance(obj, Pod):
            effect = self.pods.effect_on(obj)
            return effect.effect, effect.why
        if isinstance(obj, PersistentVolume) and use.feature != COMPATIBILITY:
            nodes = self.snapshot.all(Node)
            before, after = (
                sum(node_selector.volume_matches(obj, node.metadata.labels, side.constraints) for node in nodes)
                for side in (self.options.now, self.options.then)
            )
            if before and not after:
                return Effect.NEVER_MATCHES, f"{before} nodes can use the volume now, and then none"
            return Effect.KEPT, f"{before} nodes can use the volume now, and then {after}; another like it is refused"
        return Effect.KEPT, "it stays as it is and may be updated; another one like it is refused"


def _with_source_paths(admission: AdmissionResult, made: GeneratedObject) -> AdmissionResult:
    return AdmissionResult(
        {made.source_path(field): text for field, text in admission.refused.items()},
        frozenset(map(made.source_path, admission.dropped)),
    )


def build_use_finding(
    reference: ObjectReference, use: GatedUse, tree: object, effect: Effect, message: str, *, field: str = ""
) -> Finding:
    """Build the finding about one gated field of an object, given as the dict `tree`."""
    return Finding(
        object=reference,
        field=field or use.field,
        value=format_value_at(tree, use.field),
        feature=use.feature,
        needs=use.switch.needs,
        effect=effect,
        message=message,
    )


_UNBROKEN = "the bridge says it in stock words, which no gate decides about"
_PLACES = {
    "spec.tolerations": annotations.TOLERATIONS,
    "spec.affinity.nodeAffinity": annotations.NODE_AFFINITY,
}


def find_bridged_uses(subject: AuditedObject, uses: GatedUseFinder) -> Iterator[Finding]:
    """Yield findings about constraints in the annotations of a pod or template that the bridge evaluates."""
    at = specs.find_pod_spec(subject.object)
    if at is None or not annotations.has_constraints(at.annotations):
        return
    gates = {gate.name for gate in at.spec.scheduling_gates}
    if isinstance(subject.object, Pod) and annotations.GATE not in gates:  # the bridge has lowered them
        return
    try:
        said = annotations.read(at.annotations)
    except annotations.AnnotationError:
        return
    spec = PodSpec(tolerations=list(said.tolerations), affinity=Affinity(node_affinity=said.node_affinity))
    pod = Pod(spec=spec)
    tree = codec.to_tree(pod)
    for use in uses.find(pod):
        place = next((place for place in _PLACES if use.field.startswith(place)), None)
        if place is None or use.feature == COMPATIBILITY:  # every server can read an annotation
            continue
        field = f"{at.annotations_path}[{_PLACES[place]}]{use.field.removeprefix(place)}"
        yield build_use_finding(subject.reference, use, tree, Effect.UNAFFECTED, _UNBROKEN, field=field)


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class ApiVersionFinder:
    """Find objects whose API version is served with the current or the target flags, but not with both."""

    options: AuditOptions

    def find(self, raw: RawObject, reference: ObjectReference, *, as_stored: bool) -> Iterator[Finding]:
        """Yield findings if the target flags stop serving the object's API version or reading its storage version."""
        options = self.options
        if options.is_inventory:
            return
        kind = options.now.scheme.kind(raw.api_version, raw.kind)
        if kind is None:
            removal = options.describe_removal(raw.api_version, raw.kind)
            if removal is not None:
                text = f"{raw.api_version} {raw.kind} is removed in {removal}"
                yield _build_version_finding(reference, raw.api_version, Effect.NOT_SERVED, text)
            return
        is_lost = not self._served_versions(kind) if as_stored else self._is_no_longer_served(kind)
        if is_lost:
            yield self._lost_finding(kind, reference, "apiVersion")
        applied = last_applied_version(raw.tree)
        written = options.now.scheme.kind(applied, raw.kind) if applied not in ("", raw.api_version) else None
        if written is not None and self._is_no_longer_served(written):
            yield self._lost_finding(written, reference, f"metadata.annotations[{_APPLIED}]")
        stored = kind if as_stored else options.now.scheme.storage(kind)
        if reference.stored and kind.stored and not options.can_read(stored):
            yield self._build_unreadable_finding(stored, reference)

    def _is_no_longer_served(self, kind: Kind) -> bool:
        return self.options.now.scheme.is_served(kind) and not self.options.then.scheme.is_served(kind)

    def _served_versions(self, kind: Kind) -> list[Kind]:
        now, then = self.options.now.scheme, self.options.then.scheme
        family = then.family(kind)
        if not any(now.is_served(each) for each in family):
            return list(family)
        return [each for each in family if then.is_served(each)]

    def _lost_finding(self, kind: Kind, reference: ObjectReference, field: str) -> Finding:
        others = self._served_versions(kind)
        then = self.options.then.scheme
        text = f"{kind.api_version} {kind.kind} is not served any more"
        if others:
            text += f"; what is stored can be reached as {others[0].api_version}"
        else:
            known = [each for each in then.family(kind) if each is not kind]
            text += "; stored objects stay, and no client can read them"
            if known:
                text += f" unless --runtime-config switches {' or '.join(each.api_version for each in known)} on"
        needs = str(kind.lifecycle.introduced)
        return _build_version_finding(reference, kind.api_version, Effect.NOT_SERVED, text, field=field, needs=needs)

    def _build_unreadable_finding(self, stored: Kind, reference: ObjectReference) -> Finding:
        scheme, oldest = self.options.then.scheme, self.options.oldest_reader
        storage = scheme.storage(stored)
        text = f"it is stored as {stored.api_version}, which {oldest} cannot read"
        if self.options.can_read(storage):
            text += f"; written again, it is stored as {storage.api_version}"
        else:
            text += "; no version of the kind is known there: delete it before servers of that version start"
        needs = str(stored.lifecycle.introduced)
        return _build_version_finding(reference, stored.api_version, Effect.STORED_UNREADABLE, text, needs=needs)


def _build_version_finding(
    reference: ObjectReference, version: str, effect: Effect, text: str, *, field: str = "apiVersion", needs: str = ""
) -> Finding:
    feature = COMPATIBILITY if effect is Effect.STORED_UNREADABLE else API
    return Finding(
        object=reference, field=field, value=version, feature=feature, needs=needs, effect=effect, message=text
    )


def last_applied_version(tree: Any) -> str:
    """Return the apiVersion of the manifest that `kubectl apply` last applied; empty if there is none."""
    applied = as_mapping(as_mapping(as_mapping(tree).get("metadata")).get("annotations")).get(_APPLIED)
    try:
        version = as_mapping(msgspec.json.decode(applied)).get("apiVersion") if isinstance(applied, str) else ""
    except (msgspec.DecodeError, RecursionError):
        return ""
    return version if isinstance(version, str) else ""
