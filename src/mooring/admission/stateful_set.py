"""Validate StatefulSets and the ControllerRevisions that they and DaemonSets keep.

Volumes of claim templates are added to the pod template before it is validated, so that containers can mount them.
"""

from mooring.admission import checks, workload
from mooring.admission.meta import IMMUTABLE
from mooring.admission.persistent_volume_claim import default_claim, validate_claim_spec
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.pod.warnings import find_fraction_warnings
from mooring.admission.strategy import Request, Strategy, set_empty, set_missing
from mooring.admission.workload import SPEC, STATUS, TEMPLATE, TemplateStrategy
from mooring.api import apps_v1 as v1
from mooring.api import field_errors, names
from mooring.api.base import copy_of
from mooring.api.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_RETENTION = ("Retain", "Delete")
_KEEPS_ALL = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


class StatefulSetStrategy(TemplateStrategy[v1.StatefulSet]):
    immutable = ("spec.selector", "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy")

    def default(self, obj: v1.StatefulSet) -> None:
        spec = obj.spec
        spec.pod_management_policy = spec.pod_management_policy or "OrderedReady"
        strategy = spec.update_strategy
        if not strategy.type:
            strategy.type = "RollingUpdate"
            strategy.rolling_update = strategy.rolling_update or v1.RollingUpdateStatefulSetStrategy()
        pace = strategy.rolling_update
        if strategy.type == "RollingUpdate" and pace is not None:
            set_missing(pace, partition=0, max_unavailable=1)  # the latter is dropped again where its gate is off
        retention = (
            spec.persistent_volume_claim_retention_policy or v1.StatefulSetPersistentVolumeClaimRetentionPolicy()
        )
        set_empty(retention, when_deleted="Retain", when_scaled="Retain")
        spec.persistent_volume_claim_retention_policy = retention
        set_missing(spec, replicas=1, revision_history_limit=10)
        default_pod_spec(spec.template.spec)
        for claim in spec.volume_claim_templates:
            claim.api_version, claim.kind = "v1", "PersistentVolumeClaim"
            default_claim(claim)

    def warnings(self, new: v1.StatefulSet, old: v1.StatefulSet | None, request: Request) -> list[str]:
        found, here = super().warnings(new, old, request), SPEC.child("volumeClaimTemplates")
        for index, claim in enumerate(new.spec.volume_claim_templates):
            found += find_fraction_warnings(claim.spec.resources, here.index(index), "storage")
        if new.spec.revision_history_limit is not None and new.spec.revision_history_limit < 0:
            found.append(_KEEPS_ALL)
        return found

    def validate(self, obj: v1.StatefulSet, old: v1.StatefulSet | None, request: Request) -> Errors:
        return _validate_stateful_set_spec(obj.spec, old.spec if old is not None else None, request)

    def validate_status(self, new: v1.StatefulSet, old: v1.StatefulSet, request: Request) -> Errors:
        parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        errors = checks.non_negative_fields(
            new.status, STATUS, "replicas", *parts, "observedGeneration", "collisionCount"
        )
        errors += workload.validate_collision_count(new.status.collision_count, old.status.collision_count)
        return errors + workload.validate_replica_counts(
            new.status, "cannot be greater than status.readyReplicas", *parts
        )


def _validate_stateful_set_spec(spec: v1.StatefulSetSpec, old: v1.StatefulSetSpec | None, request: Request) -> Errors:
    errors: Errors = []
    if spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(field_errors.invalid(SPEC.child("podManagementPolicy"), spec.pod_management_policy, detail))
    errors += _validate_update_strategy(spec, SPEC.child("updateStrategy"))
    errors += _validate_claim_retention(spec, SPEC.child("persistentVolumeClaimRetentionPolicy"))
    errors += checks.non_negative_fields(spec, SPEC, "replicas", "minReadySeconds")
    if spec.ordinals is not None:
        errors += checks.non_negative(spec.ordinals.start, SPEC.child("ordinals", "start"))
    if spec.service_name and old is None:
        errors += names.validate(SPEC.child("serviceName"), spec.service_name, names.dns1123_label(spec.service_name))
    if old is None:
        for index, claim in enumerate(spec.volume_claim_templates):
            errors += validate_claim_spec(claim.spec, SPEC.child("volumeClaimTemplates").index(index).child("spec"))
    errors += workload.validate_selector(
        spec.selector, SPEC.child("selector"), "empty selector is invalid for statefulset", ""
    )
    errors += workload.validate_selector_matches(spec.selector, spec.template, TEMPLATE)
    old_template = _add_claim_volumes(old) if old is not None else None
    if not workload.is_valid_selector(spec.selector):
        return errors + workload.validate_runs_forever(spec.template, TEMPLATE, "StatefulSet")
    return errors + workload.validate_permanent_template(
        _add_claim_volumes(spec), old_template, TEMPLATE, "StatefulSet", request
    )


def _add_claim_volumes(spec: v1.StatefulSetSpec) -> PodTemplateSpec:
    """Return the pod template with a volume for each claim template; hostname and subdomain are cleared."""
    brought = dict.fromkeys(claim.metadata.name for claim in spec.volume_claim_templates)
    if not brought and not spec.template.spec.hostname and not spec.template.spec.subdomain:
        return spec.template
    template = copy_of(spec.template)
    template.spec.hostname = template.spec.subdomain = ""
    claims = [Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(name)) for name in brought]
    template.spec.volumes = claims + [volume for volume in template.spec.volumes if volume.name not in brought]
    return template


def _validate_update_strategy(spec: v1.StatefulSetSpec, path: Path) -> Errors:
    strategy = spec.update_strategy
    here, pace = path.child("rollingUpdate"), strategy.rolling_update
    match strategy.type:
        case "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            return [field_errors.invalid(here, pace, detail)] if pace is not None else []
        case "RollingUpdate":
            if pace is None:
                return []
            errors = checks.non_negative(pace.partition, here.child("partition"))
            if pace.max_unavailable is not None:
                unavailable = here.child("maxUnavailable")
                errors += checks.number_or_percent(pace.max_unavailable, unavailable)
                errors += checks.invalid_if(
                    workload.is_zero_or_malformed(pace.max_unavailable),
                    unavailable,
                    pace.max_unavailable,
                    "cannot be 0",
                )
                errors += checks.at_most_100_percent(pace.max_unavailable, unavailable)
            return errors
        case _:
            return [field_errors.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")]


def _validate_claim_retention(spec: v1.StatefulSetSpec, path: Path) -> Errors:
    policy = spec.persistent_volume_claim_retention_policy
    given = checks.select_fields(policy, "whenDeleted", "whenScaled") if policy is not None else ()
    return [error for name, value in given for error in checks.one_of(value, _RETENTION, path.child(name))]


class ControllerRevisionStrategy(Strategy[v1.ControllerRevision]):
    has_generation = False

    def validate(self, obj: v1.ControllerRevision, old: v1.ControllerRevision | None, request: Request) -> Errors:
        errors = checks.non_negative(obj.revision, Path("revision"))
        errors += checks.invalid_if(old is not None and obj.data != old.data, Path("data"), obj.data, IMMUTABLE)
        errors += checks.require(old is not None or obj.data is not None, Path("data"), "data is mandatory")
        return errors
