"""Traces: what each format says, what is wrong with bad ones, and what a replay makes of them."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces import drawing, own, prices
from mooring.advisor.simulate.traces.events import (
    Event,
    NodeArrival,
    NodeDeparture,
    ObjectArrival,
    ObjectDeparture,
    PodArrival,
    PodBinding,
    PodDeparture,
    TraceError,
)
from mooring.advisor.simulate.traces.measures import AllocationCurve, WaitHistogram
from mooring.advisor.simulate.traces.opening import Trace
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.simulate.traces.results import Replayed, build_replay_result
from mooring.advisor.snapshot import Snapshot
from mooring.cli.main import mooring
from mooring.testing.builders import node, pod

OWN = "time,event,kind,name,resources,duration\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
TWO_NODES = "0,add,Node,a,cpu=4 memory=8Gi,\n0,add,Node,b,cpu=4 memory=8Gi,\n"


def reported(event: Event) -> str:
    """Return an event in a word or two."""
    match event:
        case PodArrival(at=at, lasts=lasts):
            return f"{at:g} {event.name} comes" + (f" for {lasts:g}" if lasts is not None else "")
        case PodDeparture(at=at, name=name):
            return f"{at:g} {name} leaves"
        case PodBinding(at=at, name=name, node=node_name):
            return f"{at:g} {name} is bound to {node_name}"
        case NodeArrival(at=at, node=found):
            return f"{at:g} node {found.metadata.name} comes"
        case NodeDeparture(at=at, name=name, fails=fails):
            return f"{at:g} node {name} {'fails' if fails else 'goes'}"
        case ObjectArrival(at=at, object=obj):
            return f"{at:g} {obj.kind} {obj.metadata.name} comes"
        case ObjectDeparture(at=at, kind=kind, name=name):
            return f"{at:g} {kind} {name} goes"


def read(tmp_path: Path, *files: tuple[str, str | bytes], skips: bool = False) -> tuple[list[str], Trace]:
    paths = []
    for name, content in files:
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
    trace = Trace(tuple(paths), skips=skips)
    return [reported(event) for event in trace.events()], trace


# -- formats

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "x"},
    "spec": {"containers": [{"name": "c"}]},
}
BOUND = {**POD, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "x"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def quoted(obj: object) -> str:
    """Return an object as a field of a table."""
    return '"' + json.dumps(obj).replace('"', '""') + '"'


def audited(verb: str, resource: str, at: str, obj: object = None, **more: object) -> str:
    about = {
        "resource": resource,
        "namespace": "x" if resource == "pods" else "",
        "name": "p" if resource == "pods" else "n",
    }
    subresource = str(more.pop("subresource", ""))
    line = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": more.pop("stage", "ResponseComplete"),
        "verb": verb,
        "objectRef": about | ({"subresource": subresource} if subresource else {}),
        "responseStatus": {"code": more.pop("code", 200)},
        "stageTimestamp": f"2026-01-01T00:00:{at}Z",
        "requestObject": more.pop("request", None),
        "responseObject": obj,
    }
    return json.dumps(line) + "\n"


def watched(*reported: tuple[str, int, object]) -> str:
    lines = ({"type": kind, "time": f"2026-01-01T00:00:0{at}Z", "object": obj} for kind, at, obj in reported)
    return "".join(json.dumps(line) + "\n" for line in lines)


@dataclass(frozen=True)
class Format:
    name: str
    files: Sequence[tuple[str, str | bytes]]
    expected: Sequence[str]


FORMATS = (
    Format(
        "its own",
        (("t.csv", OWN + TWO_NODES + "1,add,Pod,p,cpu=1,30\n2,remove,Pod,p,,\n3,fail,Node,a,,\n4,remove,Node,b,,\n"),),
        (
            "0 node a comes",
            "0 node b comes",
            "1 default/p comes for 30",
            "2 default/p leaves",
            "3 node a fails",
            "4 node b goes",
        ),
    ),
    Format(
        "its own, with whole objects, other kinds and where pods were bound",
        (
            (
                "t.csv",
                (
                    "time,event,kind,namespace,name,node,object\n"
                    f"0,add,Deployment,x,web,,{quoted(DEPLOYMENT)}\n"
                    f"0.5,add,Pod,x,p,,{quoted(POD)}\n"
                    "1,bind,Pod,x,p,n,\n2,remove,Deployment,x,web,,\n"
                ),
            ),
        ),
        ("0 Deployment web comes", "0.5 x/p comes", "1 x/p is bound to n", "2 Deployment web goes"),
    ),
    Format(
        "its own in gzip, from two files",
        (("n.csv", OWN + TWO_NODES), ("p.csv", gzip.compress((OWN + "1,add,Pod,p,cpu=1,\n").encode()))),
        ("0 node a comes", "0 node b comes", "1 default/p comes"),
    ),
    Format(
        "openb, pods sorted by when they were created",
        (
            ("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n"),
            (
                "pods.csv",
                (
                    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
                    "b,1000,1,0,0,,9,30,10\na,1000,1,1,460,P100|T4,5,8,\n"
                ),
            ),
        ),
        ("0 node n comes", "5 default/a comes for 3", "9 default/b comes for 20"),
    ),
    Format(
        "openb, pods of two tables by when they were created",
        tuple(
            (f"{name}.csv", f"name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\n{name},1,1,0,0,{at}\n")
            for name, at in (("late", 9), ("early", 5))
        ),
        ("5 default/early comes", "9 default/late comes"),
    ),
    Format(
        "openb without times",
        (("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1,8,1000\n"),),
        ("0 default/a comes",),
    ),
    Format(
        "SimKube's",
        (
            (
                "t.sktrace",
                msgspec.msgpack.encode(
                    {
                        "version": 2,
                        "config": {},
                        "events": [
                            {"ts": 100, "applied_objs": [DEPLOYMENT, POD], "deleted_objs": []},
                            {"ts": 160, "applied_objs": [], "deleted_objs": [DEPLOYMENT, POD]},
                        ],
                        "index": {},
                        "pod_lifecycles": {("v1.Pod", "x/p"): {7: [{"Finished": [101, 131]}]}},
                    }
                ),
            ),
        ),
        ("0 Deployment web comes", "0 x/p comes for 30", "60 Deployment web goes", "60 x/p leaves"),
    ),
    Format(
        "an audit log",
        (
            (
                "audit.log",
                audited("create", "nodes", "01", NODE)
                + audited("patch", "nodes", "02", NODE, subresource="status")  # a heartbeat
                + audited("create", "pods", "03", POD, stage="RequestReceived")
                + audited("create", "pods", "03", POD)
                + audited(
                    "create", "pods", "04", {"kind": "Status"}, subresource="binding", request={"target": {"name": "n"}}
                )
                + audited("patch", "pods", "05", BOUND, subresource="status")
                + audited("delete", "pods", "06", None, code=404)
                + audited("delete", "pods", "07", BOUND)
                + audited("delete", "nodes", "08", NODE),
            ),
        ),
        ("0 node n comes", "2 x/p comes", "3 x/p is bound to n", "6 x/p leaves", "7 node n goes"),
    ),
    Format(
        "an audit log in two pieces, the later one first",
        (
            ("audit.log", audited("create", "pods/binding", "04") + audited("delete", "pods", "05", BOUND)),
            ("audit-1.log", audited("create", "nodes", "01", NODE) + audited("create", "pods", "03", POD)),
        ),
        ("0 node n comes", "2 x/p comes", "4 x/p leaves"),
    ),
    Format(
        "an audit log in which many pods are deleted at once",
        (
            (
                "audit.log",
                audited("create", "pods", "01", POD)
                + audited(
                    "deletecollection", "pods", "02", {"kind": "PodList", "items": [POD, {**POD, "metadata": {}}]}
                ),
            ),
        ),
        ("0 x/p comes", "1 x/p leaves"),
    ),
    Format(
        "a stream of watch events for each kind",
        (
            ("pods.json", watched(("ADDED", 3, POD), ("DELETED", 4, POD))),
            ("nodes.json", watched(("ADDED", 1, NODE), ("DELETED", 5, NODE))),
        ),
        ("0 node n comes", "2 x/p comes", "3 x/p leaves", "4 node n goes"),
    ),
    Format(
        "a stream of watch events",
        (
            (
                "events.json",
                watched(
                    ("ADDED", 0, NODE),
                    ("ADDED", 1, POD),
                    ("MODIFIED", 2, BOUND),
                    ("BOOKMARK", 3, {}),
                    ("DELETED", 4, BOUND),
                ),
            ),
        ),
        ("0 node n comes", "1 x/p comes", "2 x/p is bound to n", "4 x/p leaves"),
    ),
)


@pytest.mark.req("T.1")
@pytest.mark.parametrize("case", FORMATS, ids=lambda case: case.name)
def test_format_is_found_and_read(case: Format, tmp_path: Path) -> None:
    found, _ = read(tmp_path, *case.files)
    assert found == list(case.expected)


@pytest.mark.req("T.1")
def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    lines = [line.split(",") for line in (OWN + TWO_NODES + "1,add,Pod,p,cpu=1,30\n").splitlines()]
    table = arrow.table({name: [row[place] for row in lines[1:]] for place, name in enumerate(lines[0])})
    parquet.write_table(table, tmp_path / "t.parquet")
    found, _ = read(tmp_path, ("t.csv", OWN + TWO_NODES + "1,add,Pod,p,cpu=1,30\n"))
    assert [reported(event) for event in Trace((tmp_path / "t.parquet",)).events()] == found


@pytest.mark.req("T.8")
def test_a_parquet_file_that_is_damaged_inside_is_reported(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    names = [f"p{number}" for number in range(5000)]
    columns = {"time": range(5000), "event": ["add"] * 5000, "kind": ["Pod"] * 5000, "name": names}
    parquet.write_table(arrow.table({name: list(values) for name, values in columns.items()}), path)
    content = bytearray(path.read_bytes())
    content[100:-2000] = bytes(len(content) - 2100)
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"t\.parquet: cannot be read"):
        list(Trace((path,)).events())


@pytest.mark.req("T.1")
def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    events: list[Event] = [
        NodeArrival(0.0, node("n", taints=["a=b:NoSchedule"])),
        PodArrival(1.5, pod("p", cpu="1", labels={"a": "b"}, priority=7), 30.0),
        PodBinding(2.0, "default/p", "n"),
        PodDeparture(3.0, "default/p"),
        NodeDeparture(4.0, "n", fails=True),
        ObjectArrival(5.0, pod("q")),
        ObjectDeparture(6.0, "Deployment", "x", "web"),
    ]
    path = tmp_path / "t.csv"
    with path.open("w") as stream:
        own.TraceWriter(stream).write(events[:5] + events[6:])
    again = list(Trace((path,)).events())
    assert [reported(event) for event in again] == [reported(event) for event in events[:5] + events[6:]]
    first, second = again[0], again[1]
    assert isinstance(first, NodeArrival)
    assert isinstance(second, PodArrival)
    assert first.node.spec == node("n", taints=["a=b:NoSchedule"]).spec
    assert first.node.status == node("n").status
    assert second.pod.spec.priority == 7
    assert second.pod.metadata.labels == {"a": "b"}


# -- bad traces


@dataclass(frozen=True)
class Bad:
    name: str
    lines: str
    expected: str
    left: Sequence[str] = ()
    """What is left of it when bad lines are skipped."""
    header: str = OWN


def pod_asking(cpu: str) -> dict[str, object]:
    return {**POD, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


BAD = (
    Bad(
        "a hole",
        "1,add,Pod,p\n2,add,Pod,q,cpu=1,\n",
        "t.csv:2: the line has 4 fields, and the header 6",
        ("2 default/q comes",),
    ),
    Bad(
        "disorder", "5,add,Pod,p,,\n3,add,Pod,q,,\n", "t.csv:3: the time 3 is before 5, that of", ("5 default/p comes",)
    ),
    Bad("a negative time", "-1,add,Pod,p,,\n", "t.csv:2: the time -1 is negative"),
    Bad("no time at all", "soon,add,Pod,p,,\n", 't.csv:2: time is "soon", not a number'),
    Bad("a time that is no number", "nan,add,Pod,p,,\n", "t.csv:2: time is not a number"),
    Bad("a time without end", "inf,add,Pod,p,,\n", "t.csv:2: the time inf is not one that a trace can have"),
    Bad(
        "a gap of a billion seconds",
        "1,add,Pod,p,,\n1000000001,add,Pod,q,,\n",
        "t.csv:3: nothing happens for 1,000,000,000 s, which is more than ten years",
        ("1 default/p comes",),
    ),
    Bad(
        "a last line that is cut off",
        "1,add,Pod,p,,\n2,add,Po",
        "t.csv:3: the line has 3 fields, and the header 6: the file seems to be cut off",
        ("1 default/p comes",),
    ),
    Bad("an unknown event", "1,explode,Node,a,,\n", 't.csv:2: the event is "explode", which is none of add, change'),
    Bad("a pod without a name", "1,add,Pod,,,\n", "t.csv:2: a Pod without a name"),
    Bad("a negative amount", "1,add,Pod,p,cpu=-1,\n", "t.csv:2: cpu is -1, a negative amount"),
    Bad("no quantity", "1,add,Pod,p,cpu=much,\n", 't.csv:2: cpu is "much": quantities must match'),
    Bad(
        "bytes that are no text",
        "1,add,Pod,p\udcff,,\n2,add,Pod,q,,\n",
        "t.csv:2: it is not UTF-8",
        ("2 default/q comes",),
    ),
    Bad("no pair", "1,add,Pod,p,cpu,\n", 't.csv:2: resources: "cpu" is not of the form name=value'),
    Bad("a negative duration", "1,add,Pod,p,cpu=1,-5\n", "t.csv:2: the duration is -5, a negative one"),
    Bad("a kind without its object", "1,add,Deployment,web,,\n", 't.csv:2: a Deployment needs the column "object"'),
    Bad("a duration without end", "1,add,Pod,p,cpu=1,inf\n", "t.csv:2: the duration is inf, longer than any trace"),
    Bad("a duration of ages", "1,add,Pod,p,cpu=1,1e300\n", "t.csv:2: the duration is 1e+300, longer than any trace"),
    Bad("a node that is bound", "1,bind,Node,a,,\n", "t.csv:2: a Node can be added, changed and removed, or fail"),
    Bad(
        "a workload that fails", "1,fail,Deployment,web,,\n", "t.csv:2: a Deployment can be added, changed and removed"
    ),
    Bad(
        "a priority without end",
        "1,add,Pod,p,inf\n2,add,Pod,q,7\n",
        "t.csv:2: the priority is inf, which is not from -2147483648 to 2147483647",
        ("2 default/q comes",),
        "time,event,kind,name,priority\n",
    ),
    Bad(
        "an object that asks for less than nothing",
        f"1,add,Pod,p,{quoted(pod_asking('-5'))}\n",
        "t.csv:2: cpu is -5, a negative amount",
        header="time,event,kind,name,object\n",
    ),
    Bad("a field without end", '1,add,Pod,"p,,\n', "t.csv:2: "),
)


@pytest.mark.req("T.8")
@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_bad_line_is_named_or_skipped_and_counted(case: Bad, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as raised:
        read(tmp_path, ("t.csv", case.header + case.lines))
    assert case.expected in str(raised.value)
    assert "--skip-bad" in str(raised.value)
    found, trace = read(tmp_path, ("t.csv", case.header + case.lines), skips=True)
    assert found == list(case.left)
    assert trace.complaints.skipped == 1
    assert any(case.expected in text for text in trace.complaints.summary())
    assert "1 lines were skipped" in trace.complaints.summary()


UNREADABLE = (
    ("an empty file", "t.csv", "", "the file is empty"),
    ("another table", "t.csv", "a,b\n1,2\n", "the format is not known"),
    ("a column twice", "t.csv", "time,event,kind,name,name\n0,add,Pod,a,b\n", 'the column "name" is there twice'),
    ("bytes", "t.csv", b"\xff\xfe\x00\x01", "the format is not known"),
    ("a SimKube trace that is cut off", "t.sktrace", b"\x85\xa7version\x02\xa6conf", "not a trace of SimKube"),
    ("a SimKube trace of another version", "t.sktrace", msgspec.msgpack.encode({"version": 1}), "reads version 2"),
    ("an audit log that is cut off", "a.log", '{"kind": "Event", "sta', "a.log:1: "),
    (
        "watch events of another century",
        "w.log",
        watched(("ADDED", 1, NODE)) + watched(("ADDED", 2, POD)).replace("2026", "2126"),
        "w.log:2: nothing happens for",
    ),
    ("openb without end", "p.csv", f"{OPENB[:-1]},creation_time,deletion_time\np,1,1,0,0,1,inf\n", "p.csv:2: "),
    ("an audit log without objects", "a.log", audited("create", "pods", "01"), "the audit level is too low"),
    ("a packed file that is cut off", "t.csv", gzip.compress(OWN.encode() * 99)[:-9], ""),
    ("a Parquet file that is cut off", "t.parquet", b"PAR1\x00\x00", "Parquet"),
    ("openb with a negative number", "p.csv", f"{OPENB}p,-1,1,0,0\n", "p.csv:2: cpu_milli is -1"),
    ("openb with shares of several cards", "p.csv", f"{OPENB}p,1,1,2,300\n", "only one can be shared"),
)  # fmt: skip


@pytest.mark.req("T.8")
@pytest.mark.parametrize(
    ("name", "content", "expected"), [case[1:] for case in UNREADABLE], ids=[case[0] for case in UNREADABLE]
)
def test_what_cannot_be_read_is_reported_in_a_sentence(
    name: str, content: str | bytes, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError) as raised:
        read(tmp_path, (name, content))
    assert name in str(raised.value)
    assert expected in str(raised.value)


@pytest.mark.req("T.8")
def test_a_model_that_no_node_has_is_noted_with_its_line(tmp_path: Path) -> None:
    found, trace = read(
        tmp_path,
        ("n.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1000,1,1,T4\n"),
        ("p.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,1,1000,H100\nq,1,1,1,1000,T4|H100\n"),
    )
    assert len(found) == 3
    [note] = trace.complaints.summary()
    assert "p.csv:2: no node has the model H100" in note


# -- replays


def replayed(events: Sequence[Event], *nodes: str, **options: object) -> tuple[Replay, Replayed]:
    replay = Replay(
        Snapshot("nodes", [node(name, cpu="4") for name in nodes]),
        Settings(),
        ReplayOptions(keeps_placements=True, **options),  # type: ignore[arg-type] # tests name what they mean
    )
    replay.run(iter(events))
    return replay, build_replay_result(replay, "nodes", "events", "default")


def test_pods_run_their_time_and_leave_room_for_those_who_wait() -> None:
    replay, result = replayed(
        [PodArrival(0.0, pod("a", cpu="3"), 60.0), PodArrival(10.0, pod("b", cpu="3"), 30.0)], "n"
    )
    assert result.numbers["placed"] == 2
    assert result.numbers["running"] == 0
    assert replay.world.clock.monotonic() == pytest.approx(91, abs=2)  # 60, and b's 30 after it has got its node
    assert result.numbers["waited p99"] == pytest.approx(50, rel=0.05)


def test_a_pod_that_finds_no_node_is_given_up_if_asked() -> None:
    events = [
        PodArrival(0.0, pod("a", cpu="3")),
        PodArrival(1.0, pod("b", cpu="3")),
        PodArrival(2.0, pod("c", cpu="1")),
    ]
    _, result = replayed(events, "n", gives_up=True)
    assert (result.numbers["given up"], result.numbers["pending"]) == (1, 0)
    assert result.placements == {"default/a": "n", "default/c": "n"}
    _, result = replayed(events, "n")
    assert (result.numbers["given up"], result.numbers["pending"]) == (0, 1)
    [(why, number)] = result.pending.items()
    assert why.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert number == 1


def test_pods_of_a_node_that_fails_begin_again_elsewhere() -> None:
    events: list[Event] = [
        PodArrival(0.0, pod("a", cpu="3"), 100.0),
        NodeArrival(10.0, node("m", cpu="4")),
        NodeDeparture(20.0, "n", fails=True),
        PodDeparture(30.0, "default/unknown"),
    ]
    replay, result = replayed(events, "n")
    assert result.placements == {"default/a": "m"}
    assert result.numbers["evicted"] == 1
    assert result.notes == ["1 pods left that were not there: the first was default/unknown at 30 s"]
    assert replay.world.clock.monotonic() == pytest.approx(120, abs=1)


ODD: tuple[tuple[str, Event], ...] = (
    ("pods came that were there already, and were left out: the first was default/a at 5 s", PodArrival(5.0, pod("a"))),
    (
        "pods came with a node that was not there, and were left out: the first was default/b at 5 s",
        PodArrival(5.0, pod("b", cpu="1", on="m")),
    ),
    ("pods left that were not there: the first was default/b at 5 s", PodDeparture(5.0, "default/b")),
    ("nodes left that were not there: the first was m at 5 s", NodeDeparture(5.0, "m")),
    ("objects left that were not there: the first was x/web at 5 s", ObjectDeparture(5.0, "Deployment", "x", "web")),
)


@pytest.mark.req("T.8")
@pytest.mark.parametrize(("reported", "event"), ODD, ids=[case[0].split(":")[0] for case in ODD])
def test_events_without_sense_are_counted_and_change_nothing(reported: str, event: Event) -> None:
    _, result = replayed([PodArrival(0.0, pod("a", cpu="1")), event, event], "n")
    assert result.notes == [f"2 {reported}"]
    assert result.numbers["arrived"] == result.numbers["running"] == 1
    assert result.numbers["allocated cpu"] == 0.25


def test_a_more_important_pod_displaces_one_that_comes_again() -> None:
    events = [PodArrival(0.0, pod("low", cpu="3")), PodArrival(5.0, pod("high", cpu="3", priority=10), 20.0)]
    _, result = replayed(events, "n")
    assert result.numbers["preempted"] == 1
    assert result.numbers["running"] == 1
    assert result.placements == {"default/high": "n", "default/low": "n"}


@pytest.mark.req("T.2")
def test_measures_over_time(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("type,price\nlarge,2.5\nsmall,1\n")
    labels = {"node.kubernetes.io/instance-type": "large"}
    events: list[Event] = [
        NodeArrival(0.0, node("n", cpu="4", labels=labels)),
        NodeArrival(0.0, node("m", cpu="4", labels=labels)),
    ]
    events += [
        PodArrival(0.0, pod("a", cpu="3")),
        PodArrival(3600.0, pod("b", cpu="2")),
        PodArrival(7200.0, pod("c", cpu="3")),
    ]
    _, result = replayed(events, prices=prices.read_prices(table))
    last = result.samples[-1]
    assert last["allocated cpu"] == pytest.approx(5 / 8)
    assert last["nodes in use"] == 2
    assert last["pending NodeResourcesFit"] == 1
    assert last["cost per hour"] == 5
    assert last["cost"] == pytest.approx(10, rel=0.01)
    # 1 core is free on one node and 2 on the other: none for 3 cores, and 2 of 3 for a pod of two.
    assert last["fragmented cpu"] == pytest.approx((1 + 1 + 1 / 3) / 3, abs=1e-4)


PRICES = (
    ("a table", "type,price\nm5.large,0.096\n", {"m5.large": 0.096}),
    (
        "Karpenter's instance types: on demand, where they are cheapest",
        json.dumps(
            [
                {
                    "name": "c-1x",
                    "offerings": [
                        {"Price": 0.01, "Requirements": [{"key": "karpenter.sh/capacity-type", "values": ["spot"]}]},
                        {
                            "Price": 0.03,
                            "Requirements": [{"key": "karpenter.sh/capacity-type", "values": ["on-demand"]}],
                        },
                        {"Price": 0.025, "Requirements": []},
                    ],
                },
                {"name": "g5.4xlarge", "offerings": [{"capacityType": "on-demand", "zone": "a", "price": 1.624}]},
            ]
        ),
        {"c-1x": 0.025, "g5.4xlarge": 1.624},
    ),
)


@pytest.mark.req("T.2")
@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in PRICES], ids=[case[0] for case in PRICES])
def test_prices_are_read_from(text: str, expected: dict[str, float], tmp_path: Path) -> None:
    (tmp_path / "prices").write_text(text)
    assert prices.read_prices(tmp_path / "prices").table == expected


@pytest.mark.req("T.2")
@pytest.mark.parametrize(
    "text",
    [
        "m5.large,cheap\nx,1\ny,much\n",
        "a,b\nm5.large,-1\n",
        "[{",
        '[{"name": 1}]',
        '[{"name": "a", "offerings": []}]',
        '[{"name": "a", "offerings": [{"Price": -3}]}]',
        '[{"name": "a", "offerings": [{"Price": 3, "Requirements": [3]}]}]',
    ],
)
def test_prices_that_make_no_sense_are_reported(text: str, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text(text)
    with pytest.raises(TraceError, match="prices"):
        prices.read_prices(tmp_path / "prices")


@pytest.mark.req("T.2")
def test_percentiles_of_waiting_times_are_within_two_per_cent() -> None:
    waits = WaitHistogram()
    for seconds in range(1, 1001):
        waits.add(float(seconds))
    for part in (0.5, 0.9, 0.99):
        assert waits.percentile(part) == pytest.approx(1000 * part, rel=0.02)
    assert WaitHistogram().percentile(0.5) == 0.0


@pytest.mark.req("T.2")
def test_what_is_allocated_when_so_much_has_been_asked_for_is_a_mean_by_whole_per_cents() -> None:
    curve = AllocationCurve()
    for asked, allocated in ((0.596, 0.5), (0.604, 0.6), (0.606, 0.7)):
        curve.add_point(asked, allocated)
    assert curve.points() == {60: 55.0, 61: 70.0}


@pytest.mark.req("T.5")
def test_drawn_workloads_ask_for_what_is_wanted_and_depend_on_the_seed_alone() -> None:
    pods = [pod(f"p{number:02}", cpu=str(1 + number % 4)) for number in range(20)]
    nodes = [node("n", cpu="100")]

    def drawn(seed: int, times: float = 1.3) -> list[PodArrival]:
        return list(drawing.draw_workload(pods, nodes, drawing.FillTarget("cpu", times), seed).pods)

    def names(seed: int) -> list[str]:
        return [event.name for event in drawn(seed)]

    assert 126_000 <= sum(drawing.requested_amount(event.pod, "cpu") for event in drawn(1)) <= 133_000
    assert names(1) == names(1) != names(2)
    assert set(names(1)[:20]) == {f"default/p{number:02}" for number in range(20)}
    assert len(set(names(1))) == len(names(1))
    assert 16_000 < sum(drawing.requested_amount(event.pod, "cpu") for event in drawn(1, times=0.2)) <= 20_000
    assert len(drawn(1, times=0.5)) == 20  # they ask for exactly that: none more, none less
    with pytest.raises(TraceError, match="no node has any"):
        drawing.draw_workload(pods, nodes, drawing.FillTarget("nvidia.com/gpu", 1.0), 1)
    with pytest.raises(TraceError, match="no pod of the trace asks for it"):
        drawing.draw_workload(
            pods, [node("n", resources={"nvidia.com/gpu": "8"})], drawing.FillTarget("nvidia.com/gpu", 1.0), 1
        )


@pytest.mark.req("T.5")
def test_drawing_depends_on_names_not_on_the_order_of_lists() -> None:
    pods, nodes = [pod(f"p{number}") for number in range(9)], [node(f"n{number}") for number in range(9)]
    one, other = drawing.draw_workload(pods, nodes, None, 42), drawing.draw_workload(pods[::-1], nodes[::-1], None, 42)
    assert list(one.pods) == list(other.pods)
    assert one.nodes == other.nodes != nodes


# -- the command


@pytest.mark.req("T.2")
def test_command_replays_a_trace_and_writes_its_measures(tmp_path: Path) -> None:
    trace = tmp_path / "day.csv"
    trace.write_text(OWN + TWO_NODES + "1,add,Pod,p,cpu=3,60\n2,add,Pod,q,cpu=3,\n3,add,Pod,r,cpu=3,\n")
    html, table, whole = tmp_path / "r.html", tmp_path / "m.csv", tmp_path / "m.json"
    words = ["simulate", "--trace", str(trace), "--html", str(html), "--measures", str(table), "--measures", str(whole)]
    reported = CliRunner().invoke(mooring, [*words, "--until", "30", "--keep-placements"])
    assert reported.exit_code == 0, reported.output
    assert "3 pods came, 2 were placed, 1 are pending" in reported.output
    assert table.read_text().startswith("time,running,pending,nodes,nodes in use,allocated cpu")
    assert "What is allocated" in html.read_text()
    assert "<script" not in html.read_text()
    result = msgspec.json.decode(whole.read_bytes(), type=Replayed)
    assert set(result.placements) == {"default/p", "default/q"}
    again = CliRunner().invoke(mooring, ["simulate", "--trace", str(trace), "-o", "json"])
    assert json.loads(again.output)["numbers"]["placed"] == 3


WRONG_CALLS = (
    (("--fill", "cpu=2"), "--fill needs --draw"),
    (("--draw", "--fill", "cpu"), "--fill: cpu is not of the form RESOURCE=TIMES"),
    (("--draw", "--fill", "cpu=-1"), "a cluster cannot be filled with -1 times cpu: more than 0 and at most 100"),
    (("--draw", "--fill", "cpu=nan"), "a cluster cannot be filled with nan times cpu"),
    (("--draw", "--fill", "cpu=1e12"), "a cluster cannot be filled with 1e+12 times cpu"),
    (("--cordon", "a"), "--trace excludes changes"),
    (("--measures", "m.txt"), "the name ends in .csv, .json or .parquet"),
    (("--measures", "nowhere/m.csv"), "nowhere/m.csv: there is no folder nowhere"),
    (("--html", "nowhere/r.html"), "nowhere/r.html: there is no folder nowhere"),
    (("--until", "nan"), "until: nan is no moment of a trace"),
)


@pytest.mark.req("T.8")
@pytest.mark.parametrize(("words", "expected"), WRONG_CALLS, ids=[case[1] for case in WRONG_CALLS])
def test_wrong_calls_are_reported(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    trace = tmp_path / "day.csv"
    trace.write_text(OWN + TWO_NODES + "1,remove,Pod,p,,\n")
    reported = CliRunner().invoke(mooring, ["simulate", "--trace", str(trace), *words])
    assert reported.exit_code != 0
    assert expected in reported.output
    assert "Note:" not in reported.output  # the error comes before the replay, which may take long


def test_pods_that_were_pending_before_are_not_newly_pending(tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(
        json.dumps({**NODE, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}) + "\n---\n" + large_pod("old")
    )
    (tmp_path / "new.yaml").write_text(large_pod("new"))
    words = ["simulate", "--from", str(dump), "--fail-if", "newly-pending"]
    assert CliRunner().invoke(mooring, words).exit_code == 0
    reported = CliRunner().invoke(mooring, [*words, "--add", str(tmp_path / "new.yaml")])
    assert reported.exit_code == 3
    assert "Failed: 1 newly-pending" in reported.output


def large_pod(name: str) -> str:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    metadata = {"name": name, "namespace": "default"}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
