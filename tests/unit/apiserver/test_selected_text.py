"""Selectors are evaluated on an object's bytes, often without decoding; the result is that of the object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.kinds import KINDS
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request
from mooring.apiserver.registry.storage.selection import Selections
from mooring.apiserver.registry.storage.stored import Stored
from mooring.store.kv import KeyValue

pytestmark = pytest.mark.req("S.1")
KIND = next(kind for kind in KINDS if kind.type is Pod)
STORED = Stored(Scheme(), KIND)

_key = st.sampled_from(["app", "tier", "example.com/app", "nodeName", "managedFields", "phase"])
_value = st.sampled_from(["", "web", "x", "true", "7", "Running", "node-1"])
_labels = st.dictionaries(_key, _value, max_size=3)
_managed = st.just([{"manager": "m", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}])
_template = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"labels": _labels, "managedFields": _managed})})
_pod = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("a")}, optional={"labels": _labels, "annotations": _labels, "managedFields": _managed}
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": _value,
                "nodeSelector": _labels,
                "hostNetwork": st.booleans(),
                "volumes": st.just([{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
                | _template.map(lambda made: [{"name": "v", "ephemeral": {"volumeClaimTemplate": made}}]),
            },
        ),
        "status": st.fixed_dictionaries({}, optional={"phase": _value, "podIP": _value}),
    },
)
_label_term = (
    st.builds("{}{}{}".format, _key, st.sampled_from(["=", "!=", "=="]), _value) | _key | _key.map("!{}".format)
)
_field_term = st.builds(
    "{}{}{}".format,
    st.sampled_from(["spec.nodeName", "status.phase", "status.podIP", "spec.hostNetwork", "metadata.namespace"]),
    st.sampled_from(["=", "!="]),
    _value,
)


@given(st.lists(_pod, min_size=1, max_size=4), st.lists(_label_term, max_size=2), st.lists(_field_term, max_size=2))
def test_objects_are_selected_by_their_text_as_they_are_by_what_it_says(
    bodies: list[dict[str, Any]], labels: list[str], fields: list[str]
) -> None:
    query = {"labelSelector": [",".join(labels)], "fieldSelector": [",".join(fields)]}
    selection = Selections().selection_for(Request(method="GET", path="/", query=query), KIND, STORED)
    for revision, body in enumerate(bodies, 1):
        pod = codec.decode(codec.encode({"apiVersion": "v1", "kind": "Pod", **body}), Pod).object
        kv = KeyValue("/registry/pods/default/a", STORED.encode(pod), revision, revision)
        reported = {
            "spec.nodeName": pod.spec.node_name,
            "spec.hostNetwork": "true" if pod.spec.host_network else "false",
            "status.phase": pod.status.phase,
            "status.podIP": pod.status.pod_ip,
            "metadata.namespace": pod.metadata.namespace,
        }
        assert selection.matches(kv) == (
            selection.labels.matches(pod.metadata.labels) and selection.fields.matches(reported)
        )


@pytest.mark.req("S.7")
def test_objects_that_share_a_revision_are_selected_each_by_its_own_labels() -> None:
    """In etcd, pods that are written together with the quotas of their namespace have the same revision."""
    query = {"labelSelector": ["app in (web, db)"]}
    selection = Selections().selection_for(Request(method="GET", path="/", query=query), KIND, STORED)
    found = []
    for name, app in (("a", "web"), ("b", "other"), ("c", "db")):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}}}
        pod = codec.decode(codec.encode(body), Pod).object
        found.append(selection.matches(KeyValue(f"/registry/pods/default/{name}", STORED.encode(pod), 7, 7)))
    assert found == [True, False, True]
