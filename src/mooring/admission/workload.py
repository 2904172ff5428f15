"""Rules that workload kinds share: pod templates, selectors that match their labels, and pods that run for ever.

Label keys are merged and tolerations added only when a pod is created from the template. Each kind has a file of its
own: ``deployment.py``, ``stateful_set.py``, ``daemon_set.py``, ``job.py``. Read next: ``pod/spec.py``.
"""

import re
from typing import TypeVar

import msgspec

from mooring.admission import checks, meta
from mooring.admission.pod.annotations import validate_pod_annotations
from mooring.admission.pod.mutation import drop_disabled_fields, limit_scheduling_terms
from mooring.admission.pod.rules import rules_for_create, rules_for_update
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.pod.warnings import find_pod_spec_warnings
from mooring.admission.pod_security.enforcement import warn_about_template
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, label_selector, meta_v1, names
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector


def validate_template(template: PodTemplateSpec, old: PodTemplateSpec | None, path: Path, request: Request) -> Errors:
    """Return the errors of a pod template. Gated features that the old template uses stay allowed."""
    rules = (
        rules_for_create(request.options, is_pod=False)
        if old is None
        else rules_for_update(request.options, old.spec, old.metadata, is_pod=False)
    )
    errors = names.validate_labels(template.metadata.labels, path.child("labels"))
    errors += meta.validate_annotations(template.metadata.annotations, path.child("annotations"))
    errors += validate_pod_annotations(template.metadata, template.spec, path.child("annotations"), rules)
    errors += validate_pod_spec(template.spec, None, path.child("spec"), rules)
    detail = "ephemeral containers not allowed in pod template"
    errors += checks.forbidden_if(template.spec.ephemeral_containers, path.child("spec", "ephemeralContainers"), detail)
    return errors


T = TypeVar("T", bound=meta_v1.Resource)

SPEC = Path("spec")
STATUS = Path("status")
TEMPLATE = SPEC.child("template")
_NUMBER = re.compile(r"([0-9]+)%|([+-]?[0-9]+)", re.ASCII)
LABELS_DIFFER = "`selector` does not match template `labels`"
MORE_THAN_READY = "cannot be greater than readyReplicas"
_NAME_ADVICE = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
    "a DNS label is recommended: "
)


class TemplateStrategy(Strategy[T]):
    """Base of strategies for kinds with a pod template: drops fields of disabled gates, warns, checks Pod Security."""

    template_path = TEMPLATE
    warns_about_name = True
    """Whether to warn about a name that is not a valid host name."""

    def get_template(self, obj: T | None) -> PodTemplateSpec | None:
        """Return an object's pod template; None if the object is None or has no template."""
        template: PodTemplateSpec | None = obj.spec.template if obj is not None else None  # type: ignore[attr-defined] # all have
        return template

    def prepare_for_create(self, obj: T, request: Request) -> None:
        super().prepare_for_create(obj, request)
        self._prepare_template(obj, None, request)

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        self._prepare_template(new, old, request)
        super().prepare_for_update(new, old, request)

    def _prepare_template(self, obj: T, old: T | None, request: Request) -> None:
        if template := self.get_template(obj):
            before = self.get_template(old)
            if before is None or before.spec != template.spec:
                limit_scheduling_terms(template.spec)
            drop_disabled_fields(template.spec, before.spec if before else None, request.options, request.warn)

    def warnings(self, new: T, old: T | None, request: Request) -> list[str]:
        wrong = names.dns1123_label(new.metadata.name) if self.warns_about_name and old is None else ()
        found = [f"{_NAME_ADVICE}[{' '.join(wrong)}]"] if wrong else []
        is_changed = old is None or new.metadata.generation != old.metadata.generation
        if is_changed and (template := self.get_template(new)):
            found += find_pod_spec_warnings(template.spec, self.template_path.child("spec"))
        return found

    def admit(self, new: T, old: T | None, request: Request) -> None:
        if template := self.get_template(new):
            warn_about_template(template, request)


def validate_selector(
    selector: LabelSelector | None, path: Path, when_empty: str, when_invalid: str = "invalid label selector"
) -> Errors:
    """Return errors for a label selector that is missing, empty or malformed."""
    if selector is None:
        return [field_errors.required(path)]
    errors = label_selector.validate(selector, path)
    errors += checks.invalid_if(errors, path, selector, when_invalid)
    is_empty = not selector.match_labels and not selector.match_expressions
    return errors + checks.invalid_if(is_empty, path, selector, when_empty)


def is_valid_selector(selector: LabelSelector | None) -> bool:
    return not label_selector.validate(selector, SPEC)


def validate_selector_matches(selector: LabelSelector | None, template: PodTemplateSpec, path: Path) -> Errors:
    """Return an error if a valid selector does not match the labels of the pod template at `path`."""
    if not is_valid_selector(selector):
        return []  # reported by the selector's own rules
    matcher = label_selector.from_label_selector(selector)
    if matcher.is_empty() or matcher.matches(template.metadata.labels):
        return []
    return [field_errors.invalid(path.child("metadata", "labels"), template.metadata.labels or None, LABELS_DIFFER)]


def validate_permanent_template(
    template: PodTemplateSpec, old: PodTemplateSpec | None, path: Path, kind: str, request: Request
) -> Errors:
    return validate_template(template, old, path, request) + validate_runs_forever(template, path, kind)


def validate_runs_forever(template: PodTemplateSpec, path: Path, kind: str) -> Errors:
    errors = []
    policy = template.spec.restart_policy
    if policy != "Always":
        errors.append(field_errors.not_supported(path.child("spec", "restartPolicy"), policy, ["Always"]))
    if template.spec.active_deadline_seconds is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(field_errors.forbidden(path.child("spec", "activeDeadlineSeconds"), detail))
    return errors


def validate_rolling_numbers(unavailable: int | str, surge: int | str, path: Path) -> Errors:
    errors = checks.number_or_percent(unavailable, path.child("maxUnavailable"))
    return errors + checks.number_or_percent(surge, path.child("maxSurge"))


def is_zero_or_malformed(value: int | str) -> bool:
    """Return whether a count or percentage, such as `maxSurge`, is 0, `0%` or a malformed string."""
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value)
        return number is None or int(number[1] or number[2]) == 0
    return value == 0


def validate_replica_counts(status: msgspec.Struct, detail: str, *parts: str) -> Errors:
    """Return errors for counts, named in `parts`, above `replicas`, and for more available than ready replicas."""
    counts = checks.get_fields_by_json_name(status)
    errors = [
        field_errors.invalid(STATUS.child(name), counts[name], "cannot be greater than status.replicas")
        for name in parts
        if counts[name] > counts["replicas"]
    ]
    if counts["availableReplicas"] > counts["readyReplicas"]:
        errors.append(field_errors.invalid(STATUS.child("availableReplicas"), counts["availableReplicas"], detail))
    return errors


def validate_collision_count(collisions: int | None, before: int | None) -> Errors:
    """Return an error if a status update decreases `collisionCount`."""
    if before is None or (collisions or 0) >= before:
        return []
    return [field_errors.invalid(STATUS.child("collisionCount"), collisions or 0, "cannot be decremented")]
