"""Which fields differ between objects of one template, and that every rule which reads one of them is declared."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import asdict

from admission_kinds import EXAMPLES, example
from admission_pods import ON
from every_field import places
from mooring.admission import rows
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.strategy import Lookups, NoCluster, Priority, Request
from mooring.api import codec, times
from mooring.api.base import copy_of
from mooring.api.batch_writes import ROW, Row
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import (
    ContainerStateTerminated,
    ContainerStatus,
    LimitRange,
    NodeSelectorRequirement,
    Pod,
    PodSpec,
    PodStatus,
    ServiceAccount,
)
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.node_v1 import RuntimeClass

_NOW = times.parse("2026-01-01T00:00:00Z")
_LABELS = {"app": "web", rows.POD_NAME_LABEL: "web-1", rows.POD_INDEX_LABEL: "1", rows.ZONE_LABEL: "zone-a"}
_META = {"name": "web-1", "namespace": "default", "uid": "u", "labels": _LABELS, "resourceVersion": "7"}
_FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [_FIELD]}]}
    }
}
_SPEC = {"containers": [{"name": "c", "image": "i"}], "hostname": "web-1", "nodeName": "n1", "affinity": _AFFINITY}
_ENDED = {"name": "c", "containerID": "x://2", "state": {"terminated": {"exitCode": 0, "containerID": "x://1"}}}
_STATUS = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "podIPs": [{"ip": "10.0.0.1"}],
    "hostIP": "10.1.0.1",
    "hostIPs": [{"ip": "10.1.0.1"}],
    "containerStatuses": [_ENDED],
}
_OWNED: dict[str, Any] = {
    "f:status": {"f:podIP": {}, "f:podIPs": {".": {}, 'k:{"ip":"10.0.0.1"}': {".": {}, "f:ip": {}}}}
}


def pod() -> Pod:
    entry = {"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": _OWNED}
    tree = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**_META, "managedFields": [entry]},
        "spec": _SPEC,
        "status": _STATUS,
    }
    return codec.decode_tree(tree, Pod).object


@pytest.mark.req("W.1")
def test_what_was_taken_out_of_a_pod_is_put_back() -> None:
    taken = pod()
    row = rows.extract_row(taken)
    assert asdict(row) == {
        "name": "web-1",
        "uid": "u",
        "resource_version": "7",
        "creation_timestamp": "",
        "node_name": "n1",
        "target_node": "n1",
        "hostname": "web-1",
        "pod_name_label": "web-1",
        "pod_index_label": "1",
        "zone_label": "zone-a",
        "pod_ip": "10.0.0.1",
        "host_ip": "10.1.0.1",
        "container_ids": ["x://2", "x://1"],
    }
    text = codec.encode(taken)
    assert not [each for each in (b"web-1", b"10.0.0.1", b"10.1.0.1", b"x://", b'"n1"', b"zone-a") if each in text]
    rows.insert_row(taken, row)
    assert taken == pod()


@pytest.mark.req("W.1")
def test_a_lean_pod_is_encoded_as_the_whole_pod_is() -> None:
    whole = codec.encode(pod())
    lean = codec.decode_own(whole, rows.PodWithEncodedSpec)
    row = rows.extract_row(lean)
    rows.insert_row(lean, row)
    assert codec.decode_own(codec.encode(lean), Pod) == pod()
    assert (row.pod_ip, row.node_name) == ("10.0.0.1", ""), "the spec stays as it is"


@pytest.mark.req("W.1")
@pytest.mark.parametrize("kind", EXAMPLES)
def test_splitting_leaves_the_object_of_a_client_as_it_is(kind: str) -> None:
    obj = example(kind)
    before = copy_of(obj)
    template, row = rows.split_template(obj)
    assert obj == before
    assert (template.metadata.name, row.name) == (ROW, obj.metadata.name)
    rows.insert_row(template, row)
    assert template == before


@pytest.mark.req("W.1")
@pytest.mark.parametrize(
    "row",
    [
        Row(name="A"),
        Row(hostname="a.b"),
        Row(target_node="N"),
        Row(pod_name_label="-"),
        Row(pod_index_label="/"),
        Row(zone_label="/"),
    ],
)
def test_a_value_that_a_rule_refuses_is_left_to_the_rules(row: Row) -> None:
    assert not rows.is_valid_row(row)


class Reads:
    """The functions of admission that read per-row fields while they admit an object."""

    def __init__(self) -> None:
        self.by: set[str] = set()

    def note(self) -> None:
        frame = sys._getframe(2)
        name = f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"
        if name.startswith("mooring.admission.") and not name.startswith("mooring.admission.rows."):
            self.by.add(name)


def tracked(cls: type[Any], names: frozenset[str], reads: Reads) -> type[Any]:
    """Return a subclass of a struct that notes who reads some of its fields."""

    def read(self: Any, name: str) -> Any:
        if name in names:
            reads.note()
        return object.__getattribute__(self, name)

    return type(cls.__name__, (cls,), {"__getattribute__": read, "__module__": __name__})


def tracked_labels(labels: dict[str, str], reads: Reads) -> dict[str, str]:
    """Return labels that note who asks for those that differ between rows."""

    def noting(name: str) -> Any:
        def read(self: Any, key: str, *default: Any) -> Any:
            if key in rows.PER_ROW_LABELS:
                reads.note()
            return getattr(dict, name)(self, key, *default)

        return read

    methods = {name: noting(name) for name in ("get", "__getitem__", "__contains__")}
    made: dict[str, str] = type("Labels", (dict,), methods)(labels)
    return made


def retyped(obj: Any, cls: type[Any]) -> Any:
    return cls(**{name: getattr(obj, name) for name in obj.__struct_fields__})


_UNDECLARED = "declare in admission/rows.py what reads a per-row field"
_PER_ROW: dict[type[Any], frozenset[str]] = {
    ObjectMeta: frozenset({"name", "uid", "resource_version", "creation_timestamp"}),
    NodeSelectorRequirement: frozenset({"values"}),
    PodSpec: frozenset({"node_name", "hostname"}),
    PodStatus: frozenset({"pod_ip", "pod_ips", "host_ip", "host_ips"}),
    ContainerStatus: frozenset({"container_id"}),
    ContainerStateTerminated: frozenset({"container_id"}),
}


def track(obj: Pod, reads: Reads) -> Pod:
    """Return a pod that notes who reads its per-row fields."""
    classes = {cls: tracked(cls, names, reads) for cls, names in _PER_ROW.items()}
    obj.metadata, obj.spec = retyped(obj.metadata, classes[ObjectMeta]), retyped(obj.spec, classes[PodSpec])
    obj.metadata.labels = tracked_labels(obj.metadata.labels, reads)
    obj.status = retyped(obj.status, classes[PodStatus])
    if (target := rows._find_target_requirement(obj.spec)) is not None:
        target.__class__ = classes[NodeSelectorRequirement]
    for each in obj.status.container_statuses:
        if each.state.terminated is not None:
            each.state.terminated.__class__ = classes[ContainerStateTerminated]
        each.__class__ = classes[ContainerStatus]
    return obj


class Cluster(Lookups):
    """A cluster in which every rule that looks something up finds it."""

    def __init__(self, enforced: str) -> None:
        self.enforced = enforced

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount]:
        return {"default": ServiceAccount()}

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        amount = {"cpu": "1"}
        bounds = {"type": "Container", "default": amount, "defaultRequest": amount, "min": {"cpu": "1m"}, "max": amount}
        return [codec.decode_tree({"metadata": {}, "spec": {"limits": [bounds]}}, LimitRange).object]

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        start = "pod-security.kubernetes.io/"
        return {f"{start}enforce": self.enforced, f"{start}warn": "restricted"}

    def default_priority_class(self) -> Priority:
        return Priority("usual", 7)

    @property
    def knows_runtime_classes(self) -> bool:
        return True

    def runtime_class(self, name: str) -> RuntimeClass:
        return RuntimeClass(metadata=ObjectMeta(name=name), handler="runc")


CLUSTERS = (NoCluster(), Cluster("privileged"), Cluster("restricted"))


def request(lookups: Lookups) -> Request:
    return Request(options=ON, lookups=lookups, now=_NOW, namespace="default", name="web-1")


@pytest.mark.req("W.2")
@pytest.mark.parametrize("lookups", CLUSTERS, ids=["nothing", "everything", "Pod Security"])
def test_every_rule_that_reads_a_per_row_field_of_a_new_pod_is_declared(lookups: Lookups) -> None:
    """Every list and map of a pod is filled in turn, so that the rules of all its fields run."""
    reads, admitted = Reads(), 0
    runtime = {"runtimeClassName": "r"} if lookups.knows_runtime_classes else {}
    example = {"metadata": {"name": "web-1", "labels": _LABELS}, "spec": {**_SPEC, **runtime}}
    trees = [example, *(place.filled(example, 1, "a{}".format) for place in places(Pod))]
    for tree in trees:
        obj = codec.decode_tree(tree, Pod, FieldValidation.IGNORE).object
        try:
            admit_create(track(obj, reads), request(lookups))
        except StatusError:
            continue
        admitted += 1
    assert len(trees) > 100
    assert (admitted > 0) is (not isinstance(lookups, Cluster) or lookups.enforced == "privileged")
    assert reads.by, "nothing was noticed: the test itself is broken"
    assert reads.by <= rows.READERS, f"{_UNDECLARED}: {reads.by - rows.READERS}"


@pytest.mark.req("W.2")
@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("lookups", CLUSTERS, ids=["nothing", "everything", "Pod Security"])
def test_every_rule_that_reads_a_per_row_field_of_a_changed_pod_is_declared(lookups: Lookups, subresource: str) -> None:
    """Rows change pods by statuses and by patches of metadata and statuses."""
    reads = Reads()
    old = pod()
    old.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    for place in [None, *places(PodStatus)]:
        new = copy_of(old)
        new.status.pod_ip, new.status.conditions = "10.0.0.2", []
        new.metadata.annotations, new.metadata.finalizers = {"a": "b"}, ["example.com/x"]
        if place is not None:
            new.status = codec.decode_tree(
                place.filled(_STATUS, 1, "a{}".format), PodStatus, FieldValidation.IGNORE
            ).object
        with suppress(StatusError):
            admit_update(track(new, reads), track(copy_of(old), reads), request(lookups), subresource)
    assert reads.by, "nothing was noticed: the test itself is broken"
    assert reads.by <= rows.READERS, f"{_UNDECLARED}: {reads.by - rows.READERS}"


@pytest.mark.req("W.2")
def test_rules_of_a_status_read_no_more_of_the_spec_than_is_declared() -> None:
    reads, known = Reads(), frozenset(rows.PodSpecExcerpt.__struct_fields__)
    others = frozenset(PodSpec.__struct_fields__) - known
    old, new = pod(), pod()
    new.spec = PodSpec()
    old.spec = retyped(old.spec, tracked(PodSpec, others, reads))
    admit_update(new, old, request(NoCluster()), "status")
    assert not reads.by, f"add to PodSpecExcerpt in admission/rows.py what these rules of a status read: {reads.by}"
