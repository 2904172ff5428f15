"""Validate regular, init and ephemeral containers."""

import msgspec

from mooring.admission import checks, volume_sources
from mooring.admission.pod.environment import validate_env, validate_env_from, validate_ports
from mooring.admission.pod.probes import ProbeContext, build_probe_context, validate_probes
from mooring.admission.pod.resources import validate_resources
from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.security import validate_container_security
from mooring.api import field_errors, names
from mooring.api.core_v1 import Container, PodSpec, Volume, VolumeDevice, VolumeMount
from mooring.api.core_v1.container import ContainerResizePolicy, ContainerRestartRule
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.constraints.requests import is_sidecar

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESIZE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255
_SIDECAR_FIELDS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_NO_RESTART = "must not be set to 'RestartContainer' for non-sidecar initContainers"
_NOT_FOR_EPHEMERAL = "cannot be set for an Ephemeral Container"
_EPHEMERAL_FIELDS = (
    "name",
    "image",
    "command",
    "args",
    "working_dir",
    "env_from",
    "env",
    "volume_mounts",
    "volume_devices",
    "termination_message_path",
    "termination_message_policy",
    "image_pull_policy",
    "security_context",
    "stdin",
    "stdin_once",
    "tty",
    "target_container_name",
)


class _ContainerContext(msgspec.Struct, frozen=True):
    """The properties of a pod that validating its containers needs: volumes, claims, restart policy, user namespace."""

    volumes: dict[str, Volume]
    claims: frozenset[str]
    restart_policy: str
    host_users: bool
    probes: ProbeContext
    rules: PodRules


def validate_all_containers(spec: PodSpec, volumes: dict[str, Volume], path: Path, rules: PodRules) -> Errors:
    """Return the errors of a pod's regular, init and ephemeral containers; `volumes` are the mountable ones by name."""
    claims = frozenset(claim.name for claim in spec.resource_claims if claim.name)
    pod = _ContainerContext(
        volumes, claims, spec.restart_policy, spec.host_users is not False, build_probe_context(spec), rules
    )
    errors = _validate_regular_containers(spec.containers, path.child("containers"), pod)
    if spec.init_containers:
        errors += _validate_init_containers(spec, path.child("initContainers"), pod)
    if spec.ephemeral_containers:
        errors += _validate_ephemeral_containers(spec, path.child("ephemeralContainers"), pod)
    return errors


def _validate_regular_containers(containers: list[Container], path: Path, pod: _ContainerContext) -> Errors:
    if not containers:
        return [field_errors.required(path)]
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, container in enumerate(containers):
        here = path.index(index)
        errors += _validate_container(container, here, pod) + seen.add(container.name, here.child("name"))
        errors += validate_probes(container, here, pod.probes)
        if container.restart_policy is not None or container.restart_policy_rules:
            errors += _validate_restart_policy(container, here, pod)
    return errors + _validate_host_ports(containers, path)


def _validate_init_containers(spec: PodSpec, path: Path, pod: _ContainerContext) -> Errors:
    errors: Errors = []
    taken = {container.name for container in spec.containers}
    for index, container in enumerate(spec.init_containers):
        here = path.index(index)
        errors += _validate_container(container, here, pod)
        if container.restart_policy is not None or container.restart_policy_rules:
            errors += _validate_restart_policy(container, here, pod, init=True)
        if container.name in taken:
            errors.append(field_errors.duplicate(here.child("name"), container.name))
        elif container.name:
            taken.add(container.name)
        errors += _validate_host_ports([container], path)
        if is_sidecar(container):
            errors += validate_probes(container, here, pod.probes)
        else:
            for name, value in checks.select_fields(container, *_SIDECAR_FIELDS):
                errors += checks.forbidden_if(value, here.child(name), _NOT_FOR_INIT)
            for position, policy in enumerate(container.resize_policy):
                wrong = policy.restart_policy == "RestartContainer" and not pod.rules.restarting_init_resize
                at = here.child("resizePolicy").index(position).child("restartPolicy")
                errors += checks.invalid_if(wrong, at, policy.restart_policy, _NO_RESTART)
    return errors


def _validate_ephemeral_containers(spec: PodSpec, path: Path, pod: _ContainerContext) -> Errors:
    errors: Errors = []
    others = {container.name for container in (*spec.containers, *spec.init_containers)}
    taken = set(others)
    for index, container in enumerate(spec.ephemeral_containers):
        here = path.index(index)
        errors += _validate_container(container, here, pod)
        errors += validate_image_spaces(container, here)
        if container.name in taken:
            errors.append(field_errors.duplicate(here.child("name"), container.name))
        taken.add(container.name)
        target = container.target_container_name
        if target and target not in others:
            errors.append(field_errors.not_found(here.child("targetContainerName"), target))
        errors += volume_sources.forbid_other_fields(container, _EPHEMERAL_FIELDS, here, _NOT_FOR_EPHEMERAL)
        for position, mount in enumerate(container.volume_mounts):
            at = here.child("volumeMounts").index(position)
            for name, value in checks.select_fields(mount, "subPath", "subPathExpr"):
                errors += checks.forbidden_if(value, at.child(name), _NOT_FOR_EPHEMERAL)
    return errors


def validate_image_spaces(container: Container, path: Path) -> Errors:
    """Return an error for an image with leading or trailing spaces; pods are checked for it, templates are not."""
    if container.image == container.image.strip():
        return []
    return [field_errors.invalid(path.child("image"), container.image, "must not have leading or trailing whitespace")]


def _validate_container(container: Container, path: Path, pod: _ContainerContext) -> Errors:
    errors: Errors = []
    if not container.name:
        errors.append(field_errors.required(path.child("name")))
    elif wrong := names.dns1123_label(container.name):
        errors += names.validate(path.child("name"), container.name, wrong)
    if not container.image:
        errors.append(field_errors.required(path.child("image")))
    policy = container.termination_message_policy
    if not policy:
        errors.append(field_errors.required(path.child("terminationMessagePolicy")))
    elif policy not in _MESSAGE_POLICIES:
        errors.append(field_errors.not_supported(path.child("terminationMessagePolicy"), policy, _MESSAGE_POLICIES))
    if container.ports:
        errors += validate_ports(container.ports, path.child("ports"))
    if container.env:
        errors += validate_env(container.env, path.child("env"), pod.rules.options, pod.volumes)
    if container.env_from:
        errors += validate_env_from(container.env_from, path.child("envFrom"), pod.rules.options)
    if container.volume_mounts:
        errors += _validate_volume_mounts(container, pod.volumes, path.child("volumeMounts"))
    if container.volume_devices:
        errors += _validate_volume_devices(container, pod.volumes, path.child("volumeDevices"))
    if container.image_pull_policy not in volume_sources.PULL_POLICIES:
        errors += volume_sources.validate_pull_policy(container.image_pull_policy, path.child("imagePullPolicy"))
    lenient = pod.rules.indivisible_huge_pages
    resources = path.child("resources")
    errors += validate_resources(container.resources, pod.claims, resources, indivisible_huge_pages=lenient)
    if container.resize_policy:
        errors += _validate_resize_policy(container.resize_policy, path.child("resizePolicy"), pod.restart_policy)
    if container.security_context is not None:
        context = path.child("securityContext")
        errors += validate_container_security(container.security_context, context, host_users=pod.host_users)
    return errors


def _validate_host_ports(containers: list[Container], path: Path) -> Errors:
    errors = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.ports):
            if port.host_port:
                key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
                if key in taken:
                    here = path.index(index).child("ports").index(position).child("hostPort")
                    errors.append(field_errors.duplicate(here, key))
                taken.add(key)
    return errors


def _validate_restart_policy(container: Container, path: Path, pod: _ContainerContext, *, init: bool = False) -> Errors:
    policy, here = container.restart_policy, path.child("restartPolicy")
    if not pod.rules.options.container_restart_policy:
        if not init:
            return [field_errors.forbidden(here, "may not be set for non-init containers")]
        return [] if policy == "Always" else [field_errors.not_supported(here, policy, ("Always",))]
    errors = checks.optional_one_of(policy, _RESTART_POLICIES, here)
    rules, rules_path = container.restart_policy_rules, path.child("restartPolicyRules")
    if rules and policy is None:
        errors.append(field_errors.required(here, "must specify restartPolicy when restart rules are used"))
        if init:
            return errors
    errors += checks.limit_items(rules, _MAX_RESTART_RULES, rules_path)
    for index, rule in enumerate(rules):
        errors += _validate_restart_rule(rule, rules_path.index(index))
    return errors


def _validate_restart_rule(rule: ContainerRestartRule, path: Path) -> Errors:
    errors = checks.one_of(rule.action, _RESTART_ACTIONS, path.child("action"))
    codes, here = rule.exit_codes, path.child("exitCodes")
    if codes is None:
        return [*errors, field_errors.required(here, "must be specified")]
    errors += checks.one_of(codes.operator, ("In", "NotIn"), here.child("operator"))
    return errors + checks.limit_items(codes.values, _MAX_EXIT_CODES, here.child("values"))


def _validate_resize_policy(policies: list[ContainerResizePolicy], path: Path, restart_policy: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resource_name in seen:
            errors.append(field_errors.duplicate(path.index(index), policy.resource_name))
        seen.add(policy.resource_name)
        for value, supported in (
            (policy.resource_name, _RESIZE_RESOURCES),
            (policy.restart_policy, _RESIZE_POLICIES),
        ):
            if not value:
                errors.append(field_errors.required(path))
            elif value not in supported:
                errors.append(field_errors.not_supported(path, value, supported))
        if restart_policy == "Never" and policy.restart_policy != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(field_errors.invalid(path, policy.restart_policy, detail))
    return errors


def _validate_volume_mounts(container: Container, volumes: dict[str, Volume], path: Path) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    devices = {device.name: device.device_path for device in container.volume_devices}
    device_paths = frozenset(devices.values())
    for index, mount in enumerate(container.volume_mounts):
        here = path.index(index)
        volume = volumes.get(mount.name)
        if not mount.name:
            errors.append(field_errors.required(here.child("name")))
        if volume is None:
            errors.append(field_errors.not_found(here.child("name"), mount.name))
        if not mount.mount_path:
            errors.append(field_errors.required(here.child("mountPath")))
        if mount.mount_path in taken:
            errors.append(field_errors.invalid(here.child("mountPath"), mount.mount_path, "must be unique"))
        taken.add(mount.mount_path)
        if mount.name in devices:
            detail = "must not already exist in volumeDevices"
            errors.append(field_errors.invalid(here.child("name"), mount.name, detail))
        if mount.mount_path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(field_errors.invalid(here.child("mountPath"), mount.mount_path, detail))
        errors += _validate_sub_path(mount, here, path)
        errors += _validate_mount_propagation(mount, container, path)
    return errors


def _validate_sub_path(mount: VolumeMount, here: Path, mounts: Path) -> Errors:
    errors: Errors = []
    if mount.sub_path:
        errors += volume_sources.validate_local_path(mount.sub_path, mounts.child("subPath"))
    if mount.sub_path_expr:
        if mount.sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(field_errors.invalid(here.child("subPathExpr"), mount.sub_path_expr, detail))
        errors += volume_sources.validate_local_path(mount.sub_path_expr, mounts.child("subPathExpr"))
    return errors


def _validate_mount_propagation(mount: VolumeMount, container: Container, path: Path) -> Errors:
    errors: Errors = []
    mode, here = mount.mount_propagation, path.child("mountPropagation")
    if mode is not None:
        errors += checks.one_of(mode, _PROPAGATIONS, here)
        privileged = container.security_context is not None and container.security_context.privileged
        if mode == "Bidirectional" and not privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(field_errors.forbidden(here, detail))
    recursive, here = mount.recursive_read_only, path.child("recursiveReadOnly")
    if recursive is not None and recursive not in _RECURSIVE_READ_ONLY:
        errors.append(field_errors.not_supported(here, recursive, _RECURSIVE_READ_ONLY))
    elif recursive in ("Enabled", "IfPossible"):
        if not mount.read_only:
            errors.append(field_errors.forbidden(here, "may only be specified when readOnly is true"))
        if mode not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.append(field_errors.forbidden(here, detail))
    return errors


def _validate_volume_devices(container: Container, volumes: dict[str, Volume], path: Path) -> Errors:
    errors: Errors = []
    paths: set[str] = set()
    taken: set[str] = set()
    mounts = {mount.name: mount.mount_path for mount in container.volume_mounts}
    mount_paths = frozenset(mounts.values())
    for index, device in enumerate(container.volume_devices):
        here = path.index(index)
        errors += _validate_volume_device(device, volumes.get(device.name), here)
        if device.name and device.name in taken:
            errors.append(field_errors.invalid(here.child("name"), device.name, "must be unique"))
        taken.add(device.name)
        if device.device_path in paths:
            errors.append(field_errors.invalid(here.child("devicePath"), device.device_path, "must be unique"))
        paths.add(device.device_path)
        if device.name in mounts:
            detail = "must not already exist in volumeMounts"
            errors.append(field_errors.invalid(here.child("name"), device.name, detail))
        if device.device_path in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(field_errors.invalid(here.child("devicePath"), device.device_path, detail))
    return errors


def _validate_volume_device(device: VolumeDevice, volume: Volume | None, path: Path) -> Errors:
    errors = [] if device.name else [field_errors.required(path.child("name"))]
    if volume is None:
        errors.append(field_errors.not_found(path.child("name"), device.name))
    elif volume.persistent_volume_claim is None and volume.ephemeral is None:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(field_errors.invalid(path.child("name"), device.name, detail))
    if not device.device_path:
        errors.append(field_errors.required(path.child("devicePath")))
    elif ".." in device.device_path.split("/"):
        detail = "can not contain backsteps ('..')"
        errors.append(field_errors.invalid(path.child("devicePath"), device.device_path, detail))
    return errors
