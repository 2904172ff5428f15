"""Validate pod updates. Mutable: images, deadlines, further tolerations; node constraints of a gated pod may narrow."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from mooring.admission import checks, meta
from mooring.admission.addresses import validate_status_ips
from mooring.admission.pod.annotations import MIRROR
from mooring.admission.pod.containers import validate_image_spaces
from mooring.admission.pod.resources import qos_class
from mooring.admission.pod.rules import required_node_terms
from mooring.admission.pod.security import validate_user_id
from mooring.api import core_v1, field_errors, names
from mooring.api.base import copy_of
from mooring.api.core_v1.pod_status import ContainerStatus, PodExtendedResourceClaimStatus, PodIP
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity
from mooring.constraints.requests import is_sidecar

_MUTABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_MAX_DEADLINE = 2**31 - 1
_MAX_USER_ID = 2**32 - 1
_MAX_SHOWN = 10
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
SPEC = Path("spec")
STATUS = Path("status")
_CONTAINERS = STATUS.child("containerStatuses")
_INIT_CONTAINERS = STATUS.child("initContainerStatuses")
_EPHEMERAL = STATUS.child("ephemeralContainerStatuses")


def validate_spec_update(new: core_v1.PodSpec, old: core_v1.PodSpec) -> Errors:
    errors: Errors = []
    for name, now, before in (
        ("containers", new.containers, old.containers),
        ("initContainers", new.init_containers, old.init_containers),
    ):
        errors += _validate_images(now, before, SPEC.child(name))
        if len(now) != len(before):
            return errors
    found, stop = _validate_deadline(new.active_deadline_seconds, old.active_deadline_seconds)
    errors += found
    if stop:
        return errors
    errors += _validate_added_tolerations(new.tolerations, old.tolerations)
    errors += _validate_removed_gates(new.scheduling_gates, old.scheduling_gates)
    if new == old:
        return errors
    masked = _replace_mutable_fields(old, new)
    if old.scheduling_gates:
        errors += _validate_narrowing(new, old)
        _mask_node_placement(masked, old)
    if masked != old:
        detail = f"pod updates may not change fields other than {_MUTABLE}\n{format_difference(old, masked)}"
        errors.append(field_errors.forbidden(SPEC, detail))
    return errors


def _validate_images(new: list[core_v1.Container], old: list[core_v1.Container], path: Path) -> Errors:
    if len(new) != len(old):
        return [field_errors.forbidden(path, "pod updates may not add or remove containers")]
    errors: Errors = []
    for index, container in enumerate(new):
        errors += checks.require(container.image, path.index(index).child("image"))
        errors += validate_image_spaces(container, path.index(index))
    return errors


def _validate_deadline(new: int | None, old: int | None) -> tuple[Errors, bool]:
    path = SPEC.child("activeDeadlineSeconds")
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return ([] if old is None else [field_errors.invalid(path, None, detail)]), False
    if not 0 <= new <= _MAX_DEADLINE:
        return [field_errors.invalid(path, new, names.out_of_range(0, _MAX_DEADLINE))], True
    if old is not None and old < new:
        return [field_errors.invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _validate_added_tolerations(new: list[core_v1.Toleration], old: list[core_v1.Toleration]) -> Errors:
    if new[: len(old)] == old:
        return []
    now = {_ignore_toleration_seconds(toleration) for toleration in new}
    if all(_ignore_toleration_seconds(toleration) in now for toleration in old):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [field_errors.forbidden(SPEC.child("tolerations"), detail)]


def _ignore_toleration_seconds(toleration: core_v1.Toleration) -> tuple[str, str, str, str, str]:
    return (toleration.key, toleration.operator, toleration.value, toleration.effect, toleration.expression)


def _validate_removed_gates(new: list[core_v1.PodSchedulingGate], old: list[core_v1.PodSchedulingGate]) -> Errors:
    known = {gate.name for gate in old}
    return [
        field_errors.forbidden(
            SPEC.child("schedulingGates").index(index).child("name"),
            f"only deletion is allowed, but found new scheduling gate '{gate.name}'",
        )
        for index, gate in enumerate(new)
        if gate.name not in known
    ]


def _replace_mutable_fields(old: core_v1.PodSpec, new: core_v1.PodSpec) -> core_v1.PodSpec:
    masked = structs.replace(
        new,
        containers=_replace_images(old.containers, new.containers),
        init_containers=_replace_images(old.init_containers, new.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        scheduling_gates=old.scheduling_gates,
        tolerations=old.tolerations,
    )
    grace = old.termination_grace_period_seconds
    if grace is not None and grace < 0 and masked.termination_grace_period_seconds == 1:
        masked.termination_grace_period_seconds = grace
    return masked


def _replace_images(old: list[core_v1.Container], new: list[core_v1.Container]) -> list[core_v1.Container]:
    return [structs.replace(now, image=before.image) for now, before in zip(new, old, strict=True)]


def _validate_narrowing(new: core_v1.PodSpec, old: core_v1.PodSpec) -> Errors:
    errors: Errors = []
    if any(new.node_selector.get(key) != value for key, value in old.node_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(field_errors.invalid(SPEC.child("nodeSelector"), new.node_selector, detail))
    was, now = required_node_terms(old), required_node_terms(new)
    if not was:
        return errors
    path = SPEC.child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    if len(was) != len(now):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*errors, field_errors.invalid(path, now, detail)]
    for index, (term, before) in enumerate(zip(now, was, strict=True)):
        if not _only_adds_requirements(term, before):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(field_errors.invalid(path.index(index), term, detail))
    return errors


def _only_adds_requirements(new: core_v1.NodeSelectorTerm, old: core_v1.NodeSelectorTerm) -> bool:
    pairs: list[tuple[list[Any], list[Any]]] = [
        (new.match_expressions, old.match_expressions),
        (new.match_fields, old.match_fields),
        (new.match_cel_expressions, old.match_cel_expressions),
    ]
    if not any(before for _, before in pairs):
        return not any(now for now, _ in pairs)
    return all(now[: len(before)] == before for now, before in pairs)


def _mask_node_placement(masked: core_v1.PodSpec, old: core_v1.PodSpec) -> None:
    masked.node_selector = old.node_selector
    before = old.affinity.node_affinity if old.affinity is not None else None
    if masked.affinity is None:
        if before is not None:
            masked.affinity = core_v1.Affinity(node_affinity=before)
    elif old.affinity is None and masked.affinity.pod_affinity is None and masked.affinity.pod_anti_affinity is None:
        masked.affinity = None
    else:
        masked.affinity = structs.replace(masked.affinity, node_affinity=before)


def validate_ephemeral_update(new: list[core_v1.EphemeralContainer], old: list[core_v1.EphemeralContainer]) -> Errors:
    """Return an error for each ephemeral container that an update changes or removes; an update may add others."""
    path = SPEC.child("ephemeralContainers")
    now = {container.name: container for container in new}
    errors = []
    for container in old:
        if container.name not in now:
            detail = f'existing ephemeral containers "{container.name}" may not be removed\n'
            errors.append(field_errors.forbidden(path, detail))
        elif container != now[container.name]:
            shown = format_difference(container, now[container.name])
            detail = f'existing ephemeral containers "{container.name}" may not be changed\n{shown}'
            errors.append(field_errors.forbidden(path, detail))
    return errors


def validate_status_update(new: core_v1.Pod, old: core_v1.Pod, *, strict_addresses: bool) -> Errors:
    errors: Errors = []
    for index, condition in enumerate(new.status.conditions):
        if condition.type not in _SYSTEM_CONDITIONS and (wrong := names.label_key(condition.type)):
            here = Path("metadata").child("conditions").index(index).child("Type")
            errors += names.validate(here, condition.type, wrong)
    nominated = new.status.nominated_node_name
    if nominated and nominated != old.status.nominated_node_name:
        errors += names.validate(STATUS.child("nominatedNodeName"), nominated, names.dns1123_subdomain(nominated))
    if _pod_ips(new) != _pod_ips(old):
        errors += validate_status_ips(_pod_ips(new), _pod_ips(old), STATUS.child("podIPs"), strict=strict_addresses)
    if new.status.host_ips != old.status.host_ips:
        errors += _host_ip_errors(new, old, strict=strict_addresses)
    if new.status.qos_class != old.status.qos_class:
        errors.append(field_errors.invalid(STATUS.child("qosClass"), new.status.qos_class, "field is immutable"))
    policy = old.spec.restart_policy
    sidecars = {item.name for item in old.spec.init_containers if item.restart_policy == "Always"}
    for path, now, before, restarts in (
        (_CONTAINERS, new.status.container_statuses, old.status.container_statuses, policy),
        (_INIT_CONTAINERS, new.status.init_container_statuses, old.status.init_container_statuses, policy),
        (_EPHEMERAL, new.status.ephemeral_container_statuses, old.status.ephemeral_container_statuses, "Never"),
    ):
        errors += _validate_container_users(now, path, new.spec)
        if before and restarts != "Always":
            skipped = sidecars if path is _INIT_CONTAINERS else set()
            errors += _validate_restart_transitions(now, before, path, restarts, skipped)
    claims = {claim.name for claim in new.spec.resource_claims}
    seen = checks.UniqueKeys()
    for index, status in enumerate(new.status.resource_claim_statuses):
        path = STATUS.child("resourceClaimStatuses").index(index)
        if status.name not in claims:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(field_errors.invalid(path.child("name"), status.name, detail))
        errors += seen.add(status.name, path.child("name"))
        errors += checks.optional_name(
            status.resource_claim_name, path.child("resourceClaimName"), names.dns1123_subdomain
        )
    if new.status.observed_generation < 0:
        here = STATUS.child("observedGeneration")
        errors.append(field_errors.invalid(here, new.status.observed_generation, "must be a non-negative integer"))
    if new.status.extended_resource_claim_status is not None:
        errors += _validate_extended_resource_claim(new.status.extended_resource_claim_status, new.spec)
    return errors


def _validate_container_users(statuses: list[ContainerStatus], path: Path, spec: core_v1.PodSpec) -> Errors:
    """Return errors in `user` of container statuses: ids out of range, or any user in a Windows pod."""
    errors: Errors = []
    for index, status in enumerate(statuses):
        user = status.user.linux if status.user else None
        if user is None:
            continue
        here = path.index(index).child("user").child("linux")
        if spec.os is not None and spec.os.name == "windows":
            errors.append(field_errors.forbidden(here, "cannot be set for a windows pod"))
            continue
        if not 0 <= user.uid <= _MAX_USER_ID:
            detail = f"must be between 0 and {_MAX_USER_ID}, inclusive"
            errors.append(field_errors.invalid(here.child("uid"), user.uid, detail))
        errors += validate_user_id(user.gid, here.child("gid"))
        for place, group in enumerate(user.supplemental_groups):
            errors += validate_user_id(group, here.child("supplementalGroups").index(place))
    return errors


def _validate_extended_resource_claim(status: PodExtendedResourceClaimStatus, spec: core_v1.PodSpec) -> Errors:
    """Return errors in `extendedResourceClaimStatus`, whose mappings name containers and their extended resources."""
    path = STATUS.child("extendedResourceClaimStatus")
    mappings, errors, seen = path.child("requestMappings"), Errors(), set()
    requests = {each.name: each.resources.requests for each in (*spec.init_containers, *spec.containers)}
    errors += checks.require(status.request_mappings, mappings, "at least one request mapping is required")
    for index, each in enumerate(status.request_mappings):
        here, given = mappings.index(index), checks.get_fields_by_json_name(each)
        containers = "spec.initContainers{0} or spec.containers{0}"
        if each.container_name not in requests:
            detail = f"must match the name of an entry in {containers.format('.name')}"
            errors.append(field_errors.invalid(here.child("containerName"), each.container_name, detail))
        elif each.resource_name not in requests[each.container_name]:
            entry = containers.format(".resources.requests")
            detail = f"must match the extended resource name of an entry in {entry}"
            errors.append(field_errors.invalid(here.child("resourceName"), each.resource_name, detail))
        errors += names.validate(path.child("requestName"), each.request_name, names.dns1123_label(each.request_name))
        if tuple(given.values()) in seen:
            errors += [field_errors.duplicate(here.child(name), value) for name, value in given.items()]
        seen.add(tuple(given.values()))
    return errors + checks.require_name(
        status.resource_claim_name, path.child("resourceClaimName"), names.dns1123_subdomain
    )


def synchronize_pod_ips(pod: core_v1.Pod) -> None:
    """Make `podIP` equal the first of `podIPs`. If they differ, `podIP` wins, because old clients set only that."""
    status = pod.status
    if status.pod_ip and status.pod_ip != "".join(each.ip for each in status.pod_ips[:1]):
        status.pod_ips = [PodIP(ip=status.pod_ip)]
    status.pod_ip = status.pod_ips[0].ip if status.pod_ips else ""


def _pod_ips(pod: core_v1.Pod) -> list[str]:
    return [each.ip for each in pod.status.pod_ips]


def _host_ip_errors(new: core_v1.Pod, old: core_v1.Pod, *, strict: bool) -> Errors:
    path, found = STATUS.child("hostIPs"), [each.ip for each in new.status.host_ips]
    errors = []
    if found and found[0] != new.status.host_ip:
        errors.append(field_errors.invalid(path.index(0).child("ip"), found[0], "must be equal to `hostIP`"))
    return errors + validate_status_ips(found, [each.ip for each in old.status.host_ips], path, strict=strict)


def _validate_restart_transitions(
    new: list[ContainerStatus], old: list[ContainerStatus], path: Path, restart_policy: str, skipped: set[str]
) -> Errors:
    running = {status.name for status in new if status.state.terminated is None}
    errors = []
    for index, status in enumerate(old):
        ended = status.state.terminated
        if ended is None or status.name in skipped or (ended.exit_code != 0 and restart_policy == "OnFailure"):
            continue
        if status.name in running:
            detail = "may not be transitioned to non-terminated state"
            errors.append(field_errors.forbidden(path.index(index).child("state"), detail))
    return errors


def format_difference(old: Any, new: Any) -> str:
    """List up to ten differences between two PodSpecs or containers, as lines for an error message."""
    lines = []
    for path, before, after in _find_differences(
        msgspec.to_builtins(old, enc_hook=str), msgspec.to_builtins(new, enc_hook=str), ""
    ):
        lines += [
            f"- {path}: {_format_value(before)}" if before is not None else "",
            f"+ {path}: {_format_value(after)}" if after is not None else "",
        ]
        if len(lines) > 2 * _MAX_SHOWN:
            lines.append("…")
            break
    return "\n".join(filter(None, lines))


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find_differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _find_differences(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _find_differences(before, after, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


_RESIZABLE = ("cpu", "memory")


def with_resized_containers(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """Return a copy of the old PodSpec with the resources and resize policies that containers have in `new`."""
    spec = copy_of(old)
    wanted = {container.name: container for container in (*new.containers, *new.init_containers)}
    for container in (*spec.containers, *spec.init_containers):
        if container.name in wanted:
            container.resources = wanted[container.name].resources
            container.resize_policy = wanted[container.name].resize_policy
    return spec


def validate_resize(new: core_v1.Pod, old: core_v1.Pod) -> Errors:
    """Return the errors of a `resize`: forbidden changes of container resources, resize policies and the QoS class."""
    for refused, why in (
        (_has_pod_level_resources(new) or _has_pod_level_resources(old), "pods with pod-level resources"),
        (MIRROR in old.metadata.annotations, "static pods"),
        (old.spec.os is not None and old.spec.os.name == "windows", "windows pods"),
    ):
        if refused:
            return [field_errors.forbidden(Path(""), f"{why} cannot be resized")]
    errors: Errors = []
    if qos_class(new.spec) != old.status.qos_class:
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(field_errors.invalid(SPEC, new.status.qos_class, detail))
    for name, now, before in (
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
        ("containers", new.spec.containers, old.spec.containers),
    ):
        for index, (container, was) in enumerate(zip(now, before, strict=True)):
            here = SPEC.child(name).index(index).child("resources")
            errors += _validate_container_resize(
                container, was, here, resizable=name == "containers" or is_sidecar(was)
            )
    return errors


def _has_pod_level_resources(pod: core_v1.Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and bool(resources.requests or resources.limits)


def _validate_container_resize(
    new: core_v1.Container, old: core_v1.Container, path: Path, *, resizable: bool
) -> Errors:
    if not resizable:
        detail = "resources for non-sidecar init containers are immutable"
        return [] if new == old else [field_errors.forbidden(SPEC, detail)]
    errors = []
    for name, now, before in (
        ("requests", new.resources.requests, old.resources.requests),
        ("limits", new.resources.limits, old.resources.limits),
    ):
        if not before.keys() <= now.keys():
            errors.append(field_errors.forbidden(path.child(name), f"resource {name} cannot be removed"))
    if (
        _select_fixed_resources(new.resources) != _select_fixed_resources(old.resources)
        or new.resources.claims != old.resources.claims
    ):
        errors.append(field_errors.forbidden(SPEC, "only cpu and memory resources are mutable"))
    if new.resize_policy != old.resize_policy:
        errors.append(field_errors.invalid(path, new.resize_policy, meta.IMMUTABLE))
    return errors


def _select_fixed_resources(resources: core_v1.ResourceRequirements) -> list[dict[str, Quantity]]:
    return [
        {name: quantity for name, quantity in given.items() if name not in _RESIZABLE}
        for given in (resources.requests, resources.limits)
    ]
