"""Default and validate DaemonSets."""

from mooring.admission import checks, workload
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.strategy import Request, set_empty, set_missing
from mooring.api import field_errors, label_selector
from mooring.api.apps_v1 import DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation with the template's generation, for clients of removed API versions."""


class DaemonSetStrategy(workload.TemplateStrategy[DaemonSet]):
    immutable = ("spec.selector",)
    warns_about_name = False

    def default(self, obj: DaemonSet) -> None:
        strategy = obj.spec.update_strategy
        strategy.type = strategy.type or "RollingUpdate"
        if strategy.type == "RollingUpdate":
            strategy.rolling_update = strategy.rolling_update or RollingUpdateDaemonSet()
            set_missing(strategy.rolling_update, max_unavailable=1)
            set_empty(strategy.rolling_update, max_surge=0)
        elif strategy.rolling_update is not None:
            set_empty(strategy.rolling_update, max_unavailable=0, max_surge=0)
        set_missing(obj.spec, revision_history_limit=10)
        default_pod_spec(obj.spec.template.spec)
        obj.metadata.annotations.setdefault(_TEMPLATE_GENERATION, "1")

    def prepare_for_update(self, new: DaemonSet, old: DaemonSet, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        number = old.metadata.annotations.get(_TEMPLATE_GENERATION, "1")
        count = int(number) if number.isdecimal() and len(number) < 19 else 1
        new.metadata.annotations[_TEMPLATE_GENERATION] = str(count + (new.spec.template != old.spec.template))

    def warnings(self, new: DaemonSet, old: DaemonSet | None, request: Request) -> list[str]:
        return [] if old is not None and new.spec.template == old.spec.template else super().warnings(new, old, request)

    def validate(self, obj: DaemonSet, old: DaemonSet | None, request: Request) -> Errors:
        spec, here = obj.spec, workload.SPEC.child("selector")
        errors = label_selector.validate(spec.selector, here)
        errors += workload.validate_selector_matches(spec.selector, spec.template, workload.TEMPLATE)
        if spec.selector is not None and not spec.selector.match_labels and not spec.selector.match_expressions:
            errors.append(field_errors.invalid(here, spec.selector, "empty selector is invalid for daemonset"))
        errors += workload.validate_permanent_template(
            spec.template, self.get_template(old), workload.TEMPLATE, "DaemonSet", request
        )
        errors += checks.non_negative(spec.min_ready_seconds, workload.SPEC.child("minReadySeconds"))
        errors += _validate_update_strategy(spec.update_strategy, workload.SPEC.child("updateStrategy"))
        return errors + checks.non_negative(spec.revision_history_limit, workload.SPEC.child("revisionHistoryLimit"))

    def validate_status(self, new: DaemonSet, old: DaemonSet, request: Request) -> Errors:
        nodes = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        updated = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
        return checks.non_negative_fields(
            new.status, workload.STATUS, *nodes, "observedGeneration", *updated, "collisionCount"
        )


def _validate_update_strategy(strategy: DaemonSetUpdateStrategy, path: Path) -> Errors:
    here, pace = path.child("rollingUpdate"), strategy.rolling_update
    match strategy.type:
        case "OnDelete":
            return []
        case "RollingUpdate" if pace is not None:
            unavailable, surge = pace.max_unavailable or 0, pace.max_surge or 0
            errors = workload.validate_rolling_numbers(unavailable, surge, here)
            if not workload.is_zero_or_malformed(unavailable) and not workload.is_zero_or_malformed(surge):
                detail = "may not be set when maxUnavailable is non-zero"
                errors.append(field_errors.invalid(here.child("maxSurge"), surge, detail))
            if workload.is_zero_or_malformed(unavailable) and workload.is_zero_or_malformed(surge):
                errors.append(field_errors.required(here.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
            errors += checks.at_most_100_percent(unavailable, here.child("maxUnavailable"))
            return errors + checks.at_most_100_percent(surge, here.child("maxSurge"))
        case _:
            return [field_errors.not_supported(path, strategy, ["RollingUpdate", "OnDelete"])]
