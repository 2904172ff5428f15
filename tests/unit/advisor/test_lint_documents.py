"""Files become pieces, documents and objects, and every field has a line and a column."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.lint import documents
from mooring.advisor.lint.positions import Position, Positions
from mooring.api import codec

pytestmark = pytest.mark.req("S.5")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    pieces: tuple[tuple[int, list[object]], ...]
    """The lines before each piece, and the documents in it."""


CASES = (
    Case("nothing", "", ((0, []),)),
    Case("one document", "a: 1\n", ((0, [{"a": 1}]),)),
    Case("two documents", "a: 1\n---\nb: 2\n", ((0, [{"a": 1}]), (1, [{"b": 2}]))),
    Case("a marker at the beginning", "---\na: 1\n", ((0, [{"a": 1}]),)),
    Case(
        "comments and empty documents",
        "# Helm\n---\n# x\n---\n\n---\na: 1\n",
        ((0, []), (1, []), (3, []), (5, [{"a": 1}])),
    ),
    Case("content beside the marker", "--- {a: 1}\n--- # b\nb: 2\n", ((0, [{"a": 1}]), (1, [{"b": 2}]))),
    Case("dashes that mark nothing", "a: |\n  ---\n  x\n----: 1\n", ((0, [{"a": "---\nx\n", "----": 1}]),)),
    Case("line ends of Windows", "a: 1\r\n---\r\nb: 2\r\n", ((0, [{"a": 1}]), (1, [{"b": 2}]))),
    Case("directives", "%YAML 1.1\n---\na: 1\n---\nb: 2\n", ((0, [{"a": 1}, {"b": 2}]),)),
    Case("explicit ends", "a: 1\n...\n---\nb: 2\n", ((0, [{"a": 1}, {"b": 2}]),)),
    Case("JSON", '{"a":\n1}', ((0, [{"a": 1}]),)),
    Case(
        "JSON values one after the other",
        '{"a": 1}\n\n{"b":\n2}{"c": 3}',
        ((0, [{"a": 1}]), (2, [{"b": 2}]), (3, [{"c": 3}])),
    ),
    Case("braces that are YAML", "{a: 1}\n---\nb: 2\n", ((0, [{"a": 1}]), (1, [{"b": 2}]))),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pieces(case: Case) -> None:
    found = [(piece.lines_before, documents.parse_trees(piece.text)) for piece in documents.split_pieces(case.text)]
    assert tuple(found) == case.pieces


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sampled_from(["---", "--- x", "a: 1", "b:", "  - c", "# d", "", "'e", "f'", "|", "  ---", "..."]), max_size=9
    )
)
def test_pieces_say_what_the_whole_file_says(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        whole = [document.tree for document in codec.read_yaml(text)]
    except codec.DecodeError:
        return
    assert [tree for piece in documents.split_pieces(text) for tree in documents.parse_trees(piece.text)] == whole


def test_lists_are_unfolded_and_typed_items_get_their_kind() -> None:
    tree = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"kind": "Pod", "apiVersion": "v1"},
            {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"spec": {}}]},
        ],
    }
    assert list(documents.list_objects(tree)) == [
        ({"kind": "Pod", "apiVersion": "v1"}, "items[0]"),
        ({"spec": {}, "apiVersion": "apps/v1", "kind": "Deployment"}, "items[1].items[0]"),
    ]


@pytest.mark.parametrize(
    "tree", [{"kind": "List"}, {"kind": "List", "items": 3}, {"kind": "AList", "spec": {}, "items": []}]
)
def test_what_only_looks_like_a_list_is_an_object(tree: object) -> None:
    assert list(documents.list_objects(tree)) == [(tree, "")]


def test_lists_in_lists_end_somewhere() -> None:
    tree: dict[str, object] = {"kind": "List", "items": []}
    for _ in range(50):
        tree = {"kind": "List", "items": [tree]}
    assert len(list(documents.list_objects(tree))) == 1


TEXT = """\
# first
---
apiVersion: v1
metadata:
  labels:
    example.com/a: x
    example.com/a.b: y
spec:
  containers:
  - name: c
    ports: [{containerPort: 1}, {containerPort: 2}]
  args:
    - |
      text
"""


@dataclass(frozen=True)
class Place:
    path: str
    position: tuple[int, int]


PLACES = (
    Place("", (3, 1)),
    Place("apiVersion", (3, 1)),
    Place("metadata.labels", (5, 3)),
    Place("metadata.labels[example.com/a]", (6, 5)),
    Place("metadata.labels.example.com/a", (6, 5)),
    Place("metadata.labels.example.com/a.b", (7, 5)),
    Place("metadata.name", (4, 1)),
    Place("spec.containers[0]", (10, 5)),
    Place("spec.containers[0].image", (10, 5)),
    Place("spec.containers[0].ports[1].containerPort", (11, 34)),
    Place("spec.containers[1].name", (9, 3)),
    Place("spec.containers[c].name", (9, 3)),
    Place("spec.args[0]", (13, 7)),
    Place("nothing.like.this", (3, 1)),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.path or "the document")
def test_a_path_is_found_or_what_is_around_it(place: Place) -> None:
    assert Positions(TEXT).find(0, place.path) == place.position


def test_json_has_places_too() -> None:
    text = json.dumps({"a": {"b": [1, 2]}}, indent="\t")
    assert Positions(text).find(0, "a.b[1]") == (5, 4)


@pytest.mark.parametrize("text", ["", "a: [", "{\x00"])
def test_what_cannot_be_read_begins_at_its_first_line(text: str) -> None:
    assert Positions(text).find(0, "a.b") == Position(1, 1)
