"""YAML as Kubernetes reads it: plain words, documents and lines, anchors, limits, and what is written."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.api.codec import DecodeError, FieldValidation, decode_tree, decode_yaml, read_yaml, to_yaml
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.yaml_documents import YamlError, write

FILE = """# two objects
apiVersion: v1
kind: ConfigMap
data:
  a: b
---
# nothing
---
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: c
    image: i
  hostNetwork: on
"""


def test_documents_know_their_lines_and_empty_ones_are_left_out() -> None:
    config, pod = read_yaml(FILE)
    assert (config.line, pod.line) == (2, 9)
    assert pod.tree["spec"]["hostNetwork"] is True


def test_documents_are_decoded_by_their_kind() -> None:
    types: dict[str, Any] = {"ConfigMap": ConfigMap, "Pod": Pod}
    objects = [decode_tree(each.tree, types[each.tree["kind"]]).object for each in read_yaml(FILE)]
    assert [type(value) for value in objects] == [ConfigMap, Pod]


def test_json_is_read_too_even_with_tabs_and_one_document_after_another() -> None:
    assert read_yaml('\n{\n\t"a":\t1\n}')[0].tree == {"a": 1}
    assert [document.tree for document in read_yaml('{"a": 1}\n---\n{"b": 2}\n')] == [{"a": 1}, {"b": 2}]


PLAIN: list[tuple[str, Any]] = [
    ("yes", True),
    ("y", True),
    ("On", True),
    ("n", False),
    ("OFF", False),
    ("yEs", "yEs"),
    ("~", None),
    ("", None),
    ("null", None),
    ("nULL", "nULL"),
    ("12", 12),
    ("+12", 12),
    ("-0", 0),
    ("010", 8),
    ("0o10", 8),
    ("08", 8),
    ("0x1F", 31),
    ("0b11", 3),
    ("1_000", 1000),
    ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", 18446744073709551616),
    ("1.5", 1.5),
    ("1e3", 1000),
    (".5", 0.5),
    ("1e400", "1e400"),
    ("1:30", "1:30"),
    ("1.2.3", "1.2.3"),
    ("2024-01-01", "2024-01-01"),
    ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    ("100m", "100m"),
    ("'12'", "12"),
    ('"yes"', "yes"),
    ("!!str 12", "12"),
    ("! 12", "12"),
    ("!!int 12", 12),
    ("!!float 1", 1),
    ("!!null ~", None),
    ("|\n  a\n  b", "a\nb\n"),
]


@pytest.mark.parametrize(("text", "value"), PLAIN, ids=repr)
def test_plain_words_mean_what_they_mean_to_kubernetes(text: str, value: Any) -> None:
    found = read_yaml(f"a: {text}\n")[0].tree["a"]
    assert (found, type(found)) == (value, type(value))


def test_keys_are_text() -> None:
    assert read_yaml("{1: a, true: b, 1.5: c, 010: d, '~': e}")[0].tree == {
        "1": "a", "true": "b", "1.5": "c", "8": "d", "~": "e"
    }  # fmt: skip


def test_anchors_aliases_and_merges() -> None:
    text = "a: &a {x: 1, z: 2}\nb: *a\nc: {<<: *a, z: 3}\nd:\n  <<: [{w: 1}, *a]\n  x: 0\ne: &k key\nf: {*k : 1}"
    tree = read_yaml(text)[0].tree
    assert tree["b"] == {"x": 1, "z": 2}
    assert tree["c"] == {"x": 1, "z": 3}
    assert tree["d"] == {"w": 1, "z": 2, "x": 0}
    assert tree["f"] == {"key": 1}


def test_repeated_keys_are_reported_by_path() -> None:
    text = "spec:\n  hostNetwork: true\n  hostNetwork: false\n"
    assert decode_yaml(text, Pod, FieldValidation.WARN).warnings == ('duplicate field "spec.hostNetwork"',)


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@dataclass(frozen=True)
class Refused:
    id: str
    text: str | bytes
    message: str


REFUSED = [
    Refused("a bomb of aliases", BOMB, "line 5: the document contains excessive aliasing"),
    Refused("an anchor within itself", "a: &a [*a]", "line 1: anchor 'a' value contains itself"),
    Refused("an unknown anchor", "a: 1\nb: *x", "line 2: unknown anchor 'x' referenced"),
    Refused("deep nesting", "[" * 100_000, "line 1: nested more than 200 levels deep"),
    Refused("deep nesting in block style", "- " * 10_000, "line 1: nested more than 200 levels deep"),
    Refused(
        "a tag of Python",
        "a: !!python/name:os.system x",
        "line 1: the tag tag:yaml.org,2002:python/name:os.system is not supported",
    ),
    Refused("a tag of one's own", "a: !mine x", "line 1: the tag !mine is not supported"),
    Refused("a tag that does not fit", "a: !!int x", "line 1: cannot decode 'x' as a int"),
    Refused("infinity", "a: -.inf", "line 1: -.inf is not a number of JSON"),
    Refused("not a number", "a: .nan", "line 1: .nan is not a number of JSON"),
    Refused("a list as key", "? [a]\n: b", "line 1: a key must be a scalar"),
    Refused("no key", "? ~\n: b", "line 1: a key must not be null"),
    Refused("a merge of no map", "<<: 1", "line 1: map merge requires map or sequence of maps as the value"),
    Refused("two colons", "a: 1\nb: c: d", "line 2: mapping values are not allowed in this context"),
    Refused("a tab", "a:\n\tb: 1", "line 2: found character that cannot start any token"),
    Refused("NUL", "a: \0", "invalid YAML: unacceptable character #x0000: control characters are not allowed"),
    Refused("invalid UTF-8", b"a: \xff", "invalid UTF-8 at byte 3"),
    Refused("half a surrogate pair", "a: \ud800", "half of a surrogate pair is not a character"),
    Refused("too much", "#" * (3 * 1024 * 1024 + 1), "limit is 3145728"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
@pytest.mark.req("S.6")
def test_bad_input_gets_a_clear_error(case: Refused) -> None:
    with pytest.raises(DecodeError) as caught:
        read_yaml(case.text)
    assert str(caught.value) == case.message


def test_an_error_knows_its_line() -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml("a: 1\nb: [")
    assert caught.value.line == 2


def test_one_document_is_expected_of_a_request() -> None:
    with pytest.raises(DecodeError, match="expected one YAML document, got 2"):
        decode_yaml("a: 1\n---\nb: 1\n", Pod)


def test_yaml_for_people() -> None:
    pod = decode_yaml(FILE.split("---")[2], Pod).object
    pod.metadata.labels = {"b": "yes", "a": "1", "y": "plain"}
    pod.metadata.annotations = {"text": "two\nlines\n"}
    assert (
        to_yaml([pod, ConfigMap(kind="ConfigMap")])
        == """\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    text: |
      two
      lines
  labels:
    a: "1"
    b: "yes"
    "y": plain
spec:
  containers:
  - image: i
    name: c
    resources: {}
  hostNetwork: true
status: {}
---
kind: ConfigMap
metadata: {}
"""
    )


def test_shared_values_are_written_out() -> None:
    shared = {"x": 1}
    assert write([{"a": shared, "b": shared}]) == "a:\n  x: 1\nb:\n  x: 1\n"
