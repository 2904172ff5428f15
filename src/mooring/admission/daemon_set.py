"""Default and validate DaemonSets."""

from mooring.admission import checks
from mooring.admission.meta import immutable
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.strategy import Request
from mooring.admission.workload import (
    SPEC,
    STATUS,
    TEMPLATE,
    TemplateStrategy,
    is_nothing,
    rolling_numbers,
    validate_lasting_template,
    validate_match,
)
from mooring.api import field_errors, label_selector
from mooring.api.apps_v1 import DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation with the template's generation, for clients of removed API versions."""


class DaemonSetStrategy(TemplateStrategy[DaemonSet]):
    warns_about_name = False

    def default(self, obj: DaemonSet) -> None:
        strategy = obj.spec.update_strategy
        strategy.type = strategy.type or "RollingUpdate"
        if strategy.type == "RollingUpdate":
            strategy.rolling_update = strategy.rolling_update or RollingUpdateDaemonSet()
            pace = strategy.rolling_update
            pace.max_unavailable = 1 if pace.max_unavailable is None else pace.max_unavailable
            pace.max_surge = pace.max_surge or 0
        elif strategy.rolling_update is not None:
            pace = strategy.rolling_update
            pace.max_unavailable, pace.max_surge = pace.max_unavailable or 0, pace.max_surge or 0
        if obj.spec.revision_history_limit is None:
            obj.spec.revision_history_limit = 10
        default_pod_spec(obj.spec.template.spec)
        obj.metadata.annotations.setdefault(_TEMPLATE_GENERATION, "1")

    def template_of(self, obj: DaemonSet) -> PodTemplateSpec:
        return obj.spec.template

    def prepare_for_update(self, new: DaemonSet, old: DaemonSet, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        number = old.metadata.annotations.get(_TEMPLATE_GENERATION, "1")
        count = int(number) if number.isdecimal() and len(number) < 19 else 1
        new.metadata.annotations[_TEMPLATE_GENERATION] = str(count + (new.spec.template != old.spec.template))

    def warnings(self, new: DaemonSet, old: DaemonSet | None, request: Request) -> list[str]:
        return [] if old is not None and new.spec.template == old.spec.template else super().warnings(new, old, request)

    def rules(self, obj: DaemonSet, old: DaemonSet | None, request: Request) -> Errors:
        spec, here = obj.spec, SPEC.child("selector")
        errors = label_selector.validate(spec.selector, here)
        errors += validate_match(spec.selector, spec.template, TEMPLATE)
        if spec.selector is not None and not spec.selector.match_labels and not spec.selector.match_expressions:
            errors.append(field_errors.invalid(here, spec.selector, "empty selector is invalid for daemonset"))
        old_template = old.spec.template if old is not None else None
        errors += validate_lasting_template(spec.template, old_template, TEMPLATE, "DaemonSet", request)
        errors += checks.non_negative(spec.min_ready_seconds, SPEC.child("minReadySeconds"))
        errors += _validate_update_strategy(spec.update_strategy, SPEC.child("updateStrategy"))
        errors += checks.non_negative(spec.revision_history_limit, SPEC.child("revisionHistoryLimit"))
        return errors if old is None else errors + immutable(spec.selector, old.spec.selector, SPEC, "selector")

    def status_rules(self, new: DaemonSet, old: DaemonSet, request: Request) -> Errors:
        nodes = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        updated = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
        return checks.non_negative_fields(new.status, STATUS, *nodes, "observedGeneration", *updated, "collisionCount")


def _validate_update_strategy(strategy: DaemonSetUpdateStrategy, path: Path) -> Errors:
    here, pace = path.child("rollingUpdate"), strategy.rolling_update
    match strategy.type:
        case "OnDelete":
            return []
        case "RollingUpdate" if pace is not None:
            unavailable, surge = pace.max_unavailable or 0, pace.max_surge or 0
            errors = rolling_numbers(unavailable, surge, here)
            if not is_nothing(unavailable) and not is_nothing(surge):
                detail = "may not be set when maxUnavailable is non-zero"
                errors.append(field_errors.invalid(here.child("maxSurge"), surge, detail))
            if is_nothing(unavailable) and is_nothing(surge):
                errors.append(field_errors.required(here.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
            errors += checks.at_most_all(unavailable, here.child("maxUnavailable"))
            return errors + checks.at_most_all(surge, here.child("maxSurge"))
        case _:
            return [field_errors.not_supported(path, strategy, ["RollingUpdate", "OnDelete"])]
