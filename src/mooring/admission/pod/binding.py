"""Bind a pod to its node. The API server calls `bind` under the pod's lock."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from msgspec.structs import replace

from mooring.admission import checks
from mooring.api import errors, times
from mooring.api.core_v1 import Binding, Pod, PodCondition
from mooring.api.field_path import Path

_TARGET = Path("target")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


def bind(pod: Pod, binding: Binding, now: datetime, labels: Mapping[str, str] = _NO_LABELS) -> Pod:
    """Return a copy of a pod, assigned to the Binding's node, with the node's topology `labels` added. Raise a
    `StatusError` if the Binding is invalid, is for another UID, or if the pod is assigned, terminating or gated.
    """
    name, target = pod.metadata.name, binding.target
    problems = checks.optional_one_of(target.kind or None, ("Node", "<empty>"), _TARGET.child("kind"))
    problems += checks.require(target.name, _TARGET.child("name"))
    if problems:
        raise errors.invalid("Binding", binding.metadata.name, problems)
    wanted = binding.metadata.uid
    if wanted and wanted != pod.metadata.uid:
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {pod.metadata.uid}"
        raise errors.conflict("pods", name, why)
    if pod.metadata.deletion_timestamp is not None:
        raise _conflict_error(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise _conflict_error(name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
    if pod.spec.scheduling_gates:
        raise _conflict_error(name, f"pod {name} has non-empty .spec.schedulingGates")
    return _assign_node(pod, binding, now, labels)


def _conflict_error(name: str, why: str) -> errors.Conflict:
    return errors.conflict("pods/binding", name, why)


def _assign_node(pod: Pod, binding: Binding, now: datetime, labels: Mapping[str, str]) -> Pod:
    scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=times.to_seconds(now))
    others = [condition for condition in pod.status.conditions if condition.type != "PodScheduled"]
    annotations = {**pod.metadata.annotations, **binding.metadata.annotations}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations, labels={**pod.metadata.labels, **labels}),
        spec=replace(pod.spec, node_name=binding.target.name),
        status=replace(pod.status, conditions=[*others, scheduled], nominated_node_name=""),
    )
