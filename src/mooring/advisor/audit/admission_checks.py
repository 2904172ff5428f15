"""Run admission on an object with given options: what it rejects and what it drops.

The rules are the server's own, without those that depend on other objects (namespaces, priority classes), which no gate
or version affects. Comparing two results shows the effect of a gate: see ``outcomes.py``.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_update
from mooring.admission.pod.affinity import IN_BOTH
from mooring.admission.registry import find_strategy, strategy_of
from mooring.admission.strategy import NoCluster, Priority, Request
from mooring.advisor.audit.options import AuditOptions, Switch
from mooring.advisor.audit.results import COMPATIBILITY
from mooring.advisor.lint import specs
from mooring.api import apps_v1, batch_v1, codec, errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodTemplate, PodTemplateSpec
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.states import controller_of


@dataclass(frozen=True, slots=True)
class AdmissionResult:
    """The result of admission for one object: the rejected fields with the server's messages, and the dropped
    fields.
    """

    refused: dict[str, str]
    dropped: frozenset[str] = frozenset()

    def subtract(self, other: "AdmissionResult") -> "AdmissionResult":
        """Return the fields that this admission rejects or drops, and the `other` one neither rejects nor drops."""
        refused = {field: text for field, text in self.refused.items() if field not in other.refused}
        return AdmissionResult(refused, self.dropped - other.dropped - other.refused.keys())

    @property
    def is_clean(self) -> bool:
        return not self.refused and not self.dropped


class _PermissiveLookups(NoCluster):
    """Look up objects for admission in an assumed cluster where every referenced object exists."""

    def priority_class(self, name: str) -> Priority | None:
        return super().priority_class(name) or Priority(name, 0)


def has_admission_rules(obj: Resource) -> bool:
    """Return whether the server has admission checks for objects of this kind."""
    return find_strategy(type(obj)) is not None


def set_defaults(obj: Resource) -> None:
    """Set the defaults of an object in place."""
    strategy = find_strategy(type(obj))
    if strategy is not None:
        strategy.default(obj)


def try_create(obj: Resource, options: AdmissionOptions, now: datetime) -> AdmissionResult:
    """Run admission for creating an object, which is not modified; return the rejected and the dropped fields."""
    made = _copy_object(obj)
    strategy = strategy_of(type(made))
    strategy.default(made)
    made.metadata.name = made.metadata.name or "any"  # the server generates one
    given = _tree_without_metadata(made)
    fields = options.release_fields
    if fields:
        fields.reset_disabled(made, None)
    strategy.prepare_for_create(made, _create_request(obj, options, now))
    problems = strategy.validate_create(made, _create_request(obj, options, now))
    refused: dict[str, str] = {}
    for problem in problems + (fields.validate_too_new(made, None) if fields else []):
        if problem.field.startswith("metadata.") or problem.detail == IN_BOTH:
            continue  # no gate decides about the one; the other was merged when the object was created
        refused.setdefault(problem.field, str(problem))
    return AdmissionResult(refused, find_dropped_fields(given, made))


def try_update(obj: Resource, options: AdmissionOptions, now: datetime) -> AdmissionResult:
    """Run admission for an update that writes a stored object back; return the rejected and the dropped fields."""
    stored = _copy_object(obj)
    strategy_of(type(stored)).default(stored)
    stored.metadata.resource_version = stored.metadata.resource_version or "1"
    made = _copy_object(stored)
    try:
        admit_update(made, stored, _create_request(obj, options, now))
    except errors.StatusError as refusal:
        details = refusal.status.details
        causes = details.causes if details else []
        return AdmissionResult(
            {cause.field: f"{cause.field}: {cause.message}" for cause in causes} or {"": str(refusal)}
        )
    return AdmissionResult(
        {}, frozenset(find_missing_fields(_tree_without_metadata(stored), _tree_without_metadata(made)))
    )


def _create_request(obj: Resource, options: AdmissionOptions, now: datetime) -> Request:
    return Request(options=options, lookups=_PermissiveLookups(), now=now, namespace=obj.metadata.namespace)


def _copy_object(obj: Resource) -> Resource:
    return codec.decode_own(codec.encode(obj), type(obj))


def _tree_without_metadata(obj: Resource) -> dict[str, Any]:
    return {name: part for name, part in codec.to_tree(obj).items() if name not in ("metadata", "status")}


def find_dropped_fields(given: dict[str, Any], made: Resource) -> frozenset[str]:
    """Return the paths of fields that admission dropped, except those that the server sets to the same default."""
    lost = frozenset(find_missing_fields(given, _tree_without_metadata(made)))
    if not lost:
        return lost
    filled = _copy_object(made)
    set_defaults(filled)
    return frozenset(find_missing_fields(given, _tree_without_metadata(made), _tree_without_metadata(filled)))


def find_missing_fields(given: Any, kept: Any, filled: Any = None, path: str = "") -> Iterator[str]:
    """Yield the field paths of `given` that `kept` lacks, unless `filled` (`kept` with defaults) has the value."""
    if given in (kept, filled):
        return
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            here = f"{path}.{name}" if path else name
            put_back = filled.get(name) if isinstance(filled, dict) else None
            if name not in kept and value != put_back:
                yield here
            elif name in kept and isinstance(value, dict | list):
                yield from find_missing_fields(value, kept[name], put_back, here)
    elif isinstance(given, list) and isinstance(kept, list):
        for index, value in enumerate(given[: len(kept)]):
            if isinstance(value, dict | list):
                put_back = filled[index] if isinstance(filled, list) else None
                yield from find_missing_fields(value, kept[index], put_back, f"{path}[{index}]")


class GeneratedObject(NamedTuple):
    """An object that a controller would create from another one, and the mapping of field paths between both."""

    object: Resource
    here: str
    """The path of a field in the created object, such as `spec`."""
    there: str
    """The path of the same field in the source object, such as `spec.template.spec`."""
    words: str

    def source_path(self, field: str) -> str:
        """Return the path in the source object for a field path of the created object."""
        return f"{self.there}{field[len(self.here) :]}" if field.startswith(self.here) else field


def build_generated_object(obj: Resource) -> GeneratedObject | None:
    """Return the object that a controller creates from a template, such as a Deployment's pod; None for other kinds."""
    namespace, name = obj.metadata.namespace, obj.metadata.name
    if isinstance(obj, batch_v1.CronJob):
        template = obj.spec.job_template
        job = batch_v1.Job(
            metadata=_metadata_for_generated(template.metadata, namespace, name), spec=copy_of(template.spec)
        )
        return GeneratedObject(job, "spec", "spec.jobTemplate.spec", "Jobs")
    if isinstance(obj, ResourceClaimTemplate):
        claim = ResourceClaim(
            metadata=_metadata_for_generated(obj.spec.metadata, namespace, name), spec=copy_of(obj.spec.spec)
        )
        return GeneratedObject(claim, "spec", "spec.spec", "claims")
    at = specs.find_pod_spec(obj)
    if at is None or isinstance(obj, Pod | PodTemplate):
        return None
    pods: PodTemplateSpec = obj.spec.template  # type: ignore[attr-defined] # all other kinds with pods have one
    pod = Pod(metadata=_metadata_for_generated(pods.metadata, namespace, name), spec=copy_of(pods.spec))
    return GeneratedObject(pod, "spec", at.path, "pods")


def _metadata_for_generated(template: ObjectMeta, namespace: str, name: str) -> ObjectMeta:
    made = copy_of(template)
    made.name, made.generate_name, made.namespace = "", f"{name[:40]}-", namespace
    return made


def reason_not_creating(obj: Resource) -> str:
    """Return why a workload's controller creates no more objects, such as a finished Job; empty if it may."""
    if isinstance(obj, apps_v1.ReplicaSet) and obj.spec.replicas == 0:
        owner = controller_of(obj.metadata)
        if owner is not None:
            return f"an old revision of {owner.kind} {owner.name}; going back to it would be refused"
    if isinstance(obj, batch_v1.Job):
        ended = [c.type for c in obj.status.conditions if c.type in ("Complete", "Failed") and c.status == "True"]
        if ended:
            return f"the Job has ended ({ended[0]})"
    return ""


_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_LONGEST = 100


class GatedUse(NamedTuple):
    """A field that an object uses and that has an effect only with a certain feature gate or version."""

    switch: Switch
    field: str

    @property
    def feature(self) -> str:
        return self.switch.feature


class GatedUseFinder:
    """Finds the fields of objects that have an effect only with certain gates or versions; caches by content."""

    def __init__(self, options: AuditOptions, now: datetime) -> None:
        self._options = options
        self._now = now
        self._cache: dict[tuple[type, bytes], tuple[GatedUse, ...]] = {}

    def find(self, obj: Resource) -> tuple[GatedUse, ...]:
        """Return the fields of an object that depend on a gate or version: those of gates first, then of versions."""
        if not has_admission_rules(obj):
            return ()
        key = (type(obj), hashlib.blake2b(content_key(obj), digest_size=16).digest())
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._find_uncached(obj)
        return found

    def _find_uncached(self, obj: Resource) -> tuple[GatedUse, ...]:
        options = self._options
        clean = try_create(obj, options.everything, self._now)
        if try_create(obj, options.nothing, self._now).subtract(clean).is_clean:
            return ()
        by_gate: dict[str, GatedUse] = {}
        by_version: dict[str, GatedUse] = {}
        for switch in options.switches:
            more = try_create(obj, switch.off, self._now).subtract(clean)
            known = by_version if switch.feature == COMPATIBILITY else by_gate
            for field in sorted({*more.refused, *more.dropped}):
                known.setdefault(field, GatedUse(switch, field))
        # A use of a gate implies its versions; report only uses that need more than the gate.
        newer = (use for field, use in by_version.items() if field not in by_gate or _is_newer(use, by_gate[field]))
        return (*by_gate.values(), *newer)


def _is_newer(use: GatedUse, gate: GatedUse) -> bool:
    def number(text: str) -> int:
        return int(text.partition(".")[2] or 0)

    return number(use.switch.needs) > number(gate.switch.needs)


def content_key(obj: Resource) -> bytes:
    """Return the encoded object, of a pod only the spec, as the key under which audits cache its gated fields."""
    if isinstance(obj, Pod):
        return codec.encode(structs.replace(obj.spec, node_name=""))
    return codec.encode(obj)


def format_value_at(tree: Any, path: str) -> str:
    """Return the value at a field path as text for a message; for an operator, with its key and values."""
    steps = [name or index for name, index in _STEP.findall(path)]
    value, around = tree, None
    for step in steps:
        around = value
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ""
    if steps and steps[-1] == "operator" and isinstance(around, dict):
        compared = around.get("value") or ", ".join(map(str, around.get("values") or ()))
        value = f"{around.get('key', '')} {value} {compared}".strip()
    text = value if isinstance(value, str) else codec.encode(value).decode() if value is not None else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
