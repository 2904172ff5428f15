"""Decode pods for caches by reusing parts that earlier pods had, because most of a pod equals its template.

A specification without its node, the status of a pod that is not running, the statuses of containers without their ids,
and all lists are looked up by their bytes in ``template_parts.py``. Managed fields are skipped. Empty lists and maps
are one shared object. ``wire.py`` calls this for lists, ``watch.py`` for events; both decode unusual pods in full.
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
"""The errors that mean that a pod is unusual and has to be decoded in full."""
_NOTHING = msgspec.Raw(b"")
_BLANK = msgspec.Raw(b"{}")
_NODE = b',"nodeName":"'
"""The field name by which a pod spec is split around its node; no other field of a spec has this name."""
_CONTAINERS_STARTED = b'"containerStatuses"'
_ID = b'"containerID":"'
_TOKEN = re.compile(rb'"kube-api-access-[bcdf-hj-np-tv-xz2-9]{5}"')
_ANY_TOKEN = b'"kube-api-access-00000"'
"""The name that replaces the generated names of token volumes; generated names never contain zeros."""


class _RawMetadata(msgspec.Struct, rename="camel", gc=False):
    """Pod metadata in which labels, owners and other repeating fields are still JSON bytes."""

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


class _RawStatus(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """The common fields of a pod's status, in which repeating fields are still JSON bytes."""

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


class RawPod(msgspec.Struct, gc=False):
    """A partly decoded pod: fields that many pods repeat are still JSON bytes."""

    metadata: _RawMetadata
    spec: msgspec.Raw = _BLANK
    status: msgspec.Raw = _BLANK


def _decode_quantity(cls: type, value: Any) -> Any:
    if cls is Quantity:
        return quantity_from(value)
    raise NotImplementedError(f"no way to decode {cls}")


_PODS = msgspec.json.Decoder(RawPod)
_SPECS = msgspec.json.Decoder(PodSpec, dec_hook=_decode_quantity)
_STATUSES = msgspec.json.Decoder(_RawStatus)
_UNUSUAL_STATUSES = msgspec.json.Decoder(PodStatus, dec_hook=_decode_quantity)
_MAPS = msgspec.json.Decoder(dict[str, str])
_TEXTS = msgspec.json.Decoder(list[str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])
_CONDITIONS = msgspec.json.Decoder(list[PodCondition])
_HOST_IPS = msgspec.json.Decoder(list[HostIP])
_CONTAINERS = msgspec.json.Decoder(list[ContainerStatus], dec_hook=_decode_quantity)


def decode_raw_pod(raw: msgspec.Raw) -> RawPod:
    """Decode a pod's JSON, leaving the fields that many pods repeat as bytes for `build_pod`."""
    return _PODS.decode(raw)


def build_pod(seen: RawPod, parts: TemplateParts) -> Pod:
    """Return the complete pod, without managed fields; equal parts are objects shared with other pods."""
    spec, node = _decode_spec(bytes(seen.spec), parts)
    if node != spec.node_name:
        spec = replace(spec, node_name=parts.strings[node])
    return Pod(
        kind="Pod",
        api_version="v1",
        metadata=build_metadata(seen, parts),
        spec=spec,
        status=_find_or_decode_status(bytes(seen.status), parts),
    )


def build_metadata(pod: RawPod, parts: TemplateParts) -> ObjectMeta:
    """Return a pod's complete metadata; equal labels and owners are objects shared with other pods."""
    seen, strings, decode_once = pod.metadata, parts.strings, parts.decode_once
    created = seen.creation_timestamp
    return ObjectMeta(
        name=seen.name,
        generate_name=strings[seen.generate_name],
        namespace=strings[seen.namespace],
        self_link=seen.self_link,
        uid=seen.uid,
        resource_version=seen.resource_version,
        generation=seen.generation,
        creation_timestamp=created and strings[created],
        deletion_timestamp=seen.deletion_timestamp,
        deletion_grace_period_seconds=seen.deletion_grace_period_seconds,
        labels=decode_once("labels", bytes(seen.labels), _MAPS) if seen.labels else parts.empty_map,
        annotations=decode_once("annotations", bytes(seen.annotations), _MAPS) if seen.annotations else parts.empty_map,
        owner_references=decode_once("owners", bytes(seen.owner_references), _OWNERS)
        if seen.owner_references
        else parts.empty_list,
        finalizers=decode_once("finalizers", bytes(seen.finalizers), _TEXTS) if seen.finalizers else parts.empty_list,
        managed_fields=parts.empty_list,
    )


def _decode_spec(text: bytes, parts: TemplateParts) -> tuple[PodSpec, str]:
    """Return a pod's spec without its node, shared by pods of a template, and the node's name; or raise ValueError."""
    if parts.ignores_token_names and (token := _TOKEN.search(text)) is not None:
        text = text.replace(token[0], _ANY_TOKEN)
    head, *behind = text.split(_NODE)
    if not behind:
        spec = parts.decode_once("spec", text, _SPECS)
        return spec, spec.node_name
    name, found, tail = behind[0].partition(b'",')
    node = name.decode("ascii")
    if not found or '"' in node or "\\" in node or len(behind) > 1:
        raise ValueError("a node is named in an unusual way")
    return parts.decode_once("spec", head + b"," + tail, _SPECS), node


def _find_or_decode_status(text: bytes, parts: TemplateParts) -> PodStatus:
    """Return a pod's decoded status: one shared with equal pods if it is not running, else its own."""
    if text.find(_CONTAINERS_STARTED) >= 0:
        return _decode_status(text, parts)
    found: PodStatus | None = parts.find_part("status", text)
    return parts.add_part("status", text, _decode_status(text, parts)) if found is None else found


def _decode_status(text: bytes, parts: TemplateParts) -> PodStatus:
    """Decode a pod's status into an object of its own, whose lists are shared with other pods."""
    try:
        seen = _STATUSES.decode(text)
    except msgspec.ValidationError:
        return _UNUSUAL_STATUSES.decode(text)
    strings, decode_once, nothing = parts.strings, parts.decode_once, parts.empty_list
    started, containers = seen.start_time, seen.container_statuses
    return PodStatus(
        observed_generation=seen.observed_generation,
        phase=strings[seen.phase],
        conditions=decode_once("pod conditions", bytes(seen.conditions), _CONDITIONS) if seen.conditions else nothing,
        message=seen.message,
        reason=strings[seen.reason],
        nominated_node_name=strings[seen.nominated_node_name],
        host_ip=strings[seen.host_ip],
        host_ips=decode_once("host IPs", bytes(seen.host_ips), _HOST_IPS) if seen.host_ips else nothing,
        pod_ip=seen.pod_ip,
        pod_ips=seen.pod_ips or nothing,
        start_time=started and strings[started],
        init_container_statuses=nothing,
        container_statuses=_decode_containers(bytes(containers), parts) if containers else nothing,
        qos_class=strings[seen.qos_class],
        ephemeral_container_statuses=nothing,
        resource_claim_statuses=nothing,
        allocated_resources=parts.empty_map,
        node_allocatable_resource_claim_statuses=nothing,
        volume_health=nothing,
    )


def _decode_containers(text: bytes, parts: TemplateParts) -> list[ContainerStatus]:
    """Decode container statuses; everything in them except the ids is shared with other pods."""
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
    shared = parts.decode_once("containers", b"".join(rest), _CONTAINERS)
    if len(ids) != len(shared):
        return shared if not ids else _CONTAINERS.decode(text)
    return [replace(each, container_id=own) for each, own in zip(shared, ids, strict=True)]
