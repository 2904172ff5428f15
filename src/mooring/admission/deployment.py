"""Default and validate Deployments, ReplicaSets, ReplicationControllers, and stored PodTemplates."""

from mooring.admission import checks, workload
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.strategy import Request, set_missing
from mooring.api import field_errors
from mooring.api.apps_v1 import Deployment, ReplicaSet, ReplicaSetStatus, RollingUpdateDeployment
from mooring.api.apps_v1 import DeploymentStrategy as UpdateStrategy
from mooring.api.core_v1 import PodTemplate, PodTemplateSpec, ReplicationController, ReplicationControllerStatus
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_NO_SELECTOR = "empty selector is invalid for deployment"


class DeploymentStrategy(workload.TemplateStrategy[Deployment]):
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
        errors = checks.non_negative(spec.replicas, workload.SPEC.child("replicas"))
        errors += workload.validate_selector(spec.selector, workload.SPEC.child("selector"), _NO_SELECTOR)
        errors += workload.validate_selector_matches(spec.selector, spec.template, workload.TEMPLATE)
        if workload.is_valid_selector(spec.selector):
            errors += workload.validate_permanent_template(
                spec.template, self.get_template(old), workload.TEMPLATE, "ReplicaSet", request
            )
        errors += _validate_strategy(spec.strategy, workload.SPEC.child("strategy"))
        errors += checks.non_negative_fields(spec, workload.SPEC, "minReadySeconds", "revisionHistoryLimit")
        deadline, here = spec.progress_deadline_seconds, workload.SPEC.child("progressDeadlineSeconds")
        errors += checks.non_negative(deadline, here)
        is_short = deadline is not None and deadline <= spec.min_ready_seconds
        return errors + checks.invalid_if(is_short, here, deadline, "must be greater than minReadySeconds")

    def validate_status(self, new: Deployment, old: Deployment, request: Request) -> Errors:
        status = new.status
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        errors = checks.non_negative_fields(status, workload.STATUS, "observedGeneration", "replicas", *parts)
        errors += checks.non_negative_fields(
            status, workload.STATUS, "unavailableReplicas", "terminatingReplicas", "collisionCount"
        )
        errors += workload.validate_replica_counts(status, workload.MORE_THAN_READY, *parts)
        return errors + workload.validate_collision_count(status.collision_count, old.status.collision_count)


def _validate_strategy(strategy: UpdateStrategy, path: Path) -> Errors:
    here, pace = path.child("rollingUpdate"), strategy.rolling_update
    match strategy.type:
        case "Recreate":
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [field_errors.forbidden(here, detail)] if pace is not None else []
        case "RollingUpdate" if pace is not None:
            unavailable, surge = pace.max_unavailable or 0, pace.max_surge or 0
            errors = workload.validate_rolling_numbers(unavailable, surge, here)
            if workload.is_zero_or_malformed(unavailable) and workload.is_zero_or_malformed(surge):
                detail = "may not be 0 when `maxSurge` is 0"
                errors.append(field_errors.invalid(here.child("maxUnavailable"), unavailable, detail))
            return errors + checks.at_most_100_percent(unavailable, here.child("maxUnavailable"))
        case _:
            return [field_errors.not_supported(path, strategy, ["Recreate", "RollingUpdate"])]


class ReplicaSetStrategy(workload.TemplateStrategy[ReplicaSet]):
    immutable = ("spec.selector",)

    def default(self, obj: ReplicaSet) -> None:
        set_missing(obj.spec, replicas=1)
        default_pod_spec(obj.spec.template.spec)

    def validate(self, obj: ReplicaSet, old: ReplicaSet | None, request: Request) -> Errors:
        spec = obj.spec
        errors = checks.non_negative_fields(spec, workload.SPEC, "replicas", "minReadySeconds")
        errors += workload.validate_selector(spec.selector, workload.SPEC.child("selector"), _NO_SELECTOR)
        errors += workload.validate_selector_matches(spec.selector, spec.template, workload.TEMPLATE)
        if workload.is_valid_selector(spec.selector):
            errors += workload.validate_permanent_template(
                spec.template, self.get_template(old), workload.TEMPLATE, "ReplicaSet", request
            )
        return errors

    def validate_status(self, new: ReplicaSet, old: ReplicaSet, request: Request) -> Errors:
        return _validate_status(new.status, "terminatingReplicas")


class ReplicationControllerStrategy(workload.TemplateStrategy[ReplicationController]):
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
        errors = checks.non_negative(spec.min_ready_seconds, workload.SPEC.child("minReadySeconds"))
        errors += checks.require(spec.selector, workload.SPEC.child("selector"))
        errors += checks.non_negative(spec.replicas, workload.SPEC.child("replicas"))
        if spec.template is None:
            return [*errors, field_errors.required(workload.TEMPLATE)]
        labels = spec.template.metadata.labels
        if any(labels.get(key) != value for key, value in spec.selector.items()):
            errors.append(
                field_errors.invalid(
                    workload.TEMPLATE.child("metadata", "labels"), labels or None, workload.LABELS_DIFFER
                )
            )
        errors += workload.validate_template(spec.template, self.get_template(old), workload.TEMPLATE, request)
        return errors + workload.validate_runs_forever(spec.template, workload.TEMPLATE, "ReplicationController")

    def validate_status(self, new: ReplicationController, old: ReplicationController, request: Request) -> Errors:
        return _validate_status(new.status)


class PodTemplateStrategy(workload.TemplateStrategy[PodTemplate]):
    template_path = Path("template")
    warns_about_name = False

    def default(self, obj: PodTemplate) -> None:
        default_pod_spec(obj.template.spec)

    def get_template(self, obj: PodTemplate | None) -> PodTemplateSpec | None:
        return obj.template if obj is not None else None

    def prepare_for_update(self, new: PodTemplate, old: PodTemplate, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        new.metadata.generation = old.metadata.generation + (new.template != old.template)

    def validate(self, obj: PodTemplate, old: PodTemplate | None, request: Request) -> Errors:
        return workload.validate_template(obj.template, self.get_template(old), Path("template"), request)


def _validate_status(status: ReplicaSetStatus | ReplicationControllerStatus, *more: str) -> Errors:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    errors = checks.non_negative_fields(status, workload.STATUS, "replicas", *parts, "observedGeneration", *more)
    return errors + workload.validate_replica_counts(status, workload.MORE_THAN_READY, *parts)
