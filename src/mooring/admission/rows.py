"""Split objects of one template into the template and per-row values, and declare which rules read these values.

    template, row = split_template(pod)     # a client: the document with ROW in place of the row's values
    own = extract_row(stored_pod)         # the server, in place: the rest is equal for pods of one template
    insert_row(admitted_template, own)    # and back

The API server admits a template once and reuses the outcome for its rows. That is sound because every admission rule
that reads a per-row field is declared here: `READERS` names the rules that depend only on properties that
`is_valid_row` checks, `may_share_admission` excludes templates for which a rule derives a field from a row. An
undeclared rule that reads a per-row field fails ``tests/unit/admission/test_rows.py``. Read next: ``pipeline.py``.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from mooring.admission.addresses import validate_status_ips
from mooring.api import codec, names
from mooring.api.batch_writes import ROW, Row
from mooring.api.core_v1 import Binding, HostIP, NodeSelectorRequirement, Pod, PodIP, PodSpec, PodStatus
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.base.short_string_cache import cache_short

T = TypeVar("T", bound=Resource)

POD_NAME_LABEL, POD_INDEX_LABEL = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
ZONE_LABEL = "topology.kubernetes.io/zone"
_LABELS = ((POD_NAME_LABEL, "pod_name_label"), (POD_INDEX_LABEL, "pod_index_label"), (ZONE_LABEL, "zone_label"))
PER_ROW_LABELS = frozenset(label for label, _ in _LABELS)

READERS = frozenset(
    {
        "mooring.admission.limit_range._raise_forbidden",  # for the error, after which nothing is shared
        "mooring.admission.meta.validate_object_meta",
        "mooring.admission.meta.validate_object_meta_update",
        "mooring.admission.node_selector._validate_field_requirement",
        "mooring.admission.pipeline._invalid",  # for the error
        "mooring.admission.pipeline._keep_identity",
        "mooring.admission.pipeline._require_same_name",
        "mooring.admission.pipeline.finish_update",
        "mooring.admission.pipeline.generate_name",
        "mooring.admission.pod.spec._validate_names_and_numbers",
        "mooring.admission.pod.strategy.mutate",
        "mooring.admission.pod.strategy.validate_create",
        "mooring.admission.pod.update._host_ip_errors",
        "mooring.admission.pod.update._pod_ips",
        "mooring.admission.pod.update.synchronize_pod_ips",
        "mooring.admission.pod.update.validate_status_update",
        "mooring.admission.pod.volumes.validate_volumes",  # for claims named after the pod
        "mooring.admission.pod_security.enforcement._build_forbidden_error",  # for the error
        "mooring.admission.runtime_class._build_forbidden_error",  # for the error
    }
)
"""Functions that read a value of a batch row, but depend only on properties of it that `is_valid_row` checks."""

_texts_of = attrgetter(*(name for name in Row.__struct_fields__ if name != "container_ids"))
_PATCHED: dict[str, frozenset[str]] = {
    "metadata": frozenset(
        {"annotations", "finalizers", "labels", "ownerReferences", "$deleteFromPrimitiveList/finalizers"}
    ),
    "status": frozenset({"conditions", "nominatedNodeName", "observedGeneration", "resourceClaimStatuses"}),
}
"""The fields of a pod that a patch may change without reading or changing a value of a row."""


class _NamedContainerOrClaim(msgspec.Struct, rename="camel"):
    name: str = ""
    restart_policy: str | None = None


class PodSpecExcerpt(msgspec.Struct, rename="camel"):
    """The fields of a PodSpec that admission reads in status updates and deletions."""

    node_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    init_containers: list[_NamedContainerOrClaim] = []
    resource_claims: list[_NamedContainerOrClaim] = []


_SPECS = msgspec.json.Decoder(PodSpecExcerpt)


class PodWithEncodedSpec(msgspec.Struct, rename="camel"):
    """A stored pod whose spec is not decoded, for updates that do not change the spec."""

    kind: str
    api_version: str
    metadata: ObjectMeta
    spec: msgspec.Raw
    status: PodStatus


def decode_spec_excerpt(pod: PodWithEncodedSpec) -> PodSpecExcerpt:
    """Decode the few fields of a pod's encoded spec that admission rules read; the node name is replaced by ROW."""
    read = _SPECS.decode(pod.spec)
    read.node_name = ROW if read.node_name else ""
    return read


def split_template(obj: T) -> tuple[T, Row]:
    """Split an object of a batch into a template, with ROW in place of values that vary, and a row of these values."""
    copied = replace(obj, metadata=_copy_metadata(obj.metadata))
    if isinstance(copied, Pod):
        copied.spec, copied.status = _copy_spec(copied.spec), _copy_status(copied.status)
    elif isinstance(copied, Binding):
        copied.target = replace(copied.target)
    return copied, extract_row(copied)


def extract_row(obj: Resource | PodWithEncodedSpec) -> Row:
    """Replace those values of an object that vary in a batch by ROW, in place; return the values."""
    meta = obj.metadata
    row = Row(meta.name, meta.uid, meta.resource_version, meta.creation_timestamp or "")
    meta.name = ROW if row.name else ""
    meta.uid = ROW if row.uid else ""
    meta.resource_version = ROW if row.resource_version else ""
    meta.creation_timestamp = ROW if row.creation_timestamp else None
    if isinstance(obj, Pod):
        _extract_from_spec(obj.spec, row)
    elif isinstance(obj, Binding):
        row.node_name, obj.target.name = obj.target.name, ROW if obj.target.name else ""
    if isinstance(obj, Pod | PodWithEncodedSpec):
        _extract_from_status(obj, row)
    return row


def insert_row(obj: Resource | PodWithEncodedSpec, row: Row) -> None:
    """Replace each ROW placeholder in an object by the value in `row`, in place: the reverse of `extract_row`."""
    meta = obj.metadata
    if meta.name == ROW:
        meta.name = row.name
    if meta.uid == ROW:
        meta.uid = row.uid
    if meta.resource_version == ROW:
        meta.resource_version = row.resource_version
    if meta.creation_timestamp == ROW:
        meta.creation_timestamp = row.creation_timestamp or None
    if isinstance(obj, Pod):
        _insert_into_spec(obj.spec, row)
    elif isinstance(obj, Binding) and obj.target.name == ROW:
        obj.target.name = row.node_name
    if isinstance(obj, Pod | PodWithEncodedSpec):
        _insert_into_status(obj, row)


def fill_template(template: T, row: Row) -> T:
    """Return a copy of an admitted batch template with the values of one batch row."""
    copied = replace(template, metadata=_copy_metadata(template.metadata))
    if isinstance(copied, Pod) and (row.hostname or row.target_node):
        copied.spec = _copy_spec(copied.spec)
    insert_row(copied, row)
    return copied


def read_placeholders(template: bytes) -> Row | None:
    """Return which values a pod template takes from its rows, as ROW; None if it has one of its own, or is no pod."""
    try:
        pod = codec.decode_own(template, Pod)
    except codec.DecodeError:
        return None
    pod.metadata.managed_fields = []
    row = extract_row(pod)
    row.pod_ip, row.host_ip = row.pod_ip or pod.status.pod_ip, row.host_ip or pod.status.host_ip  # without `podIPs`
    found = {*_texts_of(row), *row.container_ids}
    return row if found <= {"", ROW} else None


def is_patch_of_other_fields(patch: bytes) -> bool:
    """Return whether a merge patch of a pod neither reads nor changes a value of a row, so that rows may share it."""
    try:
        tree = msgspec.json.decode(patch)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    if not isinstance(tree, dict) or not tree.keys() <= _PATCHED.keys():
        return False
    if not all(isinstance(part, dict) and part.keys() <= _PATCHED[name] for name, part in tree.items()):
        return False
    labels = tree.get("metadata", {}).get("labels", {})
    return isinstance(labels, dict) and not any(key.startswith("$") or key in PER_ROW_LABELS for key in labels)


def is_valid_row(row: Row) -> bool:
    """Return whether all values of a batch row are valid. If not, its object is admitted alone to report the errors."""
    return not (
        (row.name and names.dns1123_subdomain(row.name))
        or (row.hostname and names.dns1123_label(row.hostname))
        or (row.target_node and names.dns1123_subdomain(row.target_node))
        or (row.pod_name_label and names.label_value(row.pod_name_label))
        or (row.pod_index_label and names.label_value(row.pod_index_label))
        or (row.zone_label and names.label_value(row.zone_label))
        or (row.pod_ip and not _is_ip_address(row.pod_ip))
        or (row.host_ip and not _is_ip_address(row.host_ip))
    )


@cache_short(4096)
def _is_ip_address(text: str) -> bool:
    return not validate_status_ips([text], [], Path("status.podIPs"), strict=True)


def may_share_admission(template: Resource) -> bool:
    """Return whether one admission of a batch template suffices: no rule derives a field from values that vary."""
    if not isinstance(template, Pod):
        return False
    spec = template.spec
    return not (
        spec.node_name  # the labels of the node's zone are added
        or any(volume.ephemeral is not None for volume in spec.volumes)  # whose claim is named after the pod
        or (any(label in template.metadata.labels for label, _ in _LABELS) and _merges_labels(spec))
    )


def _merges_labels(spec: PodSpec) -> bool:
    """Return whether a pod's label values may get into its selectors: by `matchLabelKeys` or pod affinity."""
    if any(each.match_label_keys for each in spec.topology_spread_constraints):
        return True
    affinity = spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _extract_from_spec(spec: PodSpec, row: Row) -> None:
    row.node_name, row.hostname = spec.node_name, spec.hostname
    spec.node_name = ROW if spec.node_name else ""
    spec.hostname = ROW if spec.hostname else ""
    if (target := _find_target_requirement(spec)) is not None:
        row.target_node = target.values[0]
        target.values = [ROW]


def _insert_into_spec(spec: PodSpec, row: Row) -> None:
    if spec.node_name == ROW:
        spec.node_name = row.node_name
    if spec.hostname == ROW:
        spec.hostname = row.hostname
    target = _find_target_requirement(spec)
    if target is not None and target.values[0] == ROW:
        target.values = [row.target_node]


def _extract_from_status(pod: Pod | PodWithEncodedSpec, row: Row) -> None:
    status, labels = pod.status, pod.metadata.labels
    for label, field in _LABELS:
        if label in labels:
            setattr(row, field, labels[label])
            labels[label] = ROW
    if status.pod_ip and len(status.pod_ips) == 1 and status.pod_ips[0].ip == status.pod_ip:
        row.pod_ip, status.pod_ip, status.pod_ips = status.pod_ip, ROW, []
        _rename_managed_address(pod.metadata, row.pod_ip, ROW)
    if status.host_ip and len(status.host_ips) == 1 and status.host_ips[0].ip == status.host_ip:
        row.host_ip, status.host_ip, status.host_ips = status.host_ip, ROW, []
    for holder in _iterate_container_id_holders(status):
        row.container_ids.append(holder.container_id)
        holder.container_id = ROW


def _insert_into_status(pod: Pod | PodWithEncodedSpec, row: Row) -> None:
    status, labels = pod.status, pod.metadata.labels
    for label, field in _LABELS:
        if labels.get(label) == ROW:
            labels[label] = getattr(row, field)
    if status.pod_ip == ROW:
        status.pod_ip, status.pod_ips = row.pod_ip, [PodIP(ip=row.pod_ip)]
        _rename_managed_address(pod.metadata, ROW, row.pod_ip)
    if status.host_ip == ROW:
        status.host_ip, status.host_ips = row.host_ip, [HostIP(ip=row.host_ip)]
    for holder, container_id in zip(_iterate_container_id_holders(status), row.container_ids, strict=False):
        holder.container_id = container_id


def _iterate_container_id_holders(status: PodStatus) -> Iterator[Any]:
    for each in status.container_statuses:
        if each.container_id:
            yield each
        for state in (each.state, each.last_state):
            if state.terminated is not None and state.terminated.container_id:
                yield state.terminated


def _find_target_requirement(spec: PodSpec) -> NodeSelectorRequirement | None:
    """Return the node affinity requirement that binds a DaemonSet's pod to one node by name; None if there is none."""
    nodes = spec.affinity and spec.affinity.node_affinity
    required = nodes and nodes.required_during_scheduling_ignored_during_execution
    if not required or len(required.node_selector_terms) != 1:
        return None
    fields = required.node_selector_terms[0].match_fields
    if len(fields) != 1 or fields[0].key != "metadata.name" or fields[0].operator != "In" or len(fields[0].values) != 1:
        return None
    return fields[0]


def _rename_managed_address(meta: ObjectMeta, before: str, after: str) -> None:
    """Replace an IP address in the managed fields of a status, where items of `podIPs` are identified by address."""
    old, new = (b'{\\"ip\\":\\"%b\\"}' % address.encode(errors="replace") for address in (before, after))
    meta.managed_fields = [
        replace(entry, fields_v1=msgspec.Raw(bytes(entry.fields_v1).replace(old, new)))
        if entry.subresource == "status"
        else entry
        for entry in meta.managed_fields
    ]


def _copy_metadata(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, labels=dict(meta.labels))


def _copy_spec(spec: PodSpec) -> PodSpec:
    if _find_target_requirement(spec) is None:
        return replace(spec)
    affinity: Any = spec.affinity
    nodes = affinity.node_affinity
    required = nodes.required_during_scheduling_ignored_during_execution
    (term,) = required.node_selector_terms
    terms = [replace(term, match_fields=[replace(term.match_fields[0])])]
    required = replace(required, node_selector_terms=terms)
    nodes = replace(nodes, required_during_scheduling_ignored_during_execution=required)
    return replace(spec, affinity=replace(affinity, node_affinity=nodes))


def _copy_status(status: PodStatus) -> PodStatus:
    if not status.container_statuses:
        return replace(status)
    return replace(status, container_statuses=[_copy_container_status(each) for each in status.container_statuses])


def _copy_container_status(each: Any) -> Any:
    copied = replace(each)
    for name in ("state", "last_state"):
        state = getattr(copied, name)
        if state.terminated is not None:
            setattr(copied, name, replace(state, terminated=replace(state.terminated)))
    return copied
