"""Default and validate Deployments, ReplicaSets, ReplicationControllers, and stored PodTemplates."""

from mooring.admission import checks
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.strategy import Request, set_missing
from mooring.admission.workload import (
    LABELS_DIFFER,
    MORE_THAN_READY,
    SPEC,
    STATUS,
    TEMPLATE,
    TemplateStrategy,
    is_valid_selector,
    is_zero_or_malformed,
    validate_collision_count,
    validate_permanent_template,
    validate_replica_counts,
    validate_rolling_numbers,
    validate_runs_forever,
    validate_selector,
    validate_selector_matches,
    validate_template,
)
from mooring.api import field_errors
from mooring.api.apps_v1 import Deployment, ReplicaSet, ReplicaSetStatus, RollingUpdateDeployment
from mooring.api.apps_v1 import DeploymentStrategy as UpdateStrategy
from mooring.api.core_v1 import PodTemplate, PodTemplateSpec, ReplicationController, ReplicationControllerStatus
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_NO_SELECTOR = "empty selector is invalid for deployment"


class DeploymentStrategy(TemplateStrategy[Deployment]):
    immutable = ("spec.selector",)

    def default(self, obj: Deployment) -> None:
        set_missing(obj.spec, replicas=1, revision_history_limit=10, progress_deadline_seconds=600)
        strategy = obj.spec.strategy
        strategy.type = strategy.type or "RollingUpdate"
        if strategy.type == "RollingUpdate":
            strategy.rolling_update = strategy.rolling_update or RollingUpdateDeployment()
            set_missing(strategy.rolling_update, max_unavailable="25%", max_surge="25%")
        default_pod_spec(obj.spec.template.spec)

    def prepare_for_update(self, new: Deployment, old: Deployment, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if new.spec != old.spec or new.metadata.annotations != old.metadata.annotations:
            new.metadata.generation = old.metadata.generation + 1

    def validate(self, obj: Deployment, old: Deployment | None, request: Request) -> Errors:
        spec = obj.spec
        errors = checks.non_negative(spec.replicas, SPEC.child("replicas"))
        errors += validate_selector(spec.selector, SPEC.child("selector"), _NO_SELECTOR)
        errors += validate_selector_matches(spec.selector, spec.template, TEMPLATE)
        if is_valid_selector(spec.selector):
            errors += validate_permanent_template(spec.template, self.template_of(old), TEMPLATE, "ReplicaSet", request)
        errors += _validate_strategy(spec.strategy, SPEC.child("strategy"))
        errors += checks.non_negative_fields(spec, SPEC, "minReadySeconds", "revisionHistoryLimit")
        deadline, here = spec.progress_deadline_seconds, SPEC.child("progressDeadlineSeconds")
        errors += checks.non_negative(deadline, here)
        is_short = deadline is not None and deadline <= spec.min_ready_seconds
        return errors + checks.invalid_if(is_short, here, deadline, "must be greater than minReadySeconds")

    def validate_status(self, new: Deployment, old: Deployment, request: Request) -> Errors:
        status = new.status
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        errors = checks.non_negative_fields(status, STATUS, "observedGeneration", "replicas", *parts)
        errors += checks.non_negative_fields(
            status, STATUS, "unavailableReplicas", "terminatingReplicas", "collisionCount"
        )
        errors += validate_replica_counts(status, MORE_THAN_READY, *parts)
        return errors + validate_collision_count(status.collision_count, old.status.collision_count)


def _validate_strategy(strategy: UpdateStrategy, path: Path) -> Errors:
    here, pace = path.child("rollingUpdate"), strategy.rolling_update
    match strategy.type:
        case "Recreate":
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [field_errors.forbidden(here, detail)] if pace is not None else []
        case "RollingUpdate" if pace is not None:
            unavailable, surge = pace.max_unavailable or 0, pace.max_surge or 0
            errors = validate_rolling_numbers(unavailable, surge, here)
            if is_zero_or_malformed(unavailable) and is_zero_or_malformed(surge):
                detail = "may not be 0 when `maxSurge` is 0"
                errors.append(field_errors.invalid(here.child("maxUnavailable"), unavailable, detail))
            return errors + checks.at_most_100_percent(unavailable, here.child("maxUnavailable"))
        case _:
            return [field_errors.not_supported(path, strategy, ["Recreate", "RollingUpdate"])]


class ReplicaSetStrategy(TemplateStrategy[ReplicaSet]):
    immutable = ("spec.selector",)

    def default(self, obj: ReplicaSet) -> None:
        set_missing(obj.spec, replicas=1)
        default_pod_spec(obj.spec.template.spec)

    def validate(self, obj: ReplicaSet, old: ReplicaSet | None, request: Request) -> Errors:
        spec = obj.spec
        errors = checks.non_negative_fields(spec, SPEC, "replicas", "minReadySeconds")
        errors += validate_selector(spec.selector, SPEC.child("selector"), _NO_SELECTOR)
        errors += validate_selector_matches(spec.selector, spec.template, TEMPLATE)
        if is_valid_selector(spec.selector):
            errors += validate_permanent_template(spec.template, self.template_of(old), TEMPLATE, "ReplicaSet", request)
        return errors

    def validate_status(self, new: ReplicaSet, old: ReplicaSet, request: Request) -> Errors:
        return _validate_status(new.status, "terminatingReplicas")


class ReplicationControllerStrategy(TemplateStrategy[ReplicationController]):
    def default(self, obj: ReplicationController) -> None:
        spec = obj.spec
        if spec.template is not None:
            labels = spec.template.metadata.labels
            spec.selector = spec.selector or dict(labels)
            obj.metadata.labels = obj.metadata.labels or dict(labels)
            default_pod_spec(spec.template.spec)
        set_missing(spec, replicas=1)

    def validate(self, obj: ReplicationController, old: ReplicationController | None, request: Request) -> Errors:
        spec = obj.spec
        errors = checks.non_negative(spec.min_ready_seconds, SPEC.child("minReadySeconds"))
        errors += checks.require(spec.selector, SPEC.child("selector"))
        errors += checks.non_negative(spec.replicas, SPEC.child("replicas"))
        if spec.template is None:
            return [*errors, field_errors.required(TEMPLATE)]
        labels = spec.template.metadata.labels
        if any(labels.get(key) != value for key, value in spec.selector.items()):
            errors.append(field_errors.invalid(TEMPLATE.child("metadata", "labels"), labels or None, LABELS_DIFFER))
        errors += validate_template(spec.template, self.template_of(old), TEMPLATE, request)
        return errors + validate_runs_forever(spec.template, TEMPLATE, "ReplicationController")

    def validate_status(self, new: ReplicationController, old: ReplicationController, request: Request) -> Errors:
        return _validate_status(new.status)


class PodTemplateStrategy(TemplateStrategy[PodTemplate]):
    template_path = Path("template")
    warns_about_name = False

    def default(self, obj: PodTemplate) -> None:
        default_pod_spec(obj.template.spec)

    def template_of(self, obj: PodTemplate | None) -> PodTemplateSpec | None:
        return obj.template if obj is not None else None

    def prepare_for_update(self, new: PodTemplate, old: PodTemplate, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        new.metadata.generation = old.metadata.generation + (new.template != old.template)

    def validate(self, obj: PodTemplate, old: PodTemplate | None, request: Request) -> Errors:
        return validate_template(obj.template, self.template_of(old), Path("template"), request)


def _validate_status(status: ReplicaSetStatus | ReplicationControllerStatus, *more: str) -> Errors:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    errors = checks.non_negative_fields(status, STATUS, "replicas", *parts, "observedGeneration", *more)
    return errors + validate_replica_counts(status, MORE_THAN_READY, *parts)
