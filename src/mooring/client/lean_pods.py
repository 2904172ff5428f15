"""Pods read for caches without what their like have said before: most of them is told apart by its bytes.

Most of what a server sends of a pod is its template's, or who manages its fields, which caches have no use for. Neither
is decoded again: a specification (apart from the node) is known by its bytes, and so are the statuses of containers
(apart from their ids) and all lists. What is empty is the same empty list or map in all pods. Called by ``wire.py``;
what is unusual is read the ordinary way.
"""

import re
from copy import copy
from typing import Any

import msgspec

from mooring.api.core_v1 import ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus
from mooring.api.from_tree import quantity_from
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.quantity import Quantity
from mooring.client.template_parts import TemplateParts

_NOTHING = msgspec.Raw(b"")
_NODE = b',"nodeName":"'
"""Nowhere else in a specification there is a field of this name."""
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


_BLANK = _Status()


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw
    status: _Status | None = None


class _Metadata(msgspec.Struct, gc=False):
    metadata: _Meta


class _UnusualPod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw
    status: PodStatus


def _hook(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


_METADATA = msgspec.json.Decoder(_Metadata)
_PODS = msgspec.json.Decoder(_Pod)
_UNUSUAL_PODS = msgspec.json.Decoder(_UnusualPod, dec_hook=_hook)
_SPECS = msgspec.json.Decoder(PodSpec, dec_hook=_hook)
_MAPS = msgspec.json.Decoder(dict[str, str])
_TEXTS = msgspec.json.Decoder(list[str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])
_CONDITIONS = msgspec.json.Decoder(list[PodCondition])
_HOST_IPS = msgspec.json.Decoder(list[HostIP])
_CONTAINERS = msgspec.json.Decoder(list[ContainerStatus], dec_hook=_hook)


def pod_of(raw: msgspec.Raw, parts: TemplateParts) -> Pod | None:
    """A pod, without managed fields and with shared parts; None if it has to be read the ordinary way."""
    try:
        seen = _seen(raw)
        spec, node = _spec(bytes(seen.spec), parts)
        if node != spec.node_name:
            spec = copy(spec)
            spec.node_name = parts.words[node]
        status = seen.status if isinstance(seen.status, PodStatus) else _status(seen.status or _BLANK, parts)
        return Pod(metadata=_meta(seen.metadata, parts), spec=spec, status=status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def metadata_of(raw: msgspec.Raw, parts: TemplateParts) -> ObjectMeta:
    """The metadata of a pod in the same way."""
    return _meta(_METADATA.decode(raw).metadata, parts)


def _seen(raw: msgspec.Raw) -> _Pod | _UnusualPod:
    try:
        return _PODS.decode(raw)
    except msgspec.ValidationError:
        return _UNUSUAL_PODS.decode(raw)


def _meta(seen: _Meta, parts: TemplateParts) -> ObjectMeta:
    words, known = parts.words, parts.known
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
    begin = text.find(_NODE)
    if begin < 0:
        spec = parts.known("spec", text, _SPECS)
        return spec, spec.node_name
    begins = begin + len(_NODE)
    end = text.index(b'"', begins)
    name = text[begins:end].decode("ascii")
    if "\\" in name or not text.startswith(b'",', end) or text.find(_NODE, end) >= 0:
        raise ValueError("a node is named in an unusual way")
    return parts.known("spec", text[: begin + 1] + text[end + 2 :], _SPECS), name


def _status(seen: _Status, parts: TemplateParts) -> PodStatus:
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
        text_of_id, found, behind = other.partition(b'",')
        if not found or b'"' in text_of_id or b"\\" in text_of_id:
            return _CONTAINERS.decode(text)
        ids.append(text_of_id.decode())
        rest.append(behind)
    alike = parts.known("containers", b"".join(rest), _CONTAINERS)
    if len(ids) != len(alike):
        return alike if not ids else _CONTAINERS.decode(text)
    own = [copy(each) for each in alike]
    for each, container_id in zip(own, ids, strict=True):
        each.container_id = container_id
    return own
