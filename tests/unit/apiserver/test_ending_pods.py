"""The beginning of a pod's deletion, put into its bytes, is what reading, marking and writing all of it comes to."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import codec, times
from mooring.api.core_v1 import Pod
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.pods.ending_pods import given_time, glimpse
from mooring.apiserver.registry.stored import Stored
from mooring.store.kv import KeyValue
from mooring.testing.builders import made

pytestmark = pytest.mark.req("S.1")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_SCHEME = Scheme()
_KIND = _SCHEME.kind("v1", "Pod")
assert _KIND is not None
PODS = Stored(_SCHEME, _KIND)
_META = {
    "name": "web-1",
    "namespace": "default",
    "uid": "1",
    "generation": 1,
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
_SPEC = {
    "containers": [{"name": "c", "image": "app:1"}],
    "nodeName": "n",
    "terminationGracePeriodSeconds": 30,
}


def stored(meta: dict[str, Any], spec: dict[str, Any] | None = None) -> KeyValue:
    tree = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**_META, **meta},
        "spec": {**_SPEC, **(spec or {})},
        "status": {"phase": "Running"},
    }
    return KeyValue("/registry/pods/default/web-1", PODS.encode(made(Pod, tree)), 1, 7)


_TEXTS = st.text(max_size=12) | st.sampled_from(['"generation":9,', '","creationTimestamp":"x"', "\\", '\\"'])
_MAPS = st.dictionaries(_TEXTS, _TEXTS, max_size=3)
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True}


_METADATA = st.fixed_dictionaries(
    {
        "labels": _MAPS,
        "annotations": _MAPS,
        "finalizers": st.lists(_TEXTS, max_size=2),
        "ownerReferences": st.sampled_from([[], [_OWNER]]),
        "generateName": st.sampled_from(["", "web-"]),
        "generation": st.integers(1, 10**12),
    }
)


@settings(max_examples=100, deadline=None)
@given(meta=_METADATA, seconds=st.integers(1, 10**6), command=st.lists(_TEXTS, max_size=3))
def test_what_is_put_between_is_what_would_be_written(meta: dict[str, Any], seconds: int, command: list[str]) -> None:
    kv = stored(meta, {"containers": [{"name": "c", "image": "app:1", "command": command}]})
    seen = glimpse(kv)
    assert seen is not None
    obj = PODS.decode(kv.value, kv.mod_revision)
    assert isinstance(obj, Pod)
    for read in (seen, obj):
        assert read.metadata.uid == "1"
        assert read.metadata.resource_version == "7"
        assert read.metadata.finalizers == meta["finalizers"]
        assert (read.spec.node_name, read.spec.termination_grace_period_seconds) == ("n", 30)
        assert read.status.phase == "Running"
    obj.metadata.generation += 1
    obj.metadata.deletion_timestamp = times.to_seconds(datetime.fromtimestamp(NOW.timestamp() + seconds, UTC))
    obj.metadata.deletion_grace_period_seconds = seconds
    assert given_time(kv.value, NOW, seconds) == PODS.encode(obj)


@pytest.mark.parametrize(
    "meta",
    [
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
        {"generation": 0},
        {"creationTimestamp": None},
        {"generateName": 'we"b'},
    ],
    ids=["it was deleted before", "it has no generation", "nobody knows its age", "a name is escaped"],
)
def test_a_pod_takes_a_closer_look_where(meta: dict[str, Any]) -> None:
    assert glimpse(stored(meta)) is None


@pytest.mark.parametrize("value", [b"", b"{}", b'{"kind":"Pod","apiVersion":"v1","metadata":{"generation":1'])
def test_what_is_no_pod_is_none(value: bytes) -> None:
    assert glimpse(KeyValue("/registry/pods/default/x", value, 1, 1)) is None


def test_a_pod_in_another_order_takes_a_closer_look() -> None:
    tree = json.loads(stored({}).value)
    tree["metadata"] = dict(reversed(tree["metadata"].items()))
    assert glimpse(KeyValue("/registry/pods/default/web-1", codec.encode(tree), 1, 1)) is None
