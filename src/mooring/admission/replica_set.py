"""ReplicaSets, the older ReplicationControllers, and stored PodTemplates."""

from mooring.admission.checks import non_negative, non_negative_fields, require
from mooring.admission.meta import immutable
from mooring.admission.pod.template import default_template, validate_template
from mooring.admission.strategy import Request
from mooring.admission.workload import (
    LABELS_DIFFER,
    MORE_THAN_READY,
    SPEC,
    STATUS,
    TEMPLATE,
    TemplateStrategy,
    is_valid,
    runs_for_ever,
    validate_lasting_template,
    validate_match,
    validate_replica_counts,
    validate_selector,
)
from mooring.api import field_errors
from mooring.api.apps_v1 import ReplicaSet, ReplicaSetStatus
from mooring.api.core_v1 import PodTemplate, PodTemplateSpec, ReplicationController, ReplicationControllerStatus
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

_NO_SELECTOR = "empty selector is invalid for deployment"  # Kubernetes' message for ReplicaSets too


class ReplicaSetStrategy(TemplateStrategy[ReplicaSet]):
    def default(self, obj: ReplicaSet) -> None:
        if obj.spec.replicas is None:
            obj.spec.replicas = 1
        default_template(obj.spec.template)

    def template_of(self, obj: ReplicaSet) -> PodTemplateSpec:
        return obj.spec.template

    def rules(self, obj: ReplicaSet, old: ReplicaSet | None, request: Request) -> list[FieldError]:
        spec = obj.spec
        errors = non_negative(spec.replicas, SPEC.child("replicas"))
        errors += non_negative(spec.min_ready_seconds, SPEC.child("minReadySeconds"))
        errors += validate_selector(spec.selector, SPEC.child("selector"), _NO_SELECTOR)
        errors += validate_match(spec.selector, spec.template, TEMPLATE)
        old_template = old.spec.template if old is not None else None
        if is_valid(spec.selector):
            errors += validate_lasting_template(spec.template, old_template, TEMPLATE, "ReplicaSet", request)
        return errors if old is None else errors + immutable(spec.selector, old.spec.selector, SPEC, "selector")

    def status_rules(self, new: ReplicaSet, old: ReplicaSet, request: Request) -> list[FieldError]:
        return _status(new.status, "terminatingReplicas")


class ReplicationControllerStrategy(TemplateStrategy[ReplicationController]):
    def default(self, obj: ReplicationController) -> None:
        spec = obj.spec
        if spec.template is not None:
            labels = spec.template.metadata.labels
            spec.selector = spec.selector or dict(labels)
            obj.metadata.labels = obj.metadata.labels or dict(labels)
            default_template(spec.template)
        if spec.replicas is None:
            spec.replicas = 1

    def template_of(self, obj: ReplicationController) -> PodTemplateSpec | None:
        return obj.spec.template

    def rules(
        self, obj: ReplicationController, old: ReplicationController | None, request: Request
    ) -> list[FieldError]:
        spec = obj.spec
        errors = non_negative(spec.min_ready_seconds, SPEC.child("minReadySeconds"))
        errors += require(spec.selector, SPEC.child("selector"))
        errors += non_negative(spec.replicas, SPEC.child("replicas"))
        if spec.template is None:
            return [*errors, field_errors.required(TEMPLATE)]
        labels = spec.template.metadata.labels
        if any(labels.get(key) != value for key, value in spec.selector.items()):
            errors.append(field_errors.invalid(TEMPLATE.child("metadata", "labels"), labels or None, LABELS_DIFFER))
        errors += validate_template(spec.template, old.spec.template if old is not None else None, TEMPLATE, request)
        return errors + runs_for_ever(spec.template, TEMPLATE, "ReplicationController")

    def status_rules(
        self, new: ReplicationController, old: ReplicationController, request: Request
    ) -> list[FieldError]:
        return _status(new.status)


class PodTemplateStrategy(TemplateStrategy[PodTemplate]):
    template_path = Path("template")
    warns_about_name = False

    def default(self, obj: PodTemplate) -> None:
        default_template(obj.template)

    def template_of(self, obj: PodTemplate) -> PodTemplateSpec:
        return obj.template

    def prepare_for_update(self, new: PodTemplate, old: PodTemplate, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        new.metadata.generation = old.metadata.generation + (new.template != old.template)

    def rules(self, obj: PodTemplate, old: PodTemplate | None, request: Request) -> list[FieldError]:
        return validate_template(obj.template, old.template if old is not None else None, Path("template"), request)


def _status(status: ReplicaSetStatus | ReplicationControllerStatus, *more: str) -> list[FieldError]:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    errors = non_negative_fields(status, STATUS, "replicas", *parts, "observedGeneration", *more)
    return errors + validate_replica_counts(status, MORE_THAN_READY, *parts)
