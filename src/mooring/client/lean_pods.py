"""Pods read for caches without what their like have said before: most of them is told apart by its bytes.

Most of what a server sends of a pod is its template's, or who manages its fields, which caches have no use for. Neither
is decoded again: a specification (apart from the node) is known by its bytes, and so are the status of a pod that does
not run yet, the statuses of containers (apart from their ids) and all lists. What is empty is the same empty list or
map in all pods. Called by ``wire.py`` for lists and by ``watch.py`` for events; these read what is unusual the ordinary
way.
"""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.core_v1 import ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus
from mooring.api.from_tree import quantity_from
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.quantity import Quantity
from mooring.client.template_parts import TemplateParts

UNUSUAL = (msgspec.MsgspecError, RecursionError, ValueError)
"""What is raised for a pod that has to be read the ordinary way."""
_NOTHING = msgspec.Raw(b"")
_BLANK = msgspec.Raw(b"{}")
_NODE = b',"nodeName":"'
"""Nowhere else in a specification there is a field of this name."""
_CONTAINERS_STARTED = b'"containerStatuses"'
_ID = b'"containerID":"'
_TOKEN = re.compile(rb'"kube-api-access-[bcdf-hj-np-tv-xz2-9]{5}"')
_ANY_TOKEN = b'"kube-api-access-00000"'
"""No name that Kubernetes makes up has a zero."""


class _Meta(msgspec.Struct, rename="camel", gc=False):
    """The metadata with what repeats unread."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: msgspec.Raw = _NOTHING
    finalizers: msgspec.Raw = _NOTHING
    labels: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING


class _Status(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """What nearly every status consists of, with what repeats unread."""

    observed_generation: int = 0
    phase: str = ""
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: list[PodIP] | None = msgspec.field(default=None, name="podIPs")
    start_time: str | None = None
    qos_class: str = ""
    conditions: msgspec.Raw = _NOTHING
    host_ips: msgspec.Raw = msgspec.field(default=_NOTHING, name="hostIPs")
    container_statuses: msgspec.Raw = _NOTHING


class SeenPod(msgspec.Struct, gc=False):
    """A pod with what repeats unread."""

    metadata: _Meta
    spec: msgspec.Raw = _BLANK
    status: msgspec.Raw = _BLANK


def _hook(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


_PODS = msgspec.json.Decoder(SeenPod)
_SPECS = msgspec.json.Decoder(PodSpec, dec_hook=_hook)
_STATUSES = msgspec.json.Decoder(_Status)
_UNUSUAL_STATUSES = msgspec.json.Decoder(PodStatus, dec_hook=_hook)
_MAPS = msgspec.json.Decoder(dict[str, str])
_TEXTS = msgspec.json.Decoder(list[str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])
_CONDITIONS = msgspec.json.Decoder(list[PodCondition])
_HOST_IPS = msgspec.json.Decoder(list[HostIP])
_CONTAINERS = msgspec.json.Decoder(list[ContainerStatus], dec_hook=_hook)


def read(raw: msgspec.Raw) -> SeenPod:
    """A pod, as far as it does not repeat."""
    return _PODS.decode(raw)


def pod_of(seen: SeenPod, parts: TemplateParts) -> Pod:
    """A pod, without managed fields and with shared parts."""
    spec, node = _spec(bytes(seen.spec), parts)
    if node != spec.node_name:
        spec = replace(spec, node_name=parts.words[node])
    return Pod(
        kind="Pod",
        api_version="v1",
        metadata=metadata_of(seen, parts),
        spec=spec,
        status=_status(bytes(seen.status), parts),
    )


def identity_of(seen: SeenPod) -> ObjectMeta:
    """The name, uid and version of a pod."""
    meta = seen.metadata
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


def metadata_of(pod: SeenPod, parts: TemplateParts) -> ObjectMeta:
    """The metadata of a pod, in the same way."""
    seen, words, known = pod.metadata, parts.words, parts.known
    created = seen.creation_timestamp
    return ObjectMeta(
        name=seen.name,
        generate_name=words[seen.generate_name],
        namespace=words[seen.namespace],
        self_link=seen.self_link,
        uid=seen.uid,
        resource_version=seen.resource_version,
        generation=seen.generation,
        creation_timestamp=created and words[created],
        deletion_timestamp=seen.deletion_timestamp,
        deletion_grace_period_seconds=seen.deletion_grace_period_seconds,
        labels=known("labels", bytes(seen.labels), _MAPS) if seen.labels else parts.no_map,
        annotations=known("annotations", bytes(seen.annotations), _MAPS) if seen.annotations else parts.no_map,
        owner_references=known("owners", bytes(seen.owner_references), _OWNERS)
        if seen.owner_references
        else parts.no_list,
        finalizers=known("finalizers", bytes(seen.finalizers), _TEXTS) if seen.finalizers else parts.no_list,
        managed_fields=parts.no_list,
    )


def _spec(text: bytes, parts: TemplateParts) -> tuple[PodSpec, str]:
    """The specification that pods of a template share, and the node, which stands between other fields as a rule."""
    if parts.tokens_alike and (token := _TOKEN.search(text)) is not None:
        text = text.replace(token[0], _ANY_TOKEN)
    head, *behind = text.split(_NODE)
    if not behind:
        spec = parts.known_spec(text, _SPECS)
        return spec, spec.node_name
    name, found, tail = behind[0].partition(b'",')
    node = name.decode("ascii")
    if not found or '"' in node or "\\" in node or len(behind) > 1:
        raise ValueError("a node is named in an unusual way")
    return parts.known_spec(head + b"," + tail, _SPECS), node


def _status(text: bytes, parts: TemplateParts) -> PodStatus:
    """The status; pods that do not run yet share it. Behind containers there are ids and addresses of their own."""
    if text.find(_CONTAINERS_STARTED) >= 0:
        return _own_status(text, parts)
    found: PodStatus | None = parts.seen("status", text)
    return parts.remember("status", text, _own_status(text, parts)) if found is None else found


def _own_status(text: bytes, parts: TemplateParts) -> PodStatus:
    """A status that only shares its lists."""
    try:
        seen = _STATUSES.decode(text)
    except msgspec.ValidationError:
        return _UNUSUAL_STATUSES.decode(text)
    words, known, nothing = parts.words, parts.known, parts.no_list
    started = seen.start_time
    return PodStatus(
        observed_generation=seen.observed_generation,
        phase=words[seen.phase],
        conditions=known("pod conditions", bytes(seen.conditions), _CONDITIONS) if seen.conditions else nothing,
        message=seen.message,
        reason=words[seen.reason],
        nominated_node_name=words[seen.nominated_node_name],
        host_ip=words[seen.host_ip],
        host_ips=known("host IPs", bytes(seen.host_ips), _HOST_IPS) if seen.host_ips else nothing,
        pod_ip=seen.pod_ip,
        pod_ips=seen.pod_ips or nothing,
        start_time=started and words[started],
        init_container_statuses=nothing,
        container_statuses=_containers(bytes(seen.container_statuses), parts) if seen.container_statuses else nothing,
        qos_class=words[seen.qos_class],
        ephemeral_container_statuses=nothing,
        resource_claim_statuses=nothing,
        allocated_resources=parts.no_map,
        node_allocatable_resource_claim_statuses=nothing,
        volume_health=nothing,
    )


def _containers(text: bytes, parts: TemplateParts) -> list[ContainerStatus]:
    """The statuses of containers: alike but for the ids, where each container has one that is not its last field."""
    first, *others = text.split(_ID)
    ids: list[str] = []
    rest = [first]
    for other in others:
        before, found, behind = other.partition(b'",')
        container_id = before.decode()
        if not found or '"' in container_id or "\\" in container_id:
            return _CONTAINERS.decode(text)
        ids.append(container_id)
        rest.append(behind)
    alike = parts.known("containers", b"".join(rest), _CONTAINERS)
    if len(ids) != len(alike):
        return alike if not ids else _CONTAINERS.decode(text)
    return [replace(each, container_id=own) for each, own in zip(alike, ids, strict=True)]
