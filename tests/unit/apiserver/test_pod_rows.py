"""Rows of pods are made of a few of their fields and written in pieces; they say what whole pods would."""

from collections.abc import Callable
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
from mooring.apiserver.output.tables.pods import PODS
from mooring.apiserver.output.tables.row import Ages, Ago

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
    """Return a row as the encoder writes it, of a pod of which everything was read."""
    pod = codec.decode_own(text, Pod)
    cells = [_settled(cell) for cell in PODS.cells(pod)]
    return codec.encode(TableRow(cells=cells, conditions=PODS.conditions(pod) if PODS.conditions else []))


def _settled(cell: Any) -> Any:
    return cell.before + Ages(NOW)[cell.time].decode() + cell.after if isinstance(cell, Ago) else cell


def _written(pod: Json) -> bytes:
    return codec.encode(codec.decode(codec.encode(pod), Pod).object)
