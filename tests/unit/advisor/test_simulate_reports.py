"""What a simulation prints: tables, CSV and the HTML report, also for names that mean harm."""

import csv
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployment_manifest import deployment
from mooring.advisor.simulate import Scenario, Simulation, Step, simulate
from mooring.advisor.simulate.changes import Add, Drain
from mooring.advisor.simulate.html import pictures, render_page
from mooring.advisor.simulate.html.markup import Markup, escape_html, tag
from mooring.advisor.simulate.html.pictures import Cell
from mooring.advisor.simulate.manifests import copy_templates, read_objects
from mooring.advisor.simulate.reports import format_amount, format_csv, format_lines
from mooring.advisor.snapshot import Snapshot
from mooring.testing import builders

pytestmark = pytest.mark.req("S.5")

HOSTILE = "<script>alert('x')</script>\"&\x1b[31m\n=1+1"
WEB = deployment("web", 90, '{cpu: "1", memory: 1Gi}')


@pytest.fixture(scope="module")
def result() -> Simulation:
    steps = (Step((Add(read_objects(WEB, "web.yaml")),)), Step((Drain(("node-1",)),)))
    return simulate(Snapshot("three nodes", copy_templates((), 3)), Scenario(steps, name="a drain"))


@pytest.fixture(scope="module")
def hostile() -> Simulation:
    """Return a dump with markup in the names of nodes, pods, owners and in messages."""
    node = builders.node(HOSTILE, cpu="1")
    owner = {
        "ownerReferences": [{"apiVersion": "a/v1", "kind": HOSTILE, "name": HOSTILE, "uid": "u", "controller": True}]
    }
    running = builders.pod(HOSTILE, cpu="1", on=HOSTILE, metadata=owner)
    gone = builders.pod(f"{HOSTILE}2", cpu="0", on=HOSTILE)
    waiting = builders.pod(f"{HOSTILE}3", cpu="2", spec={"schedulerName": HOSTILE})
    snapshot = Snapshot(HOSTILE, [node, running, gone, waiting])
    return simulate(snapshot, Scenario((Step((Drain(("*",)),), name=HOSTILE),), name=HOSTILE))


def test_the_table_reports_the_whole_story(result: Simulation) -> None:
    text = "\n".join(format_lines(result))
    assert "64 pods of 90 run on 3 nodes: 64 placed, 26 pending, 0 rejected, 0 preempted" in text
    assert re.search(r"cpu +96 +0 \(0.0%\) +64 \(66.7%\)", text)
    assert "PENDING: 26 pods of Deployment default/web" in text
    assert "drain node-1" in text
    assert "-o wide shows where each of them is." in text


def test_the_wide_table_has_every_pod(result: Simulation) -> None:
    text = "\n".join(format_lines(result, wide=True))
    assert all(placed.pod in text for placed in result.placements)
    assert all(waiting.pod in text for group in result.pending for waiting in group.pods)


def test_csv_has_a_line_for_everything_that_happened(result: Simulation) -> None:
    rows = list(csv.DictReader(io.StringIO(format_csv(result))))
    outcomes = [row["outcome"] for row in rows]
    assert outcomes.count("placed") == result.counts.placed
    assert outcomes.count("pending") == result.counts.pending
    assert outcomes.count("evicted") == result.counts.evicted
    assert {row["owner"] for row in rows} == {"Deployment default/web"}


def test_owners_of_the_same_name_in_different_namespaces_are_distinguished() -> None:
    fitting, waiting = deployment("web", 60, "{cpu: 50m}"), deployment("web", 3, '{cpu: "100"}')
    twins = [
        *read_objects(fitting.replace("name: web", "name: web, namespace: a", 1), "a.yaml"),
        *read_objects(waiting.replace("name: web", "name: web, namespace: b", 1), "b.yaml"),
    ]
    result = simulate(Snapshot("two nodes", copy_templates((), 2)), Scenario((Step((Add(tuple(twins)),)),)))
    assert Counter(each.owner for each in result.placements) == {"Deployment a/web": 60}
    (group,) = result.pending
    assert (group.owners, group.count) == (("Deployment b/web",), 3)
    text = "\n".join(format_lines(result))
    assert re.search(r"Deployment a/web +60 +", text)
    assert "PENDING: 3 pods of Deployment b/web" in text
    rows = list(csv.DictReader(io.StringIO(format_csv(result))))
    assert Counter(row["owner"] for row in rows) == {"Deployment a/web": 60, "Deployment b/web": 3}


def test_csv_has_no_formulas(hostile: Simulation) -> None:
    cells = [cell for row in csv.reader(io.StringIO(format_csv(hostile))) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_json_is_stable_camel_case(result: Simulation) -> None:
    tree = json.loads(msgspec.json.encode(result))
    assert (tree["apiVersion"], tree["kind"]) == ("advisor.mooring.dev/v1", "Simulation")
    assert set(tree["counts"]) == {
        "nodes", "pods", "running", "placed", "pending", "rejected", "preempted", "evicted", "blocked", "newlyPending",
    }  # fmt: skip
    assert {"isComplete", "startedAt", "utilisation"} <= set(tree)
    assert msgspec.json.decode(msgspec.json.encode(result), type=Simulation) == result


class _Reader(HTMLParser):
    """Notes the elements and what they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action", "onload")
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_the_report_is_one_file_without_scripts(result: Simulation) -> None:
    text = render_page(result)
    reader = read(text)
    assert text.startswith("<!DOCTYPE html>")
    assert reader.links == []
    assert "script" not in reader.tags
    assert "url(" not in text
    assert "@import" not in text


def test_every_picture_has_a_title_and_a_description(result: Simulation) -> None:
    drawings = re.findall(r"<svg .*?</svg>", render_page(result), re.DOTALL)
    assert len(drawings) >= 9
    for drawing in drawings:
        root = ET.fromstring(drawing)
        assert [child.tag for child in root][:2] == ["title", "desc"]
        assert all(child.text for child in list(root)[:2])


def test_a_hostile_name_stays_text_in_the_report(hostile: Simulation) -> None:
    text = render_page(hostile)
    reader = read(text)
    assert "script" not in reader.tags
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text


def test_a_hostile_name_does_not_command_the_terminal(hostile: Simulation) -> None:
    assert not [line for line in format_lines(hostile, wide=True) if "\x1b" in line or "\n" in line]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_is_written_comes_back_as_it_was(content: str, attribute: str) -> None:
    made = tag("p", content, title=attribute)
    root = ET.fromstring(made)
    clean = [text for text in (content, attribute) if escape_html(text) == escape_html(text).replace("�", "")]
    if len(clean) == 2 and "\r" not in content + attribute and "￾" not in content + attribute:
        assert (root.text or "") == content


def test_markup_is_not_escaped_twice() -> None:
    assert tag("b", Markup("<i>a</i>"), "<i>") == "<b><i>a</i>&lt;i&gt;</b>"


def test_a_heat_map_of_many_nodes_stands_for_several_with_each_square() -> None:
    shown = pictures.merge_cells([Cell(f"n{number}", 0.5) for number in range(50_000)])
    assert len(shown) <= 2400
    assert shown[0].name == "n0 … n20 (21 nodes)"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable. preemption: 0/5 …",
            "Insufficient cpu",
        ),
        ("0/5 nodes are available: 5 a.", "a"),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ('0/1 nodes are available: persistentvolumeclaim "x" not found.', 'persistentvolumeclaim "x" not found.'),
    ],
)
def test_the_main_reason_is_what_most_nodes_say(message: str, reason: str) -> None:
    assert pictures.main_reason(message) == reason


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [("cpu", 12.5, "12.5"), ("memory", 3 * 2**30, "3Gi"), ("memory", 100.0, "100"), ("pods", 11000.0, "11000")],
)
def test_amounts_are_written_as_kubernetes_does(resource: str, value: float, text: str) -> None:
    assert format_amount(resource, value) == text
