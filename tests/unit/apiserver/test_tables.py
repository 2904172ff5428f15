"""Tables say what kubectl prints for Kubernetes' own tables."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.api import codec
from mooring.api.kinds import KINDS, Kind
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.output.tables.row import Ages, duration

pytestmark = pytest.mark.req("S.1")

NOW = datetime(2026, 1, 2, 0, 0, 0, tzinfo=UTC)
YESTERDAY = "2026-01-01T00:00:00Z"
MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def _kind(api_version: str, name: str) -> Kind:
    return next(kind for kind in KINDS if (kind.api_version, kind.kind) == (api_version, name))


def _row(api_version: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of an object by the names of their columns."""
    kind = _kind(api_version, name)
    columns = [column.name for column in Tables().of(kind).columns]
    return dict(zip(columns, _table_row(kind, body)["cells"], strict=True))


def _table_row(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an object, as clients read it."""
    whole = codec.encode(codec.decode(codec.encode(body), kind.type).object)
    row: dict[str, Any] = json.loads(Tables().of(kind).row("", 1, whole, 0).write(Ages(NOW)) + b"}")
    return row


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_every_kind_has_a_cell_for_each_column(kind: Kind) -> None:
    cells = _table_row(kind, {})["cells"]
    columns = Tables().of(kind).columns
    assert len(cells) == len(columns)
    assert all(column.type in {"string", "integer", "boolean", "date"} for column in columns)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR + 7 * MINUTE, "3h7m"),
        (8 * HOUR + 7 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (2 * 365 * DAY + DAY, "2y1d"),
        (9 * 365 * DAY + DAY, "9y"),
    ],
)
def test_an_age_has_two_units_only_while_the_finer_one_matters(seconds: int, words: str) -> None:
    assert duration(seconds) == words


@dataclass(frozen=True)
class PodCase:
    about: str
    status: dict[str, Any]
    ready: str
    word: str
    restarts: str = "0"
    init: tuple[dict[str, Any], ...] = ()
    deleted: bool = False


def _state(**state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "c", "image": "", "imageID": "", "restartCount": 0, "ready": False, "state": state}


RUNNING = {**_state(running={}), "ready": True}
POD_CASES = [
    PodCase("a new pod is pending", {"phase": "Pending"}, "0/1", "Pending"),
    PodCase("a running pod is ready", {"phase": "Running", "containerStatuses": [RUNNING]}, "1/1", "Running"),
    PodCase(
        "the reason of a waiting container is shown",
        {"phase": "Pending", "containerStatuses": [_state(waiting={"reason": "ImagePullBackOff"})]},
        "0/1",
        "ImagePullBackOff",
    ),
    PodCase(
        "a container that ended without a reason shows its code",
        {"phase": "Failed", "containerStatuses": [_state(terminated={"exitCode": 3})]},
        "0/1",
        "ExitCode:3",
    ),
    PodCase(
        "restarts tell when the last one was",
        {
            "phase": "Running",
            "containerStatuses": [
                {**RUNNING, "restartCount": 2, "lastState": {"terminated": {"exitCode": 1, "finishedAt": YESTERDAY}}}
            ],
        },
        "1/1",
        "Running",
        "2 (24h ago)",
    ),
    PodCase(
        "init containers are counted until they are done",
        {"phase": "Pending", "initContainerStatuses": [_state(running={})]},
        "0/1",
        "Init:0/1",
        init=({"name": "c", "image": "i"},),
    ),
    PodCase(
        "a sidecar counts as a container",
        {
            "phase": "Running",
            "initContainerStatuses": [{**RUNNING, "started": True}],
            "containerStatuses": [RUNNING],
        },
        "2/2",
        "Running",
        init=({"name": "c", "image": "i", "restartPolicy": "Always"},),
    ),
    PodCase(
        "a gated pod says so",
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        "0/1",
        "SchedulingGated",
    ),
    PodCase(
        "a pod that is being deleted is terminating",
        {"phase": "Running", "containerStatuses": [RUNNING]},
        "1/1",
        "Terminating",
        deleted=True,
    ),
    PodCase("an evicted pod says so", {"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted"),
]


@pytest.mark.parametrize("case", POD_CASES, ids=lambda case: case.about)
def test_a_pods_row(case: PodCase) -> None:
    metadata = {"name": "p", "creationTimestamp": YESTERDAY}
    if case.deleted:
        metadata["deletionTimestamp"] = YESTERDAY
    spec = {"containers": [{"name": "c", "image": "i"}], "initContainers": list(case.init)}
    row = _row("v1", "Pod", {"metadata": metadata, "spec": spec, "status": case.status})
    assert (row["Ready"], row["Status"], row["Restarts"], row["Age"]) == (case.ready, case.word, case.restarts, "24h")


def test_a_finished_pods_row_says_that_it_is_completed() -> None:
    (condition,) = _table_row(_kind("v1", "Pod"), {"status": {"phase": "Succeeded"}})["conditions"]
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")


def test_a_nodes_row() -> None:
    row = _row(
        "v1",
        "Node",
        {
            "metadata": {
                "name": "n",
                "creationTimestamp": YESTERDAY,
                "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": ""},
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        },
    )
    assert row["Status"] == "Ready,SchedulingDisabled"
    assert row["Roles"] == "gpu,worker"
    assert (row["Internal-IP"], row["External-IP"]) == ("10.0.0.1", "<none>")


def test_a_deployments_row() -> None:
    row = _row(
        "apps/v1",
        "Deployment",
        {
            "metadata": {"name": "web", "creationTimestamp": YESTERDAY},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2},
        },
    )
    assert row == {
        "Name": "web",
        "Ready": "2/3",
        "Up-to-date": 3,
        "Available": 2,
        "Age": "24h",
        "Containers": "c",
        "Images": "i",
        "Selector": "app=web",
    }


def test_a_services_row() -> None:
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]
    row = _row("v1", "Service", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}})
    assert (row["Type"], row["Cluster-IP"], row["Port(s)"]) == ("NodePort", "<none>", "80:30080/TCP,53/UDP")


def test_an_events_row_counts_its_series() -> None:
    row = _row(
        "v1",
        "Event",
        {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "web"},
            "reason": "FailedScheduling",
            "eventTime": YESTERDAY,
            "series": {"count": 4, "lastObservedTime": "2026-01-01T23:59:00Z"},
            "source": {},
        },
    )
    assert (row["Last Seen"], row["First Seen"], row["Object"], row["Count"]) == ("60s", "24h", "pod/web", 4)
