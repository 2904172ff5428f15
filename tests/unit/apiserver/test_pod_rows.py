"""Rows of pods are made of a few of their fields and written in pieces; they say what whole pods would."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.kinds import KINDS
from mooring.api.meta_v1 import TableRow
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.output.tables.pod_forms import Form, form_of
from mooring.apiserver.output.tables.pod_rows import PodRows
from mooring.apiserver.output.tables.pods import PODS
from mooring.apiserver.output.tables.printer import Ages, Ago
from mooring.apiserver.output.tables.row import Row

pytestmark = pytest.mark.req("S.4")
Json = dict[str, Any]
Change = Callable[[Json], None]
NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
KIND = next(kind for kind in KINDS if kind.type is Pod)

_word = st.sampled_from(
    ["", "x", "Completed", 'a"b', "PodInitializing", "NodeLost", ',"managedFields":[', "é\u2028\x00"]
)
_time = st.sampled_from(
    ["2026-01-02T03:04:00Z", "2026-01-01T00:00:00.5Z", "2027-01-01T00:00:00Z", "2024-05-05T00:00:00Z"]
)
_name = st.sampled_from(["a", "b", "c"])
_status = st.sampled_from(["True", "False"])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_state = _some(
    waiting=_some(reason=_word, message=_word),
    running=_some(startedAt=_time),
    terminated=_some(exitCode=st.integers(-1, 3), signal=st.integers(0, 2), reason=_word, finishedAt=_time),
)
_container = _some(name=_name, image=_word, restartPolicy=st.sampled_from(["Always", "Never"]))
_container_status = _some(
    name=_name,
    state=_state,
    lastState=_state,
    ready=st.booleans(),
    started=st.booleans(),
    restartCount=st.integers(0, 3),
    imageID=_word,
)
_condition = _some(
    type=st.sampled_from(["Ready", "Initialized", "PodScheduled", "gate"]),
    status=_status,
    reason=st.sampled_from(["SchedulingGated", "x"]),
)
_fields = st.sampled_from([{}, {"f:spec": {}}, {"a": {}, "spec": {"containers": []}, "status": {}}, {"status": {}}])
_managed = st.lists(_some(manager=_word, time=_time, fieldsV1=_fields), max_size=2)
_template = _some(metadata=_some(managedFields=_managed), spec=_some(storageClassName=_word))
_metadata = st.fixed_dictionaries(
    {"name": _word.filter(bool)},
    optional={
        "labels": st.dictionaries(_word, _word, max_size=2),
        "annotations": st.dictionaries(_word, _word, max_size=2),
        "creationTimestamp": _time,
        "deletionTimestamp": _time,
        "managedFields": _managed,
    },
)
_spec = _some(
    containers=st.lists(_container, max_size=3),
    initContainers=st.lists(_container, max_size=3),
    readinessGates=st.lists(st.fixed_dictionaries({"conditionType": st.sampled_from(["gate", "Ready"])}), max_size=2),
    nodeSelector=st.dictionaries(st.sampled_from(["nodeName", "x"]), _word, max_size=2),
    volumes=st.lists(_some(name=_name, ephemeral=_some(volumeClaimTemplate=_template)), max_size=2),
    hostname=_word,
)
_pod_status = _some(
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    reason=_word,
    nominatedNodeName=_word,
    podIP=_word,
    podIPs=st.lists(_some(ip=_word), max_size=2),
    conditions=st.lists(_condition, max_size=3),
    initContainerStatuses=st.lists(_container_status, max_size=3),
    containerStatuses=st.lists(_container_status, max_size=3),
)


@given(_metadata, _some(spec=_spec, status=_pod_status))
def test_a_row_is_that_of_the_whole_pod(metadata: dict[str, Any], body: dict[str, Any]) -> None:
    _is_that_of_the_whole_pod({"metadata": metadata, **body})


@given(st.data(), st.lists(_spec, min_size=1, max_size=2), st.lists(_pod_status, min_size=1, max_size=2))
def test_so_is_the_row_of_a_pod_like_one_before(
    data: st.DataObject, specs: list[dict[str, Any]], statuses: list[dict[str, Any]]
) -> None:
    for _ in range(data.draw(st.integers(2, 5))):
        metadata, own = data.draw(_metadata), data.draw(_some(nodeName=_word))
        conditions = data.draw(_some(podIP=_word, conditions=st.lists(_condition, max_size=3)))
        spec, status = data.draw(st.sampled_from(specs)), data.draw(st.sampled_from(statuses))
        _is_that_of_the_whole_pod({"metadata": metadata, "spec": spec | own, "status": status | conditions})


def test_so_is_that_of_a_pod_whose_managed_fields_look_like_the_spec_of_the_one_before() -> None:
    spec: dict[str, Any] = {"containers": []}
    usual: dict[str, Any] = {"f:a": {}}
    for fields in (usual, {**usual, "spec": spec, "status": {}}):
        managed = [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": fields}]
        _is_that_of_the_whole_pod({"metadata": {"name": "a", "managedFields": managed}, "spec": spec})


def _is_that_of_the_whole_pod(body: dict[str, Any]) -> None:
    whole = _written(body)
    begin = whole.index(b"{", 1) + 1
    row = Tables().of(KIND).row("", 1, whole, begin)
    assert row.write(Ages(NOW)) + b"}" == _whole_row(whole)
    assert whole[begin - 1 : begin + row.metadata_size] == msgspec.json.encode(msgspec.json.decode(whole)["metadata"])


def _whole_row(text: bytes) -> bytes:
    """A row as the encoder writes it, of a pod of which everything was read."""
    pod = codec.decode_own(text, Pod)
    cells = [_settled(cell) for cell in PODS.cells(pod)]
    return codec.encode(TableRow(cells=cells, conditions=PODS.conditions(pod) if PODS.conditions else []))


def _settled(cell: Any) -> Any:
    return cell.before + Ages(NOW)[cell.time].decode() + cell.after if isinstance(cell, Ago) else cell


# -- pods that are told by the form of another one

_TIME, _ID = "2026-01-01T00:00:00Z", "containerd://" + "1" * 64
_OTHER_TIME = "2026-01-02T03:04:01Z"


def _running(name: str) -> Json:
    state = {"running": {"startedAt": _TIME}}
    return {"name": name, "state": state, "ready": True, "restartCount": 0, "imageID": "i", "containerID": _ID}


def _pod(*, sidecar: bool) -> Json:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": _TIME}
        for kind in ("Initialized", "Ready", "PodScheduled")
    ]
    managed = {"manager": "m", "time": _TIME, "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}
    pod: Json = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "uid": "00000000-0000-0000-0000-000000000001",
            "creationTimestamp": _TIME,
            "labels": {"app": "web"},
            "managedFields": [managed],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1", "tolerations": [{"key": "a"}]},
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": _TIME,
            "containerStatuses": [_running("c")],
            "qosClass": "BestEffort",
        },
    }
    if sidecar:
        pod["spec"]["initContainers"] = [{"name": "s", "restartPolicy": "Always"}]
        pod["status"]["initContainerStatuses"] = [_running("s")]
    return pod


def _set(*path: str | int, to: Any) -> Change:
    def change(pod: Json) -> None:
        *above, last = path
        inside: Any = pod
        for key in above:
            inside = inside[key]
        inside[last] = to

    return change


def _spec_among_managed_fields(pod: Json) -> None:
    """The whole spec once more among the managed fields, with a status that ends before the address of the pod."""
    written = msgspec.json.decode(_written(pod))
    status = {key: written["status"][key] for key in ("phase", "conditions", "hostIP")}
    fields = {"f:status": {}, "spec": written["spec"], "status": status}
    pod["metadata"]["labels"] = {"padding": "x" * 60}
    pod["metadata"]["managedFields"] = [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": fields}]
    pod["status"]["phase"] = "Failed"
    del pod["status"]["hostIP"]


_SAME: dict[str, Change] = {
    "a longer name": _set("metadata", "name", to="web-12345"),
    "another id": _set("metadata", "uid", to="00000000-0000-0000-0000-00000000000f"),
    "made at another time": _set("metadata", "creationTimestamp", to=_OTHER_TIME),
    "more labels": _set("metadata", "labels", to={"app": "web", "other": "x" * 200}),
    "another node": _set("spec", "nodeName", to="another-node"),
    "ready since another time": _set("status", "conditions", 1, "lastTransitionTime", to=_OTHER_TIME),
    "another address of its node": _set("status", "hostIP", to="10.255.255.255"),
    "more addresses of its node": _set("status", "hostIPs", to=[{"ip": "10.0.0.1"}, {"ip": "::1"}]),
    "another address": _set("status", "podIPs", to=[{"ip": "10.255.255.255"}]),
    "started at another time": _set("status", "startTime", to=_OTHER_TIME),
    "another container": _set("status", "containerStatuses", 0, "containerID", to="containerd://" + "a" * 64),
    "a reason where others have the rest of a time": lambda pod: pod["status"]["conditions"][0].update(
        {"lastTransitionTime": "2026-", "reason": "abZ"}
    ),
}
_OTHER: dict[str, Change] = {
    "a name with a quotation mark": _set("metadata", "name", to='a","namespace":"default'),
    "a name that is written with an escape": _set("metadata", "name", to="a\\b"),
    "being deleted": _set("metadata", "deletionTimestamp", to=_TIME),
    "on no node": _set("spec", "nodeName", to=""),
    "a node with a quotation mark": _set("spec", "nodeName", to='a"b'),
    "a label of nodes": _set("spec", "nodeSelector", to={"a": "b", "nodeName": "x"}),
    "another container in its spec": _set("spec", "containers", 0, "name", to="d"),
    "a gate": _set("spec", "readinessGates", to=[{"conditionType": "Ready"}]),
    "another phase": _set("status", "phase", to="Failed!"),
    "a reason": _set("status", "reason", to="Evicted"),
    "a nominated node": _set("status", "nominatedNodeName", to="node-2"),
    "not ready": _set("status", "conditions", 1, "status", to="False"),
    "gated": _set("status", "conditions", 2, "reason", to="SchedulingGated"),
    "no address": _set("status", "podIPs", to=[]),
    "an empty address": _set("status", "podIPs", to=[{"ip": ""}]),
    "two addresses": _set("status", "podIPs", to=[{"ip": "10.1.0.1"}, {"ip": "::1"}]),
    "an address that is written with an escape": _set("status", "podIPs", to=[{"ip": "a\\b"}]),
    "a time to the microsecond": _set("status", "startTime", to="2026-01-01T00:00:00.000000Z"),
    "restarted": _set("status", "containerStatuses", 0, "restartCount", to=1),
    "restarted before": lambda pod: pod["status"]["containerStatuses"][0].update(
        {"restartCount": 1, "lastState": {"terminated": {"exitCode": 1, "finishedAt": _TIME}}}
    ),
    "a container that waits": _set("status", "containerStatuses", 0, "state", to={"waiting": {"reason": "CrashLoop"}}),
    "a reason that looks like a time": _set(
        "status", "containerStatuses", 0, "state", to={"waiting": {"reason": _TIME}}
    ),
    "fewer containers": _set("status", "containerStatuses", to=[]),
    "a reason that looks like another time": _set(
        "status", "containerStatuses", 0, "state", to={"waiting": {"reason": _OTHER_TIME}}
    ),
    "a label of nodes that is like its own": _set("spec", "nodeSelector", to={"a": "b", "nodeName": "node-1"}),
    "its spec among the managed fields": _spec_among_managed_fields,
}
_SIGNAL = "x" * (64 - len('","started":true,"stopSignal":"'))


def _written(pod: Json) -> bytes:
    return codec.encode(codec.decode(codec.encode(pod), Pod).object)


def _changed(*changes: Change, sidecar: bool) -> bytes:
    pod = _pod(sidecar=sidecar)
    for change in changes:
        with suppress(KeyError, IndexError):  # another change took away what this one is about
            change(pod)
    return _written(pod)


def _form(text: bytes) -> Form | None:
    return form_of(text, PodRows(PODS.cells, PODS.conditions or (lambda _: []))(text))


def _told(form: Form, text: bytes) -> bool:
    """Whether a form tells the row of a pod; if it does, it is the right one."""
    told = form.row(text)
    if told is None:
        return False
    row, created, end = told
    begin = text.index(b"{", 1)
    assert Row(KIND, 1, end - begin, row, created).write(Ages(NOW)) + b"}" == _whole_row(text)
    assert text[begin:end] == msgspec.json.encode(msgspec.json.decode(text)["metadata"])
    return True


@pytest.mark.parametrize("sidecar", [False, True], ids=["one container", "a sidecar"])
@pytest.mark.parametrize("change", _SAME.values(), ids=_SAME.keys())
def test_a_pod_that_differs_in_its_own_words_has_the_form_of_another(change: Change, sidecar: bool) -> None:
    form = _form(_changed(sidecar=sidecar))
    assert form is not None
    assert _told(form, _changed(change, sidecar=sidecar))


@pytest.mark.parametrize("sidecar", [False, True], ids=["one container", "a sidecar"])
@pytest.mark.parametrize("change", _OTHER.values(), ids=_OTHER.keys())
def test_a_pod_that_differs_otherwise_has_not(change: Change, sidecar: bool) -> None:
    form = _form(_changed(sidecar=sidecar))
    assert form is not None
    assert not _told(form, _changed(change, sidecar=sidecar))


def test_an_init_container_that_says_it_has_started_where_others_have_an_id_has_not() -> None:
    form = _form(_changed(sidecar=True))
    hidden = {"containerID": "containerd://", "started": True, "stopSignal": _SIGNAL}
    text = _changed(lambda pod: pod["status"]["initContainerStatuses"][0].update(hidden), sidecar=True)
    assert form is not None
    assert len(text) == len(_changed(sidecar=True))
    assert not _told(form, text)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("a reason that looks like a time", "a reason that looks like another time"),
        ("a label of nodes that is like its own", "a label of nodes"),
    ],
)
def test_one_that_is_unusual_has_no_form_that_tells_of_others(first: str, then: str) -> None:
    form = _form(_changed(_OTHER[first], sidecar=False))
    assert form is None or not _told(form, _changed(_OTHER[then], sidecar=False))


@given(st.booleans(), *(st.lists(st.sampled_from([*_SAME.values(), *_OTHER.values()]), max_size=4) for _ in range(2)))
def test_whatever_a_form_tells_is_right(sidecar: bool, changes: list[Change], others: list[Change]) -> None:
    form = _form(_changed(*changes, sidecar=sidecar))
    if form is not None:
        _told(form, _changed(*others, sidecar=sidecar))
        assert _told(form, _changed(*changes, sidecar=sidecar))
