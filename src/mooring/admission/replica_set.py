"""ReplicaSets, the older ReplicationControllers, and stored PodTemplates."""

from mooring.admission.checks import non_negative, require
from mooring.admission.meta import immutable
from mooring.admission.pod.template import default_template, prepare_template, template_warnings, validate_template
from mooring.admission.pod_security.enforcement import check_template
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.strategy import Request
from mooring.admission.workload import (
    LABELS_DIFFER,
    MORE_THAN_REPLICAS,
    SPEC,
    TEMPLATE,
    at_most,
    is_valid,
    name_warnings,
    runs_for_ever,
    status_numbers,
    validate_lasting_template,
    validate_match,
    validate_selector,
)
from mooring.api import field_errors
from mooring.api.apps_v1 import ReplicaSet, ReplicaSetStatus
from mooring.api.core_v1 import PodTemplate, ReplicationController, ReplicationControllerStatus
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

_NO_SELECTOR = "empty selector is invalid for deployment"  # Kubernetes' message for ReplicaSets too


class ReplicaSetStrategy(RuleStrategy[ReplicaSet]):
    def default(self, obj: ReplicaSet) -> None:
        if obj.spec.replicas is None:
            obj.spec.replicas = 1
        default_template(obj.spec.template)

    def prepare_for_create(self, obj: ReplicaSet, request: Request) -> None:
        super().prepare_for_create(obj, request)
        prepare_template(obj.spec.template, None, request)

    def prepare_for_update(self, new: ReplicaSet, old: ReplicaSet, request: Request) -> None:
        prepare_template(new.spec.template, old.spec.template, request)
        super().prepare_for_update(new, old, request)

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
        return _status(new.status, new.status.terminating_replicas)

    def warnings(self, new: ReplicaSet, old: ReplicaSet | None, request: Request) -> list[str]:
        found = name_warnings(new.metadata) if old is None else []
        return found + template_warnings(new.spec.template, old.spec.template if old is not None else None, TEMPLATE)

    def admit(self, new: ReplicaSet, old: ReplicaSet | None, request: Request) -> None:
        check_template(new.spec.template, request)


class ReplicationControllerStrategy(RuleStrategy[ReplicationController]):
    def default(self, obj: ReplicationController) -> None:
        spec = obj.spec
        if spec.template is not None:
            labels = spec.template.metadata.labels
            spec.selector = spec.selector or dict(labels)
            obj.metadata.labels = obj.metadata.labels or dict(labels)
            default_template(spec.template)
        if spec.replicas is None:
            spec.replicas = 1

    def prepare_for_create(self, obj: ReplicationController, request: Request) -> None:
        super().prepare_for_create(obj, request)
        if obj.spec.template is not None:
            prepare_template(obj.spec.template, None, request)

    def prepare_for_update(self, new: ReplicationController, old: ReplicationController, request: Request) -> None:
        if new.spec.template is not None:
            prepare_template(new.spec.template, old.spec.template, request)
        super().prepare_for_update(new, old, request)

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
        return _status(new.status, None)

    def warnings(self, new: ReplicationController, old: ReplicationController | None, request: Request) -> list[str]:
        found = name_warnings(new.metadata) if old is None else []
        if new.spec.template is None:
            return found
        return found + template_warnings(new.spec.template, old.spec.template if old is not None else None, TEMPLATE)

    def admit(self, new: ReplicationController, old: ReplicationController | None, request: Request) -> None:
        if new.spec.template is not None:
            check_template(new.spec.template, request)


class PodTemplateStrategy(RuleStrategy[PodTemplate]):
    def default(self, obj: PodTemplate) -> None:
        default_template(obj.template)

    def prepare_for_create(self, obj: PodTemplate, request: Request) -> None:
        super().prepare_for_create(obj, request)
        prepare_template(obj.template, None, request)

    def prepare_for_update(self, new: PodTemplate, old: PodTemplate, request: Request) -> None:
        prepare_template(new.template, old.template, request)
        new.metadata.generation = old.metadata.generation + (new.template != old.template)

    def rules(self, obj: PodTemplate, old: PodTemplate | None, request: Request) -> list[FieldError]:
        return validate_template(obj.template, old.template if old is not None else None, Path("template"), request)

    def warnings(self, new: PodTemplate, old: PodTemplate | None, request: Request) -> list[str]:
        return template_warnings(new.template, old.template if old is not None else None, Path("template"))

    def admit(self, new: PodTemplate, old: PodTemplate | None, request: Request) -> None:
        check_template(new.template, request)


def _status(status: ReplicaSetStatus | ReplicationControllerStatus, terminating: int | None) -> list[FieldError]:
    parts = {
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
    }
    errors = status_numbers(
        {
            "replicas": status.replicas,
            **parts,
            "observedGeneration": status.observed_generation,
            "terminatingReplicas": terminating,
        }
    )
    errors += at_most(parts, status.replicas, MORE_THAN_REPLICAS)
    available = {"availableReplicas": status.available_replicas}
    return errors + at_most(available, status.ready_replicas, "cannot be greater than readyReplicas")


STRATEGIES = (ReplicaSetStrategy(), ReplicationControllerStrategy(), PodTemplateStrategy())
