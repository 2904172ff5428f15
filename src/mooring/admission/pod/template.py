"""Pod templates inside workload kinds. A workload's strategy calls these four, each with the path of its template:

    default_template(obj.spec.template)                                     in default
    prepare_template(obj.spec.template, old_template_or_none, request)      in prepare_for_create and _for_update
    validate_template(obj.spec.template, old_template_or_none, path, request)   in validate_*
    template_warnings(obj.spec.template, path)                                  in warnings

Label keys are merged and tolerations added only when a pod is created from the template.
"""

from mooring.admission import meta
from mooring.admission.pod import warnings
from mooring.admission.pod.annotations import validate_pod_annotations
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.pod.mutation import drop_disabled_fields
from mooring.admission.pod.rules import PodRules, rules_for_create, rules_for_update
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.strategy import Request
from mooring.api import field_errors, names
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path


def default_template(template: PodTemplateSpec) -> None:
    default_pod_spec(template.spec)


def prepare_template(template: PodTemplateSpec, old: PodTemplateSpec | None, request: Request) -> None:
    """Drop fields whose gate is off, unless the old template has them."""
    drop_disabled_fields(template.spec, old.spec if old is not None else None, request.options, request.warn)


def validate_template(template: PodTemplateSpec, old: PodTemplateSpec | None, path: Path, request: Request) -> Errors:
    """Validate a template. Values that the old template has are allowed."""
    rules = template_rules(old, request)
    errors = names.validate_labels(template.metadata.labels, path.child("labels"))
    errors += meta.validate_annotations(template.metadata.annotations, path.child("annotations"))
    errors += validate_pod_annotations(template.metadata, template.spec, path.child("annotations"), rules)
    errors += validate_pod_spec(template.spec, None, path.child("spec"), rules)
    if template.spec.ephemeral_containers:
        detail = "ephemeral containers not allowed in pod template"
        errors.append(field_errors.forbidden(path.child("spec", "ephemeralContainers"), detail))
    return errors


def template_rules(old: PodTemplateSpec | None, request: Request) -> PodRules:
    if old is None:
        return rules_for_create(request.options, is_pod=False)
    return rules_for_update(request.options, old.spec, old.metadata, is_pod=False)


def template_warnings(template: PodTemplateSpec, path: Path) -> list[str]:
    return warnings.pod_spec_warnings(template.spec, path.child("spec"))
