"""Decode pods for caches by reusing parts that earlier pods had, because most of a pod equals its template.

A specification without its node, the status of a pod that is not running, the statuses of containers without their ids,
and all lists are looked up by their bytes in ``template_parts.py``. Managed fields are skipped. Empty lists and maps
are one shared object. ``wire.py`` calls this for lists, ``watch.py`` for events; both decode unusual pods in full.
"""

import re
import sys

import msgspec
from msgspec.structs import replace

from mooring.api import codec
from mooring.api.core_v1 import ContainerStatus, Pod, PodSpec, PodStatus
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.client.template_parts import TemplateParts

UNUSUAL = (msgspec.MsgspecError, RecursionError, ValueError)
"""The errors that mean that a pod is unusual and has to be decoded in full."""
_NOTHING = msgspec.Raw(b"")
_BLANK = msgspec.Raw(b"{}")
_NODE = b',"nodeName":"'
"""The field name by which a pod spec is split around its node; no other field of a spec has this name."""
_CONTAINERS_STARTED = b'"containerStatuses"'
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


class RawPod(msgspec.Struct, gc=False):
    """A partly decoded pod: fields that many pods repeat are still JSON bytes."""

    metadata: _RawMetadata
    spec: msgspec.Raw = _BLANK
    status: msgspec.Raw = _BLANK


_PODS = msgspec.json.Decoder(RawPod)
_SPECS = codec.get_decoder(PodSpec)
_STATUSES = codec.get_decoder(PodStatus)
_MAPS = msgspec.json.Decoder(dict[str, str])
_TEXTS = msgspec.json.Decoder(list[str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])


def decode_raw_pod(raw: msgspec.Raw) -> RawPod:
    """Decode a pod's JSON, leaving the fields that many pods repeat as bytes for `build_pod`."""
    return _PODS.decode(raw)


def build_pod(seen: RawPod, parts: TemplateParts) -> Pod:
    """Return the Pod from a partly decoded one, without managed fields; equal parts are shared with other pods."""
    spec, node = _decode_spec(bytes(seen.spec), parts)
    if node != spec.node_name:
        spec = replace(spec, node_name=sys.intern(node))
    return Pod(
        kind="Pod",
        api_version="v1",
        metadata=build_metadata(seen, parts),
        spec=spec,
        status=_decode_status(bytes(seen.status), parts),
    )


def build_metadata(pod: RawPod, parts: TemplateParts) -> ObjectMeta:
    """Return the metadata of a partly decoded pod, without managed fields; equal labels and owners are shared."""
    seen, decode_once = pod.metadata, parts.decode_once
    created = seen.creation_timestamp
    return ObjectMeta(
        name=seen.name,
        generate_name=sys.intern(seen.generate_name),
        namespace=sys.intern(seen.namespace),
        self_link=seen.self_link,
        uid=seen.uid,
        resource_version=seen.resource_version,
        generation=seen.generation,
        creation_timestamp=created and sys.intern(created),
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


def _decode_status(text: bytes, parts: TemplateParts) -> PodStatus:
    """Return a pod's status: one object for all equal ones if no container has started, else one with shared parts."""
    if text.find(_CONTAINERS_STARTED) < 0:
        return parts.decode_once("status", text, _STATUSES)
    status = _STATUSES.decode(text)
    parts.share_fields(status)
    status.conditions = parts.intern("pod conditions", status.conditions)
    status.host_ips = parts.intern("host IPs", status.host_ips)
    status.container_statuses = [_share_container_status(each, parts) for each in status.container_statuses]
    return status


def _share_container_status(status: ContainerStatus, parts: TemplateParts) -> ContainerStatus:
    """Return a container's status; everything in it except its id is shared with other pods."""
    own, status.container_id = status.container_id, ""
    return replace(parts.intern("container", status), container_id=own)
