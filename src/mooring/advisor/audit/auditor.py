"""Run an audit from end to end: find gated fields in the objects of a snapshot, what the target flags break, and the
steps to take.

    question = ask(component.resolve(), disable=["TaintTolerationComparisonOperators"])
    audit(snapshot, question).findings

Nothing is changed and no server is called: effects are computed with admission, the scheduler's engine and the eviction
rules under the target options. ``rehearsal.py`` compares them with what happens on a copy.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mooring.advisor.audit import admission_checks
from mooring.advisor.audit import options as audit_options
from mooring.advisor.audit.admission_checks import GatedUse, GatedUseFinder
from mooring.advisor.audit.options import AuditOptions, Question
from mooring.advisor.audit.outcomes import (
    ApiVersionFinder,
    AuditedObject,
    EffectFinder,
    build_use_finding,
    find_bridged_uses,
)
from mooring.advisor.audit.pods import PodEffectFinder
from mooring.advisor.audit.results import Audit, Effect, Finding, ObjectReference
from mooring.advisor.audit.steps import Steps
from mooring.advisor.lint.linter import without_logs
from mooring.advisor.policies import policies_of
from mooring.advisor.snapshot import RawObject, Snapshot
from mooring.advisor.snapshot.namespace_rules import NamespaceRules
from mooring.advisor.trees import as_list, as_mapping
from mooring.api import codec, core_v1
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.core_v1 import Node, ResourceQuota
from mooring.api.meta_v1 import Resource
from mooring.constraints import node_selector
from mooring.scheduler.facade import CONFIG_API_VERSION, CONFIG_KIND, ProfileSpec, added_affinity

_DEFAULT_NAMESPACE = "default"
_MAX_REFUSED = 50


def audit(
    snapshot: Snapshot,
    question: Question,
    *,
    profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
    scheduler_config_file: Path | None = None,
    has_stored_versions: bool = False,
    now: datetime | None = None,
) -> Audit:
    """Find the objects of a snapshot that break under the target flags of a question, and the steps against it.

    `has_stored_versions`: the objects have their storage versions.
    """
    with without_logs():
        return _Auditor(snapshot, question, profiles, now or datetime.now(UTC)).run(
            str(scheduler_config_file or ""), has_stored_versions=has_stored_versions
        )


class _Auditor:
    def __init__(self, snapshot: Snapshot, question: Question, profiles: Sequence[ProfileSpec], now: datetime) -> None:
        self._snapshot = snapshot
        self._question = question
        self._profiles = profiles
        self._options = audit_options.build_options(question)
        self._uses = GatedUseFinder(self._options, now)
        self._pods = PodEffectFinder(snapshot, self._options, now, profiles)
        self._outcomes = EffectFinder(snapshot, self._options, self._uses, self._pods, now)
        self._served = ApiVersionFinder(self._options)
        missing = [f"{plural} are left out: {why}" for plural, why in snapshot.forbidden.items()]
        self._notes = [*question.notes, *map(str, snapshot.notes), *missing]

    def run(self, config_file: str, *, has_stored_versions: bool) -> Audit:
        raw = self._snapshot.raw()
        subjects: dict[ObjectReference, AuditedObject] = {}
        findings: list[Finding] = []
        for each in raw:
            reference = reference_of(each, _is_namespaced(each, self._options))
            findings += self._served.find(each, reference, as_stored=has_stored_versions)
            obj = _decode_object(each, self._options)
            if obj is not None:
                subjects[reference] = AuditedObject(obj, reference)
                findings += self._audit_object(subjects[reference])
        self._notes += _policy_notes(self._snapshot, subjects.values())
        if self._snapshot.all(ResourceQuota):
            rules = NamespaceRules.from_snapshot(self._snapshot)
            refused = ((each.reference, rules.refusal_if_recreated(each.object)) for each in subjects.values())
            self._notes += _format_refusals(refused, "quotas")
        findings += self._affected_pod_findings(findings, subjects)
        findings += scheduler_config_findings(self._profiles, config_file, self._snapshot, self._options, self._uses)
        options = self._options
        return Audit(
            origin=self._snapshot.origin,
            current=options.now.flags,
            target=None if options.is_inventory else options.then.flags,
            gates=list(options.changes),
            objects=len(raw),
            findings=findings,
            steps=Steps(self._snapshot, options, subjects).list_all(findings),
            notes=self._notes,
            unread=sorted(self._snapshot.forbidden),
        )

    def _audit_object(self, subject: AuditedObject) -> list[Finding]:
        try:
            return [*self._outcomes.find(subject), *find_bridged_uses(subject, self._uses)]
        except Exception as error:  # one object that Mooring fails on must not hide what happens to others
            failure = f"Mooring failed: {type(error).__name__}: {error}; please report it"
            self._notes.append(f"{subject.reference}: not checked: {failure}")
            return []

    def _affected_pod_findings(
        self, findings: Iterable[Finding], subjects: dict[ObjectReference, AuditedObject]
    ) -> Iterator[Finding]:
        text = {finding.object for finding in findings if finding.object.kind == "Pod"}
        gone = next((change for change in self._options.changes if not change.enabled), None)
        by_name = {(r.namespace, r.name): r for r in subjects if r.kind == "Pod" and r.stored}
        for pod, effect in self._pods.affected_pods():
            reference = by_name.get((pod.metadata.namespace, pod.metadata.name))
            if reference is not None and reference not in text and gone is not None:
                yield Finding(
                    object=reference,
                    feature=gone.gate,
                    effect=effect.effect,
                    message=f"{effect.why} (because of what it refers to)",
                )


def _policy_notes(snapshot: Snapshot, subjects: Iterable[AuditedObject]) -> list[str]:
    policies = policies_of(snapshot)
    if policies.is_idle:
        return []
    shown = [(subject.reference, policies.verdict(subject.object)) for subject in subjects]
    refused = ((reference, verdict.refused) for reference, verdict in shown)
    asked = Counter(text for _, verdict in shown for text in verdict.webhooks)
    webhooks = [
        f"the {text} is called when {count} of these objects are created again" for text, count in asked.items()
    ]
    return _format_refusals(refused, "policies") + webhooks


def _format_refusals(found: Iterable[tuple[ObjectReference, str]], who: str) -> list[str]:
    refused = [f"{reference}: would be refused if it were created again: {why}" for reference, why in found if why]
    more = len(refused) - _MAX_REFUSED
    return refused if more <= 0 else [*refused[:_MAX_REFUSED], f"{who} would refuse {more} more objects"]


def audited_objects_of(snapshot: Snapshot, question: Question) -> list[AuditedObject]:
    """Return all decodable objects of a snapshot with their references, for a rehearsal of the audit."""
    options = audit_options.build_options(question)
    found = ((_decode_object(raw, options), reference_of(raw, _is_namespaced(raw, options))) for raw in snapshot.raw())
    return [AuditedObject(obj, reference) for obj, reference in found if obj is not None and obj.metadata.name]


def _decode_object(raw: RawObject, options: AuditOptions) -> Resource | None:
    scheme = options.now.scheme
    kind = scheme.kind(raw.api_version, raw.kind)
    if kind is None:
        return None
    try:
        found = codec.decode_tree(raw.tree, kind.type, FieldValidation.IGNORE).object
    except DecodeError:
        return None
    obj = scheme.convert(found, scheme.hub(kind))
    if kind.namespaced and not obj.metadata.namespace:
        obj.metadata.namespace = _DEFAULT_NAMESPACE
    admission_checks.set_defaults(obj)
    return obj


def _is_namespaced(raw: RawObject, options: AuditOptions) -> bool:
    kind = options.now.scheme.kind(raw.api_version, raw.kind)
    return kind.namespaced if kind is not None else bool(raw.namespace)


def reference_of(raw: RawObject, namespaced: bool) -> ObjectReference:
    """Return the reference by which findings name an object: kind, namespace, name, owner, file and line."""
    metadata = as_mapping(as_mapping(raw.tree).get("metadata"))
    owners = map(as_mapping, as_list(metadata.get("ownerReferences")))
    name = raw.name
    if not name and isinstance(metadata.get("generateName"), str):
        name = f"{metadata['generateName']}*"
    return ObjectReference(
        api_version=raw.api_version,
        kind=raw.kind,
        namespace=raw.namespace or (_DEFAULT_NAMESPACE if namespaced else ""),
        name=name,
        file=raw.file,
        line=raw.line,
        stored=bool(metadata.get("uid")),
        owner=next((f"{each.get('kind')} {each.get('name')}" for each in owners if each.get("controller")), ""),
    )


_ARGUMENTS = "profiles[%d].pluginConfig[NodeAffinity].args.addedAffinity"
_IN_POD = "spec.affinity.nodeAffinity"


def scheduler_config_findings(
    profiles: Sequence[ProfileSpec], file: str, snapshot: Snapshot, options: AuditOptions, uses: GatedUseFinder
) -> Iterator[Finding]:
    """Yield findings about fields of scheduler profiles' `addedAffinity` that depend on feature gates."""
    for index, profile in enumerate(profiles):
        added = added_affinity(profile)
        if added is None:
            continue
        reference = ObjectReference(
            api_version=CONFIG_API_VERSION,
            kind=CONFIG_KIND,
            name=profile.scheduler_name,
            file=file,
            line=1 if file else 0,
            stored=False,
        )
        affinity = core_v1.Affinity(node_affinity=added)
        pod = core_v1.Pod(spec=core_v1.PodSpec(affinity=affinity, containers=[core_v1.Container(name="c", image="c")]))
        for use in uses.find(pod):
            effect, message = _effect_on_affinity(use, pod, snapshot.all(Node), options)
            field = use.field.replace(_IN_POD, _ARGUMENTS % index)
            yield build_use_finding(reference, use, codec.to_tree(pod), effect, message, field=field)


def _effect_on_affinity(
    use: GatedUse, pod: core_v1.Pod, nodes: Sequence[Node], options: AuditOptions
) -> tuple[Effect, str]:
    if not options.turns_gate_off(use.feature):
        return Effect.UNAFFECTED, ""
    sides = [node_selector.required_affinity(pod.spec, side.constraints) for side in (options.now, options.then)]
    before, after = (sum(side.matches(node.metadata.labels, node.metadata.name) for node in nodes) for side in sides)
    text = f"{before} of {len(nodes)} nodes are left to all pods of the profile now, and then {after}"
    return (Effect.NEVER_MATCHES if before and not after else Effect.KEPT), text
