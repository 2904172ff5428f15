"""What workload kinds share: a selector that matches the labels of the pod template, and pods that run for ever.

Each kind has a file of its own: ``deployment.py``, ``replica_set.py``, ``stateful_set.py``, ``daemon_set.py``,
``job.py``. The pods themselves are judged by ``pod/template.py``, which also knows what an old template may keep.
"""

from mooring.admission.numbers import is_zero, non_negative, number_or_percent
from mooring.admission.pod.template import validate_template
from mooring.admission.strategy import Request
from mooring.api import field_errors, label_selector, names
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector, ObjectMeta

SPEC = Path("spec")
STATUS = Path("status")
TEMPLATE = SPEC.child("template")
LABELS_DIFFER = "`selector` does not match template `labels`"
MORE_THAN_REPLICAS = "cannot be greater than status.replicas"
_NAME_ADVICE = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
    "a DNS label is recommended: "
)


def validate_selector(selector: LabelSelector | None, path: Path, when_empty: str) -> list[FieldError]:
    """A selector that must be there and must choose something."""
    if selector is None:
        return [field_errors.required(path)]
    errors = label_selector.validate(selector, path)
    if not selector.match_labels and not selector.match_expressions:
        errors.append(field_errors.invalid(path, selector, when_empty))
    return errors


def validate_match(selector: LabelSelector | None, template: PodTemplateSpec, path: Path) -> list[FieldError]:
    """The selector must choose the pods that are made from the template at `path`."""
    try:
        matcher = label_selector.from_label_selector(selector)
    except label_selector.SelectorError:
        return []  # the selector's own rules have said so
    if matcher.is_empty() or matcher.matches(template.metadata.labels):
        return []
    return [field_errors.invalid(path.child("metadata", "labels"), template.metadata.labels or None, LABELS_DIFFER)]


def validate_lasting_template(
    template: PodTemplateSpec, old: PodTemplateSpec | None, path: Path, kind: str, request: Request
) -> list[FieldError]:
    """A template of pods that run for ever: they are restarted always and have no deadline."""
    return validate_template(template, old, path, request) + runs_for_ever(template, path, kind)


def runs_for_ever(template: PodTemplateSpec, path: Path, kind: str) -> list[FieldError]:
    """Nothing in a template may end its pods."""
    errors = []
    policy = template.spec.restart_policy
    if policy != "Always":
        errors.append(field_errors.not_supported(path.child("spec", "restartPolicy"), policy, ["Always"]))
    if template.spec.active_deadline_seconds is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(field_errors.forbidden(path.child("spec", "activeDeadlineSeconds"), detail))
    return errors


def rolling_numbers(unavailable: int | str, surge: int | str, path: Path) -> list[FieldError]:
    """Both numbers of a rolling update."""
    errors = number_or_percent(unavailable, path.child("maxUnavailable"))
    return errors + number_or_percent(surge, path.child("maxSurge"))


def is_nothing(value: int | str) -> bool:
    """Whether a number of pods is zero; text that is no number counts as zero."""
    return is_zero(value) or (isinstance(value, str) and not value.rstrip("%").lstrip("+-").isdigit())


def status_numbers(numbers: dict[str, int | None]) -> list[FieldError]:
    """The counts of a status, by name."""
    return [error for name, value in numbers.items() for error in non_negative(value, STATUS.child(name))]


def at_most(numbers: dict[str, int], limit: int, detail: str) -> list[FieldError]:
    """Counts of a status that cannot be more than another."""
    return [field_errors.invalid(STATUS.child(name), value, detail) for name, value in numbers.items() if value > limit]


def name_warnings(metadata: ObjectMeta) -> list[str]:
    """A name that cannot be a host name."""
    wrong = names.dns1123_label(metadata.name)
    return [f"{_NAME_ADVICE}[{' '.join(wrong)}]"] if wrong else []
