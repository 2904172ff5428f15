"""What objects of caches share, and that they say the same as before."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.core_v1 import Node, Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.client import lean_pods, wire
from mooring.client.cache import Cache
from mooring.client.template_parts import TemplateParts
from mooring.client.watch import WatchEvent

LABELS = st.dictionaries(st.sampled_from(["app", "cpu", "tier"]), st.sampled_from(["1", "2", "web"]), max_size=2)
CONDITIONS = st.lists(st.fixed_dictionaries({"type": st.just("Ready"), "status": st.sampled_from(["True", "False"])}))
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": st.sampled_from("abc"), "labels": LABELS}),
        "spec": st.fixed_dictionaries(
            {
                "nodeName": st.sampled_from(["", "n1", "n2"]),
                "containers": st.lists(st.just({"name": "c", "image": "app:1"}), max_size=2),
                "nodeSelector": LABELS,
            }
        ),
        "status": st.fixed_dictionaries({"phase": st.sampled_from(["", "Running"]), "conditions": CONDITIONS}),
    }
)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "pods"]), st.sampled_from(["1", "2"]), max_size=2)
NODES = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": st.sampled_from("abc"), "labels": LABELS}),
        "status": st.fixed_dictionaries({"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": CONDITIONS}),
    }
)


_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
_MANAGED = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
_TEXTS = st.sampled_from(["", "a", '"nodeName":"n"', ',"nodeName":"n"', "\\", "ä", "spec.nodeName"])
_STATES = st.sampled_from(
    [{}, {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, {"terminated": {"exitCode": 1, "containerID": "c://2"}}]
)
_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")},
        optional={
            "state": _STATES,
            "containerID": st.sampled_from(["c://1", "c://2", "", '"', "\\", "ä", None]),
            "ready": st.booleans(),
            "allocatedResources": st.just({"cpu": "1000m"}),
        },
    ),
    max_size=3,
)
_IPS = st.sampled_from([None, [], [{"ip": "10.0.0.1"}], [{"ip": "10.0.0.1"}, {"ip": "::1"}]])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": _TEXTS,
        "conditions": CONDITIONS,
        "podIP": _TEXTS,
        "podIPs": _IPS,
        "hostIPs": _IPS,
        "startTime": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
        "containerStatuses": _CONTAINERS,
        "initContainerStatuses": _CONTAINERS,
        "resize": st.just("Proposed"),
    },
)
SENT = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from("abc")},
            optional={
                "labels": LABELS,
                "annotations": st.dictionaries(_TEXTS, _TEXTS),
                "ownerReferences": st.lists(st.just(_OWNER), max_size=1),
                "managedFields": st.lists(st.just(_MANAGED), max_size=1),
                "deletionTimestamp": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
                "colour": st.just("red"),
            },
        ),
    },
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "hostname": _TEXTS,
                "nodeName": st.sampled_from(["", "n1", "n-2.x", "N", "ä", None]),
                "nodeSelector": st.dictionaries(_TEXTS, _TEXTS),
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {"name": _TEXTS}, optional={"resources": st.just({"requests": {"cpu": "1000m"}})}
                    ),
                    max_size=2,
                ),
                "colour": st.just("red"),
            },
        ),
        "status": STATUSES,
    },
)


@pytest.mark.req("S.4")
@given(st.lists(SENT, max_size=6), st.booleans())
def test_a_pod_in_a_cache_is_the_pod_that_was_sent(trees: list[Any], spaced: bool) -> None:
    kind = Scheme().kind("v1", "Pod")
    assert kind is not None
    for tree in trees:
        sent = json.dumps(tree, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
        kept = wire.decode_item(msgspec.Raw(sent), kind, Pod, None, wire.PARTS)
        wanted = codec.decode_own(sent, Pod)
        wanted.kind, wanted.api_version, wanted.metadata.managed_fields = "Pod", "v1", []
        assert kept == wanted
        assert codec.encode(kept) == codec.encode(wanted)


@pytest.mark.req("S.4")
@given(st.lists(st.one_of(st.tuples(st.just(Pod), PODS), st.tuples(st.just(Node), NODES)), max_size=8))
def test_objects_say_the_same_after_they_share(seen: list[tuple[type[Resource], Any]]) -> None:
    parts = TemplateParts()
    objects = [codec.decode_own(json.dumps(tree).encode(), kind) for kind, tree in seen]
    said = [codec.encode(obj) for obj in objects]
    for obj in objects:
        parts.share_parts(obj)
    assert [codec.encode(obj) for obj in objects] == said
    for obj in objects:  # also their types are those of the fields, not of what reads the same
        assert msgspec.json.decode(codec.encode(obj)) == codec.to_tree(obj)
        if isinstance(obj, Node):
            assert all(not isinstance(amount, str) for amount in obj.status.capacity.values())
        else:
            assert all(isinstance(value, str) for value in obj.metadata.labels.values())


def test_pods_of_one_template_on_two_nodes_have_the_same_containers() -> None:
    parts = TemplateParts()
    spec = {"containers": [{"name": "c", "image": "app:1"}]}
    trees = (
        {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {**spec, "nodeName": node, "hostname": "x"}}
        for name, node in (("a", "n1"), ("b", "n2"))
    )
    raw = (msgspec.Raw(json.dumps(tree, separators=(",", ":")).encode()) for tree in trees)
    first, second = (lean_pods.build_pod(lean_pods.decode_raw_pod(each), parts) for each in raw)
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels
    assert (first.spec.node_name, second.spec.node_name) == ("n1", "n2")


@dataclass(frozen=True)
class Tokens:
    id: str
    names: tuple[str, str]
    kept: tuple[str, str]
    equal_tokens: bool = True


@pytest.mark.parametrize(
    "case",
    [
        Tokens(
            "names that Kubernetes makes up",
            ("kube-api-access-x7z2q", "kube-api-access-bcdfg"),
            ("kube-api-access-00000",) * 2,
        ),
        Tokens(
            "for those who write",
            ("kube-api-access-x7z2q", "kube-api-access-bcdfg"),
            ("kube-api-access-x7z2q", "kube-api-access-bcdfg"),
            equal_tokens=False,
        ),
        Tokens("names that people chose", ("kube-api-access-token", "data"), ("kube-api-access-token", "data")),
    ],
    ids=lambda case: case.id,
)
def test_pods_that_differ_in_the_name_of_their_token_s_volume_share_all_else(case: Tokens) -> None:
    parts = TemplateParts(ignores_token_names=case.equal_tokens)

    def read(name: str) -> PodSpec:
        container = {"name": "c", "image": "app:1", "volumeMounts": [{"name": name, "mountPath": "/token"}]}
        spec = {
            "volumes": [{"name": name, "projected": {}}],
            "containers": [container],
            "nodeName": "n1",
            "hostname": "x",
        }
        sent = msgspec.Raw(json.dumps({"metadata": {}, "spec": spec}, separators=(",", ":")).encode())
        return lean_pods.build_pod(lean_pods.decode_raw_pod(sent), parts).spec

    specs = [read(name) for name in case.names]
    assert tuple(spec.volumes[0].name for spec in specs) == case.kept
    assert tuple(spec.containers[0].volume_mounts[0].name for spec in specs) == case.kept
    assert (specs[0].containers is specs[1].containers) == (case.kept[0] == case.kept[1])


def test_versions_of_an_object_and_identical_objects_share_what_is_the_same() -> None:
    kind = Scheme().kind("v1", "Pod")
    assert kind is not None
    cache: Cache[Pod] = Cache()

    def taken(name: str, version: str) -> Pod:
        containers = [{"name": "c", "containerID": f"c://{name}", "state": {"waiting": {"reason": "x"}}}]
        meta = {"name": name, "uid": name, "resourceVersion": version, "annotations": {"own": name}}
        tree = {"metadata": meta, "spec": {}, "status": {"phase": "Running", "containerStatuses": containers}}
        sent = msgspec.Raw(json.dumps(tree, separators=(",", ":")).encode())
        cache.apply([WatchEvent("MODIFIED", wire.decode_item(sent, kind, Pod, None, wire.PARTS))])
        return cache.objects[name]

    first, other, second = taken("pod-1", "1"), taken("pod-2", "2"), taken("pod-1", "3")
    assert first.metadata.name is second.metadata.name
    assert first.metadata.annotations is second.metadata.annotations
    states = [each.status.container_statuses[0] for each in (first, other)]
    assert states[0].state is states[1].state
    assert [each.container_id for each in states] == ["c://pod-1", "c://pod-2"]
    assert first.metadata.finalizers is other.metadata.finalizers
    assert (first.metadata.finalizers, first.metadata.labels) == ([], {})


def test_only_so_many_parts_are_remembered() -> None:
    parts = TemplateParts()
    for number in range(5000):
        parts.intern("labels", {"number": str(number)})
    assert len(parts) <= 4096
