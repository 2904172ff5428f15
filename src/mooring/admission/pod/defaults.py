"""Default pods and pod templates. Both share `default_pod_spec`; `default_pod` adds the defaults of pods only."""

import re

from mooring.admission.pod.resources import sum_container_requests
from mooring.admission.strategy import set_empty, set_missing
from mooring.api import core_v1
from mooring.api.core_v1.container import HTTPGetAction
from mooring.api.core_v1.pod_volume import DownwardAPIVolumeFile, EphemeralVolumeSource
from mooring.api.quantity import MILLI, Quantity
from mooring.base.short_string_cache import cache_short
from mooring.constraints.requests import is_pod_level

DEFAULT_MODE = 0o644
TOKEN_EXPIRATION_SECONDS = 3600
GRACE_PERIOD_SECONDS = 30
_VOLUME_SOURCES = tuple(name for name in core_v1.Volume.__struct_fields__ if name != "name")

_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_IDENTIFIER = re.compile("[0-9a-f]{64}")
"""Matches the identifier (digest) of an image, which Kubernetes does not accept as a name."""
_MAX_IMAGE_CHARACTERS = 1024
"""The maximum length of an image name that is parsed. Registries allow 255 characters, a tag of 128 and a digest."""


def default_pod(pod: core_v1.Pod) -> None:
    """Set the defaults of a pod in place: those of its spec, and those that pod templates do not get."""
    spec = pod.spec
    default_pod_spec(spec)
    for container in spec.containers:
        _default_requests_to_limits(container.resources)
    for container in spec.init_containers:
        _default_requests_to_limits(container.resources)
    if spec.resources is not None:
        _default_pod_requests(spec, spec.resources)
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        spec.termination_grace_period_seconds = 1
    if spec.enable_service_links is None:
        spec.enable_service_links = True
    if pod.status.allocated_resources:
        round_to_milli(pod.status.allocated_resources)
    if spec.host_network:
        for container in (*spec.containers, *spec.init_containers):
            for port in container.ports:
                port.host_port = port.host_port or port.container_port


def default_pod_spec(spec: core_v1.PodSpec) -> None:
    """Set the defaults of a PodSpec, in a pod or a pod template, in place."""
    if not spec.dns_policy:
        spec.dns_policy = "ClusterFirst"
    if not spec.restart_policy:
        spec.restart_policy = "Always"
    if spec.security_context is None:
        spec.security_context = core_v1.PodSecurityContext()
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = GRACE_PERIOD_SECONDS
    if not spec.scheduler_name:
        spec.scheduler_name = "default-scheduler"
    spec.service_account_name = spec.service_account_name or spec.service_account
    spec.service_account = spec.service_account_name
    for container in spec.containers:
        _default_container(container)
    for container in spec.init_containers:
        _default_container(container)
    for container in spec.ephemeral_containers:
        _default_container(container)
    for volume in spec.volumes:
        _default_volume(volume)
    if spec.overhead:
        round_to_milli(spec.overhead)
    if spec.resources is not None:
        _round_requirements(spec.resources)


@cache_short(1024)
def default_pull_policy(image: str) -> str:
    """Return an image's default pull policy: Always for the tag `latest` or no tag and digest, else IfNotPresent."""
    found = _IMAGE.fullmatch(image) if len(image) <= _MAX_IMAGE_CHARACTERS else None
    if found is None or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def round_to_milli(resources: dict[str, Quantity]) -> None:
    """Round quantities up to thousandths, Kubernetes' smallest unit, in place."""
    for name, quantity in resources.items():
        resources[name] = quantity.round_up(MILLI)


def _default_container(container: core_v1.Container) -> None:
    if not container.image_pull_policy:
        container.image_pull_policy = default_pull_policy(container.image)
    if not container.termination_message_path:
        container.termination_message_path = "/dev/termination-log"
    if not container.termination_message_policy:
        container.termination_message_policy = "File"
    for port in container.ports:
        port.protocol = port.protocol or "TCP"
    for variable in container.env:
        if variable.value_from is not None and variable.value_from.field_ref is not None:
            _default_field_ref(variable.value_from.field_ref)
    _round_requirements(container.resources)
    for probe in (container.liveness_probe, container.readiness_probe, container.startup_probe):
        if probe is not None:
            _default_probe(probe)
    if container.lifecycle is not None:
        for handler in (container.lifecycle.post_start, container.lifecycle.pre_stop):
            if handler is not None and handler.http_get is not None:
                _default_http_get(handler.http_get)


def _default_field_ref(selector: core_v1.ObjectFieldSelector) -> None:
    if not selector.api_version:
        selector.api_version = "v1"


def _default_probe(probe: core_v1.Probe) -> None:
    probe.timeout_seconds = probe.timeout_seconds or 1
    probe.period_seconds = probe.period_seconds or 10
    probe.success_threshold = probe.success_threshold or 1
    probe.failure_threshold = probe.failure_threshold or 3
    if probe.http_get is not None:
        _default_http_get(probe.http_get)
    if probe.grpc is not None and probe.grpc.service is None:
        probe.grpc.service = ""


def _default_http_get(action: HTTPGetAction) -> None:
    action.path = action.path or "/"
    action.scheme = action.scheme or "HTTP"


def _round_requirements(resources: core_v1.ResourceRequirements) -> None:
    if resources.limits:
        round_to_milli(resources.limits)
    if resources.requests:
        round_to_milli(resources.requests)


def _default_requests_to_limits(resources: core_v1.ResourceRequirements) -> None:
    for name, limit in resources.limits.items():
        resources.requests.setdefault(name, limit)


def _default_pod_requests(spec: core_v1.PodSpec, resources: core_v1.ResourceRequirements) -> None:
    if not resources.limits:
        return
    for name, quantity in sum_container_requests(spec).items():
        if is_pod_level(name) and not name.startswith("hugepages-"):
            resources.requests.setdefault(name, quantity)
    for name, limit in resources.limits.items():
        if is_pod_level(name):
            resources.requests.setdefault(name, limit)


def _default_volume(volume: core_v1.Volume) -> None:
    if volume.config_map is not None:
        volume.config_map.default_mode = _default_file_mode(volume.config_map.default_mode)
    elif volume.secret is not None:
        volume.secret.default_mode = _default_file_mode(volume.secret.default_mode)
    elif volume.projected is not None:
        _default_projected(volume.projected)
    elif volume.downward_api is not None:
        volume.downward_api.default_mode = _default_file_mode(volume.downward_api.default_mode)
        _default_downward_files(volume.downward_api.items)
    elif volume.ephemeral is not None:
        _default_ephemeral(volume.ephemeral)
    elif volume.image is not None:
        volume.image.pull_policy = volume.image.pull_policy or default_pull_policy(volume.image.reference)
    elif all(getattr(volume, name) is None for name in _VOLUME_SOURCES):
        volume.empty_dir = core_v1.EmptyDirVolumeSource()
    else:
        default_volume_source(volume)


def _default_file_mode(mode: int | None) -> int:
    return DEFAULT_MODE if mode is None else mode


def _default_downward_files(files: list[DownwardAPIVolumeFile]) -> None:
    for file in files:
        if file.field_ref is not None:
            _default_field_ref(file.field_ref)


def _default_projected(projected: core_v1.ProjectedVolumeSource) -> None:
    projected.default_mode = _default_file_mode(projected.default_mode)
    for source in projected.sources:
        if source.service_account_token is not None and source.service_account_token.expiration_seconds is None:
            source.service_account_token.expiration_seconds = TOKEN_EXPIRATION_SECONDS
        if source.downward_api is not None:
            _default_downward_files(source.downward_api.items)


def _default_ephemeral(ephemeral: EphemeralVolumeSource) -> None:
    template = ephemeral.volume_claim_template
    if template is not None:
        template.spec.volume_mode = template.spec.volume_mode or "Filesystem"
        round_to_milli(template.spec.resources.limits)
        round_to_milli(template.spec.resources.requests)


def default_volume_source(spec: core_v1.PersistentVolumeSpec | core_v1.Volume) -> None:
    """Set the defaults of those volume sources that both pods and PersistentVolumes have, in place."""
    if spec.host_path is not None:
        set_empty(spec.host_path, type="")
    if spec.iscsi is not None:
        set_empty(spec.iscsi, iscsi_interface="default")
    if spec.rbd is not None:
        set_empty(spec.rbd, pool="rbd", user="admin", keyring="/etc/ceph/keyring")
    if spec.scale_io is not None:
        set_empty(spec.scale_io, storage_mode="ThinProvisioned", fs_type="xfs")
    if spec.azure_disk is not None:
        set_missing(spec.azure_disk, caching_mode="ReadWrite", kind="Shared", fs_type="ext4", read_only=False)
