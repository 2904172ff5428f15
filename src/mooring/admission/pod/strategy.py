"""The strategies of pods and their subresources `status`, `ephemeralcontainers` and `resize`, without binding."""

from collections.abc import Callable

from msgspec.structs import replace

from mooring.admission import limit_range, meta
from mooring.admission.pod import mutation, update
from mooring.admission.pod.annotations import MIRROR, validate_annotation_updates, validate_pod_annotations
from mooring.admission.pod.containers import validate_image_spaces
from mooring.admission.pod.defaults import default_pod
from mooring.admission.pod.resources import qos_class
from mooring.admission.pod.rules import PodRules, rules_for_create, rules_for_update
from mooring.admission.pod.service_account import set_service_account
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.pod.warnings import find_pod_spec_warnings
from mooring.admission.pod_security import enforcement as pod_security
from mooring.admission.runtime_class import apply_runtime_class
from mooring.admission.strategy import Request, Strategy, SubresourceStrategy, keep_status
from mooring.api import field_errors, times
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodCondition, PodSpec, PodStatus
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

SpecCheck = Callable[[PodSpec, ObjectMeta, Path, PodRules], Errors]
_ANNOTATIONS = meta.METADATA.child("annotations")
GATED = PodCondition(
    type="PodScheduled",
    status="False",
    reason="SchedulingGated",
    message="Scheduling is blocked due to non-empty scheduling gates",
)


class PodStrategy(Strategy[Pod]):
    def __init__(self) -> None:
        super().__init__({"ephemeralcontainers": EphemeralContainersStrategy(self), "resize": ResizeStrategy(self)})

    def default(self, obj: Pod) -> None:
        default_pod(obj)

    def mutate(self, obj: Pod, old: Pod | None, request: Request) -> None:
        if old is None:
            limit_range.set_defaults(obj, request)
            set_service_account(obj, request)
        mutation.resolve_priority(obj, old, request)
        mutation.add_default_tolerations(obj.spec)
        if old is None:
            apply_runtime_class(obj, request)
        if obj.spec.node_name and request.options.pod_topology_labels:
            obj.metadata.labels |= request.lookups.topology_labels(obj.spec.node_name)

    def prepare_for_create(self, obj: Pod, request: Request) -> None:
        obj.metadata.generation = 1
        obj.status = PodStatus(phase="Pending", qos_class=qos_class(obj.spec))
        mutation.drop_disabled_fields(obj.spec, None, request.options, request.warn)
        if obj.spec.scheduling_gates:
            obj.status.conditions.append(replace(GATED, last_transition_time=times.to_seconds(request.now)))
        mutation.limit_scheduling_terms(obj.spec)
        mutation.merge_label_keys(obj, request.options)

    def validate_create(self, obj: Pod, request: Request) -> Errors:
        rules = rules_for_create(request.options, is_pod=True)
        known = request.known_specs
        errors = _validate_pod(obj, rules, validate_pod_spec if known is None else known.validate)
        if obj.spec.ephemeral_containers:
            errors.append(field_errors.forbidden(update.SPEC.child("ephemeralContainers"), "cannot be set on create"))
        if obj.spec.node_name and obj.spec.scheduling_gates:
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(field_errors.forbidden(update.SPEC.child("nodeName"), detail))
        return errors

    def prepare_for_update(self, new: Pod, old: Pod, request: Request) -> None:
        keep_status(new, old)
        mutation.drop_disabled_fields(new.spec, old.spec, request.options, request.warn)
        if new.spec.affinity != old.spec.affinity or len(new.spec.tolerations) > len(old.spec.tolerations):
            mutation.limit_scheduling_terms(new.spec)
        new.metadata.generation = old.metadata.generation + (new.spec != old.spec)

    def validate_update(self, new: Pod, old: Pod, request: Request) -> Errors:
        rules = rules_for_update(request.options, old.spec, old.metadata, is_pod=True)
        known = request.known_specs
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        errors += _validate_pod(new, rules, validate_pod_spec if known is None else known.validate_changed)
        errors += validate_annotation_updates(new.metadata, old.metadata, _ANNOTATIONS)
        return errors + update.validate_spec_update(new.spec, old.spec)

    def warnings(self, new: Pod, old: Pod | None, request: Request) -> list[str]:
        if old is not None:
            return []
        known = request.known_specs
        return find_pod_spec_warnings(new.spec, update.SPEC) if known is None else known.warnings(new.spec, update.SPEC)

    def admit(self, new: Pod, old: Pod | None, request: Request) -> None:
        """Raise Forbidden if a pod violates Pod Security or, on create, a LimitRange (updates keep resources)."""
        if old is None:
            limit_range.check_pod(new, request)
        pod_security.check_pod(new, old, request)

    def prepare_status(self, new: Pod, old: Pod, request: Request) -> None:
        # An old client that does not know the field must not reset it.
        new.status.qos_class = new.status.qos_class or old.status.qos_class
        update.synchronize_pod_ips(new)

    def validate_status(self, new: Pod, old: Pod, request: Request) -> Errors:
        errors = validate_annotation_updates(new.metadata, old.metadata, _ANNOTATIONS)
        return errors + update.validate_status_update(new, old, strict_addresses=request.options.strict_addresses)


class EphemeralContainersStrategy(SubresourceStrategy[Pod]):
    def prepare_for_update(self, new: Pod, old: Pod, request: Request) -> None:
        wanted = new.spec.ephemeral_containers
        keep_status(new, old)
        new.spec = copy_of(old.spec)
        new.spec.ephemeral_containers = wanted
        new.metadata.generation = old.metadata.generation + (new.spec != old.spec)

    def validate_update(self, new: Pod, old: Pod, request: Request) -> Errors:
        if MIRROR in old.metadata.annotations:
            return [field_errors.forbidden(Path(""), "static pods do not support ephemeral containers")]
        rules = rules_for_update(request.options, old.spec, old.metadata, is_pod=True)
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        errors += _validate_pod(new, rules)
        errors += validate_annotation_updates(new.metadata, old.metadata, _ANNOTATIONS)
        return errors + update.validate_ephemeral_update(new.spec.ephemeral_containers, old.spec.ephemeral_containers)

    def admit(self, new: Pod, old: Pod | None, request: Request) -> None:
        pod_security.check_pod(new, old, request)


class ResizeStrategy(SubresourceStrategy[Pod]):
    def mutate(self, obj: Pod, old: Pod | None, request: Request) -> None:
        if old is None or old.metadata.deletion_timestamp is None:
            limit_range.set_defaults(obj, request)

    def prepare_for_update(self, new: Pod, old: Pod, request: Request) -> None:
        keep_status(new, old)
        new.spec = update.with_resized_containers(new.spec, old.spec)
        new.metadata.generation = old.metadata.generation + (new.spec != old.spec)

    def validate_update(self, new: Pod, old: Pod, request: Request) -> Errors:
        rules = rules_for_update(request.options, old.spec, old.metadata, is_pod=True)
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        return errors + _validate_pod(new, rules) + update.validate_resize(new, old)

    def admit(self, new: Pod, old: Pod | None, request: Request) -> None:
        if old is None or old.metadata.deletion_timestamp is None:
            limit_range.check_pod(new, request)


def _validate_pod(pod: Pod, rules: PodRules, validate_spec: SpecCheck = validate_pod_spec) -> Errors:
    errors = meta.validate_object_meta(pod.metadata)
    errors += validate_pod_annotations(pod.metadata, pod.spec, _ANNOTATIONS, rules)
    errors += validate_spec(pod.spec, pod.metadata, update.SPEC, rules)
    if not pod.spec.service_account_name:
        errors += _forbid_token_projections(pod)
    for name, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for index, container in enumerate(containers):
            if container.image != container.image.strip():
                errors += validate_image_spaces(container, update.SPEC.child(name).index(index))
    return errors


def _forbid_token_projections(pod: Pod) -> Errors:
    detail, path = "must not be specified when serviceAccountName is not set", update.SPEC.child("volumes")
    return [
        field_errors.forbidden(
            path.index(index).child("projected", "sources").index(at).child("serviceAccountToken"), detail
        )
        for index, volume in enumerate(pod.spec.volumes)
        if volume.projected is not None
        for at, source in enumerate(volume.projected.sources)
        if source.service_account_token is not None
    ]
