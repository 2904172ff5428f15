"""Default and validate RuntimeClasses, and apply them to pods: overhead, a node selector and tolerations."""

from collections.abc import Mapping
from math import inf

from msgspec import structs

from mooring.admission import checks
from mooring.admission.meta import IMMUTABLE
from mooring.admission.pod.resources import validate_resources
from mooring.admission.pod.rules import rules_for_create
from mooring.admission.pod.tolerations import validate_tolerations
from mooring.admission.strategy import Request, Strategy
from mooring.api import errors, names
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, ResourceRequirements, Toleration
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.node_v1 import RuntimeClass, Scheduling


class RuntimeClassStrategy(Strategy[RuntimeClass]):
    has_generation = False

    def validate(self, obj: RuntimeClass, old: RuntimeClass | None, request: Request) -> Errors:
        here = Path("handler")
        problems = checks.invalid_if(old is not None and obj.handler != old.handler, here, obj.handler, IMMUTABLE)
        problems += checks.require_name(obj.handler, here, names.dns1123_label)
        if obj.overhead is not None:
            amounts = ResourceRequirements(limits=obj.overhead.pod_fixed)
            problems += validate_resources(amounts, frozenset(), Path("overhead"))
        problems += checks.optional(obj.scheduling, Path("scheduling"), _validate_scheduling, request)
        return problems


def _validate_scheduling(scheduling: Scheduling, path: Path, request: Request) -> Errors:
    problems = names.validate_labels(scheduling.node_selector, path.child("nodeSelector"))
    here = path.child("tolerations")
    problems += validate_tolerations(scheduling.tolerations, here, rules_for_create(request.options, is_pod=False))
    seen = checks.UniqueKeys()
    for index, each in enumerate(scheduling.tolerations):
        key = (each.key, each.operator, each.value, each.effect, each.expression)
        problems += seen.add(key, here.index(index), each)
    return problems


def apply_runtime_class(pod: Pod, request: Request) -> None:
    """Set a new pod's overhead and placement by its RuntimeClass. Raise Forbidden if it is unknown or contradicted."""
    name = pod.spec.runtime_class_name
    if name is None:
        if pod.spec.overhead and request.lookups.knows_runtime_classes:
            raise _build_forbidden_error(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    found = request.lookups.runtime_class(name)
    if found is None:
        if request.lookups.knows_runtime_classes:
            raise _build_forbidden_error(pod, f'RuntimeClass "{name}" not found')
        return
    if found.overhead is None:
        if pod.spec.overhead:
            raise _build_forbidden_error(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
    else:
        if pod.spec.overhead and pod.spec.overhead != found.overhead.pod_fixed:
            raise _build_forbidden_error(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        pod.spec.overhead = dict(found.overhead.pod_fixed)
    if found.scheduling is not None:
        _apply_scheduling(pod, found.scheduling)


def _apply_scheduling(pod: Pod, scheduling: Scheduling) -> None:
    selector = pod.spec.node_selector
    for key, value in scheduling.node_selector.items():
        if selector.setdefault(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise errors.forbidden("pods", pod.metadata.name, why)
    if scheduling.tolerations:
        pod.spec.tolerations = merge_tolerations([*pod.spec.tolerations, *copy_of(scheduling.tolerations)])


def merge_tolerations(tolerations: list[Toleration]) -> list[Toleration]:
    """Return the tolerations without duplicates and without those that another, more general one covers."""
    distinct = list({structs.astuple(each): each for each in reversed(tolerations)}.values())[::-1]
    widest: dict[tuple[str, str, str, str], Toleration] = {}
    for each in distinct:
        if not each.expression and each.operator in ("", "Equal", "Exists"):
            form = (each.operator or "Equal", each.key, each.value, each.effect)
            if form not in widest or _get_tolerated_seconds(each) > _get_tolerated_seconds(widest[form]):
                widest[form] = each
    return [each for each in distinct if not _is_covered_toleration(each, widest)]


def _is_covered_toleration(each: Toleration, widest: Mapping[tuple[str, str, str, str], Toleration]) -> bool:
    if each.expression:
        return False
    forms = [("Exists", key, "", effect) for key in {"", each.key} for effect in {"", each.effect}]
    if each.operator in ("", "Equal"):
        forms += [("Equal", each.key, each.value, effect) for effect in {"", each.effect}]
    others = (widest[form] for form in forms if form in widest)
    return any(other is not each and _get_tolerated_seconds(other) >= _get_tolerated_seconds(each) for other in others)


def _get_tolerated_seconds(each: Toleration) -> float:
    return inf if each.toleration_seconds is None else each.toleration_seconds


def _build_forbidden_error(pod: Pod, why: str) -> errors.Forbidden:
    return errors.forbidden("pods", pod.metadata.name, f"pod rejected: {why}")
