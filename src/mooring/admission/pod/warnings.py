"""Warnings about accepted pods and templates: deprecated names, duplicates, fields without effect."""

from collections import defaultdict
from collections.abc import Iterator

from mooring.admission.pod.security import iterate_containers
from mooring.api import core_v1, names
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_RENAMED = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}
RENAMED_LABELS = {old: new for old, (_, new) in _RENAMED.items()}
DEPRECATED_LABELS = {old: f'deprecated since {since}; use "{new}" instead' for old, (since, new) in _RENAMED.items()}
"""The warning about each deprecated node label."""
_DEPRECATED_SOURCES = {
    "photonPersistentDisk": "v1.11, non-functional in v1.16+",
    "gitRepo": "v1.11, and disabled by default in v1.33+",
    "scaleIO": "v1.16, non-functional in v1.22+",
    "flocker": "v1.22, non-functional in v1.25+",
    "storageos": "v1.22, non-functional in v1.25+",
    "quobyte": "v1.22, non-functional in v1.25+",
    "glusterfs": "v1.25, non-functional in v1.26+",
    "cephfs": "v1.28, non-functional in v1.31+",
    "rbd": "v1.28, non-functional in v1.31+",
}
_DEPRECATED_ATTRIBUTES = [
    (attribute, name)
    for attribute, name in zip(core_v1.Volume.__struct_fields__, core_v1.Volume.__struct_encode_fields__, strict=True)
    if name in _DEPRECATED_SOURCES
]


def find_deprecated_sources(volume: core_v1.Volume | core_v1.PersistentVolumeSpec, path: Path) -> Iterator[str]:
    """Yield a warning for each source of a volume that Kubernetes has deprecated."""
    for attribute, name in _DEPRECATED_ATTRIBUTES:
        if getattr(volume, attribute, None) is not None:
            here = path.child("storageOS" if name == "storageos" else name)
            yield f"{here}: deprecated in {_DEPRECATED_SOURCES[name]}"


def find_pod_spec_warnings(spec: core_v1.PodSpec, path: Path) -> list[str]:
    return [
        *_find_node_selector_warnings(spec, path),
        *_find_affinity_warnings(spec, path),
        *_find_spread_warnings(spec, path),
        *_find_volume_warnings(spec, path),
        *_find_host_alias_warnings(spec, path),
        *_find_container_warnings(spec, path),
        *_find_number_warnings(spec, path),
    ]


def _find_node_selector_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    for key in spec.node_selector:
        if key in DEPRECATED_LABELS:
            yield f"{path.child('nodeSelector').key(key)}: {DEPRECATED_LABELS[key]}"


def _find_topology_key_warnings(key: str, path: Path) -> Iterator[str]:
    if key in DEPRECATED_LABELS:
        yield f"{path.child('topologyKey')}: {DEPRECATED_LABELS[key]}"


def _find_spread_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    for index, constraint in enumerate(spec.topology_spread_constraints):
        here = path.child("topologySpreadConstraints").index(index)
        yield from _find_topology_key_warnings(constraint.topology_key, here)
        if constraint.label_selector is None:
            yield f"{here.child('labelSelector')}: {_NULL_SELECTOR}"


def _find_affinity_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        here = path.child("affinity", "nodeAffinity")
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        for index, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from _find_node_term_warnings(
                term, here.child(_REQUIRED, "nodeSelectorTerms").index(index), preferred=False
            )
        for index, weighted in enumerate(affinity.node_affinity.preferred_during_scheduling_ignored_during_execution):
            yield from _find_node_term_warnings(
                weighted.preference, here.child(_PREFERRED).index(index).child("preference"), preferred=True
            )
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            here = path.child("affinity", name)
            for index, pod_term in enumerate(pods.required_during_scheduling_ignored_during_execution):
                yield from _find_pod_term_warnings(pod_term, here.child(_REQUIRED).index(index))
            for index, weighted_pod in enumerate(pods.preferred_during_scheduling_ignored_during_execution):
                at = here.child(_PREFERRED).index(index).child("podAffinityTerm")
                yield from _find_pod_term_warnings(weighted_pod.pod_affinity_term, at)


def _find_node_term_warnings(term: core_v1.NodeSelectorTerm, path: Path, *, preferred: bool) -> Iterator[str]:
    for index, requirement in enumerate(term.match_expressions):
        if requirement.key in DEPRECATED_LABELS:
            here = path.child("matchExpressions").index(index).child("key")
            yield f"{here}: {DEPRECATED_LABELS[requirement.key]}"
        for position, value in enumerate(requirement.values if preferred else ()):
            for message in names.label_value(value):
                here = path.child("matchExpressions").index(index).child("values").index(position)
                yield f"{here}: {value} is invalid, {message}"


def _find_pod_term_warnings(term: core_v1.PodAffinityTerm, path: Path) -> Iterator[str]:
    if term.label_selector is None:
        yield f"{path.child('labelSelector')}: {_NULL_SELECTOR}"
    yield from _find_topology_key_warnings(term.topology_key, path)


def _find_host_alias_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for index, alias in enumerate(spec.host_aliases):
        if alias.ip in seen:
            yield f"{path.child('hostAliases').index(index).child('ip')}: duplicate ip {go_quote(alias.ip)}"
        seen.add(alias.ip)
    secrets: set[str] = set()
    for index, secret in enumerate(spec.image_pull_secrets):
        here = path.child("imagePullSecrets").index(index)
        if not secret.name:
            yield f"{here.child('name')}: invalid empty name {go_quote(secret.name)}"
        elif secret.name in secrets:
            yield f"{here.child('name')}: duplicate name {go_quote(secret.name)}"
        secrets.add(secret.name)


def _find_container_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    containers = [*iterate_containers(spec, path)]
    for container, here in containers:
        if container.resources.limits or container.resources.requests:
            yield from find_fraction_warnings(container.resources, here, "memory", "ephemeral-storage")
        yield from _find_variable_warnings(container, here)
    yield from _find_port_warnings(containers)


def _find_volume_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes):
        here = path.child("volumes").index(index)
        yield from find_deprecated_sources(volume, here)
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            resources = volume.ephemeral.volume_claim_template.spec.resources
            yield from find_fraction_warnings(
                resources, here.child("ephemeral", "volumeClaimTemplate", "spec"), "storage"
            )


def find_fraction_warnings(
    resources: core_v1.ResourceRequirements | core_v1.VolumeResourceRequirements, path: Path, *wanted: str
) -> Iterator[str]:
    """Yield a warning for each limit and request of the resources `wanted` that is not a whole number of bytes."""
    for name in wanted:
        for kind, amounts in (("limits", resources.limits), ("requests", resources.requests)):
            amount = amounts.get(name)
            if amount is not None and amount.milli_value() % 1000:
                here, shown = path.child("resources", kind).key(name), go_quote(str(amount))
                yield f"{here}: fractional byte value {shown} is invalid, must be an integer"


def _find_variable_warnings(container: core_v1.Container, path: Path) -> Iterator[str]:
    values: dict[str, str] = {}
    for index, variable in enumerate(container.env):
        own_reference = f"$({variable.name})" in variable.value
        if variable.name in values and not own_reference:
            here = path.child("env").index(index)
            yield (
                f"{here}: hides previous definition of {go_quote(variable.name)}, which may be dropped when using apply"
            )
        values[variable.name] = variable.value


def _find_port_warnings(containers: list[tuple[core_v1.Container, Path]]) -> Iterator[str]:
    names_seen: dict[str, Path] = {}
    seen: dict[tuple[str, int], list[tuple[Path, core_v1.ContainerPort]]] = defaultdict(list)
    for container, where in containers:
        for index, port in enumerate(container.ports):
            here = where.child("ports").index(index)
            if port.host_ip and not port.host_port:
                shown = f"Name:{port.name} HostPort:0 ContainerPort:{port.container_port} Protocol:{port.protocol}"
                yield f"{here}: hostIP set without hostPort: {{{shown} HostIP:{port.host_ip}}}"
            others = seen[port.protocol, port.container_port]
            for at, other in others:
                if (port.host_ip, port.host_port) == (other.host_ip, other.host_port):
                    yield f"{here}: duplicate port definition with {at}"
                elif not port.host_port or not other.host_port:
                    yield f"{here}: overlapping port definition with {at}"
                elif port.host_port == other.host_port and bool(port.host_ip) != bool(other.host_ip):
                    yield f"{here}: dangerously ambiguous port definition with {at}"
            others.append((here, port))
            if port.name and (first := names_seen.setdefault(port.name, here)) is not here:
                use = f"services and probes that select ports by name will use {first}"
                yield f"{here}: duplicate port name {go_quote(port.name)} with {first}, {use}"


def _find_number_warnings(spec: core_v1.PodSpec, path: Path) -> Iterator[str]:
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        here = path.child("terminationGracePeriodSeconds")
        yield f"{here}: must be >= 0; negative values are invalid and will be treated as 1"
