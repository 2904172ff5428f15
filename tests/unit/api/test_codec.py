"""Decoding and encoding: what is tolerated, what is refused and in which words, and that nothing is lost."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from mooring.api import codec
from mooring.api.codec import DecodeError, FieldValidation, TooLargeError, decode, decode_kind, decode_own, encode
from mooring.api.core_v1 import ConfigMap, Pod, Secret
from mooring.api.dynamic import dynamic_type
from mooring.api.json_tree import MAX_BYTES
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import parse
from mooring.api.structural import NOTHING

STRANGE = b'{"spec":{"foo":1,"containers":[{"imag":"x","name":"c"}],"hostNetwork":false,"hostNetwork":true}}'
FOUND = ('unknown field "spec.foo"', 'unknown field "spec.containers[0].imag"', 'duplicate field "spec.hostNetwork"')


@pytest.mark.req("S.1")
def test_strict_refuses_unknown_and_repeated_fields_and_names_them_all() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(STRANGE, Pod)
    assert str(caught.value) == f"strict decoding error: {', '.join(FOUND)}"


@pytest.mark.req("S.1")
def test_warn_reports_them_and_keeps_the_last() -> None:
    decoded = decode(STRANGE, Pod, FieldValidation.WARN)
    assert decoded.warnings == FOUND
    assert decoded.object.spec.host_network is True
    assert decoded.object.spec.containers[0].name == "c"


@pytest.mark.req("S.1")
def test_ignore_says_nothing() -> None:
    decoded = decode(STRANGE, Pod, FieldValidation.IGNORE)
    assert decoded.warnings == ()
    assert decoded.object.spec.host_network is True


@dataclass(frozen=True)
class Repeated:
    id: str
    body: bytes
    field: str | None


REPEATED = [
    Repeated("a field", b'{"kind":"a","kind":"b"}', "kind"),
    Repeated("a field with space around the colon", b'{"kind" : "a", "kind":"b"}', "kind"),
    Repeated("a field behind a line end", b'{"kind"\n:"a","kind"\n:"b"}', "kind"),
    Repeated("a field written with an escape", b'{"kind":"a","k\\u0069nd":"b"}', "kind"),
    Repeated("a label", b'{"metadata":{"labels":{"a":"b","a":"b"}}}', "metadata.labels.a"),
    Repeated(
        "a key that ends in a backslash", b'{"metadata":{"labels":{"a":"b","a":"b","c\\\\":"d"}}}', "metadata.labels.a"
    ),
    Repeated(
        "a label with a value that looks like a key", b'{"metadata":{"labels":{"a":"1","a":":"}}}', "metadata.labels.a"
    ),
    Repeated(
        "a field of an owner",
        b'{"metadata":{"ownerReferences":[{"uid":"a","uid":"b"}]}}',
        "metadata.ownerReferences[0].uid",
    ),
    Repeated("text with JSON in it", b'{"metadata":{"annotations":{"a":"{\\"b\\":1,\\"b\\":2}"}}}', None),
    Repeated("equal fields of different objects", b'{"metadata":{"name":"a","labels":{"name":"a"}}}', None),
    Repeated("a value that begins with a colon", b'{"metadata":{"name":":a"}}', None),
]


@pytest.mark.parametrize("case", REPEATED, ids=lambda case: case.id)
def test_repeated_fields(case: Repeated) -> None:
    warnings = decode(case.body, Pod, FieldValidation.WARN).warnings
    assert warnings == ((f'duplicate field "{case.field}"',) if case.field else ())


@dataclass(frozen=True)
class Refused:
    id: str
    body: bytes
    message: str


REFUSED = [
    Refused("nothing", b"", "the input is empty"),
    Refused("an array", b"[]", "expected an object, got an array"),
    Refused("null", b"null", "expected an object, got null"),
    Refused("truncated", b'{"metadata":{', "invalid JSON: the input ends too early (line 1, column 14)"),
    Refused("a truncated string", b'{"kind":"Po', "invalid JSON: the input ends too early (line 1, column 9)"),
    Refused("more after the end", b'{"kind":"Pod"} x', "invalid JSON: extra data (line 1, column 16)"),
    Refused(
        "another quote",
        b"{'a':1}",
        "invalid JSON: expecting property name enclosed in double quotes (line 1, column 2)",
    ),
    Refused("invalid UTF-8", b'{"kind":"\xff"}', "invalid UTF-8 at byte 9"),
    Refused("a surrogate in UTF-8", b'{"kind":"\xed\xa0\x80"}', "invalid UTF-8 at byte 9"),
    Refused("half a surrogate pair", b'{"kind":"\\ud800"}', r"half of a surrogate pair (\ud800) is not a character"),
    Refused(
        "half a surrogate pair in a key",
        b'{"metadata":{"labels":{"\\uDFFF":""}}}',
        r"half of a surrogate pair (\udfff) is not a character",
    ),
    Refused("NUL", b'{"kind":"\x00"}', "invalid JSON: invalid control character at (line 1, column 10)"),
    Refused("not a number", b'{"spec":{"priority":NaN}}', "invalid JSON: NaN is not a number of JSON"),
    Refused("infinity", b'{"spec":{"priority":-Infinity}}', "invalid JSON: -Infinity is not a number of JSON"),
    Refused("a number beyond floats", b'{"spec":{"priority":1e400}}', "the number 1e400 is out of range"),
    Refused(
        "a number of many digits", b'{"spec":{"priority":' + b"9" * 9999 + b"}}", "a number of 9999 digits is too long"
    ),
    Refused(
        "an integer beyond its bits",
        b'{"spec":{"priority":2147483648}}',
        "spec.priority: expected a 32-bit integer, got the number 2147483648",
    ),
    Refused(
        "an integer beyond 64 bits",
        b'{"metadata":{"generation":9223372036854775808}}',
        "metadata.generation: expected a 64-bit integer, got the number 9223372036854775808",
    ),
    Refused("a fraction", b'{"spec":{"priority":1.0}}', "spec.priority: expected a 32-bit integer, got the number 1.0"),
    Refused(
        "a string for a list", b'{"spec":{"tolerations":"x"}}', "spec.tolerations: expected an array, got a string"
    ),
    Refused("a list for a map", b'{"metadata":{"labels":[]}}', "metadata.labels: expected an object, got an array"),
    Refused(
        "a number for a label",
        b'{"metadata":{"labels":{"a":1}}}',
        "metadata.labels.a: expected a string, got the number 1",
    ),
    Refused(
        "a boolean for a port",
        b'{"spec":{"containers":[{"livenessProbe":{"tcpSocket":{"port":true}}}]}}',
        "spec.containers[0].livenessProbe.tcpSocket.port: expected a 32-bit integer or a string, got a boolean",
    ),
    Refused(
        "a wrong quantity",
        b'{"spec":{"overhead":{"cpu":"1K"}}}',
        "spec.overhead.cpu: unable to parse quantity's suffix",
    ),
    Refused(
        "an object for a quantity",
        b'{"spec":{"overhead":{"cpu":{}}}}',
        "spec.overhead.cpu: expected a quantity, got an object",
    ),
    Refused(
        "several wrong types are all told",
        b'{"kind":1,"spec":{"nodeName":false}}',
        "kind: expected a string, got the number 1; spec.nodeName: expected a string, got a boolean",
    ),
    Refused("the case of letters counts", b'{"Kind":"Pod"}', 'strict decoding error: unknown field "Kind"'),
    Refused("deep nesting", b'{"metadata":' + b"[" * 7999, "nested more than 200 levels deep"),
    Refused("deep nesting of objects", b'{"a":' * 300 + b"1" + b"}" * 300, "nested more than 200 levels deep"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
@pytest.mark.req("S.6")
def test_bad_input_gets_a_clear_error(case: Refused) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(case.body, Pod)
    assert str(caught.value) == case.message


@pytest.mark.req("S.6")
def test_three_mebibytes_are_enough() -> None:
    filler = b" " * (MAX_BYTES - 2)
    assert decode(b"{" + filler + b"}", ConfigMap).object == ConfigMap()
    with pytest.raises(TooLargeError, match="limit is 3145728"):
        decode(b"{ " + filler + b"}", ConfigMap)


def test_many_brackets_are_not_deep_and_brackets_in_text_do_not_count() -> None:
    flat = {"data": {str(number): "[" * 300 for number in range(300)}}
    assert len(decode(json.dumps(flat).encode(), ConfigMap).object.data) == 300
    rows = {"spec": {"tolerations": [{"key": "a"}] * 300}}
    assert len(decode(json.dumps(rows).encode(), Pod).object.spec.tolerations) == 300


def test_null_is_absent_and_in_lists_and_maps_the_zero_value() -> None:
    body = b"""{"metadata": null, "spec": {"priority": null, "containers": [null, {"name": null}],
                "nodeSelector": {"a": null}, "overhead": {"cpu": null}}}"""
    pod = decode(body, Pod).object
    assert (pod.spec.priority, len(pod.spec.containers), pod.spec.containers[1].name) == (None, 2, "")
    assert (pod.spec.node_selector, pod.spec.overhead) == ({"a": ""}, {"cpu": parse("0")})


def test_a_quantity_may_be_a_number_and_is_written_in_canonical_form() -> None:
    pod = decode(b'{"spec":{"overhead":{"a":2,"b":0.5,"c":" 1000m ","d":1e3}}}', Pod).object
    assert json.loads(encode(pod))["spec"]["overhead"] == {"a": "2", "b": "500m", "c": "1", "d": "1k"}


def test_bytes_are_base64_which_may_be_broken_into_lines() -> None:
    assert decode(b'{"data":{"a":"aGVs\\nbG8=\\n"}}', Secret).object.data == {"a": b"hello"}
    assert encode(Secret(data={"a": b"hello"})) == b'{"metadata":{},"data":{"a":"aGVsbG8="}}'
    for wrong in (b'"aGVsbG8"', b'"a b="', '"é"'.encode(), b"1"):
        with pytest.raises(DecodeError, match=r"data\.a: expected a string in base64"):
            decode(b'{"data":{"a":%b}}' % wrong, Secret)


def test_values_of_any_shape_are_kept_as_they_are() -> None:
    fields = {"f:metadata": {"f:labels": {".": {}, "f:a": None}}, "x": [1, 1.5, "ü", True, None, 12345678901234567890]}
    body = json.dumps({"metadata": {"managedFields": [{"manager": "m", "fieldsV1": fields}]}}).encode()
    pod = decode(body, Pod).object
    assert json.loads(encode(pod))["metadata"]["managedFields"][0]["fieldsV1"] == fields


def test_the_type_is_found_by_version_and_kind() -> None:
    types: dict[tuple[str, str], Any] = {("v1", "Pod"): Pod, ("v1", "ConfigMap"): ConfigMap}

    def find(body: bytes) -> Any:
        return decode_kind(body, lambda version, kind: types.get((version, kind))).object

    assert isinstance(find(b'{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}'), ConfigMap)
    assert isinstance(find(b'{"apiVersion":"v1","kind":"Pod","spec":null}'), Pod)
    for body, message in [
        (b'{"apiVersion":"v1"}', "Object 'Kind' is missing"),
        (b'{"kind":"Pod"}', "Object 'apiVersion' is missing"),
        (b'{"kind":"Pod","apiVersion":null}', "Object 'apiVersion' is missing"),
        (b'{"kind":"Pod","apiVersion":1}', "apiVersion: expected a string"),
        (b'{"kind":"Pod","apiVersion":"v2"}', 'no kind "Pod" is registered for version "v2"'),
        (b"[]", "expected an object"),
    ]:
        with pytest.raises(DecodeError) as caught:
            find(body)
        assert str(caught.value) == message


def test_what_we_wrote_is_read_without_limits_and_unknown_fields_are_dropped() -> None:
    large = ConfigMap(data={"a": "x" * MAX_BYTES})
    assert decode_own(encode(large), ConfigMap) == large
    assert decode_own(b'{"data":{"a":"b"},"new":1}', ConfigMap) == ConfigMap(data={"a": "b"})


def test_a_tree_is_what_encode_writes() -> None:
    pod = decode(b'{"spec":{"overhead":{"cpu":"1500m"}}}', Pod).object
    assert codec.to_tree(pod) == json.loads(encode(pod))
    assert codec.from_tree(codec.to_tree(pod), Pod, FieldValidation.STRICT) == (pod, ())


def test_brackets_in_texts_are_no_nesting() -> None:
    name = b'[{\\"\\\\' * 300
    assert decode(b'{"metadata":{"name":"' + name + b'"}}', Pod).object.metadata.name == '[{"\\' * 300


@dataclass(frozen=True)
class FieldSet:
    id: str
    sent: bytes
    kept: bytes | None = None
    error: str = ""


_NOT_AN_OBJECT = r"metadata\.managedFields\[0\]\.fieldsV1: expected an object, got"
FIELD_SETS = [
    FieldSet("with spaces, compacted", b' { "f:spec" : { } } ', b'{"f:spec":{}}'),
    FieldSet("with a field twice, by the last", b'{"f:a":{},"f:a":{"f:b":{}}}', b'{"f:a":{"f:b":{}}}'),
    FieldSet("null, as none", b"null"),
    FieldSet("a list, refused", b"[1]", error=f"{_NOT_AN_OBJECT} an array"),
    FieldSet("a string, refused", b'"f:spec"', error=f"{_NOT_AN_OBJECT} a string"),
    FieldSet("not UTF-8, refused", b'{"f:\xff":{}}', error="UTF-8"),
    FieldSet("nested without end, refused", b'{"a":' * 2_000 + b"{}" + b"}" * 2_000, error="nested"),
]


@pytest.mark.parametrize("case", FIELD_SETS, ids=lambda case: case.id)
@pytest.mark.parametrize("cls", [Pod, dynamic_type("Thing", NOTHING)], ids=["built-in", "custom"])
def test_a_field_set_is(case: FieldSet, cls: type[Resource]) -> None:
    body = b'{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":%b}]}}' % case.sent
    if case.error:
        with pytest.raises(DecodeError, match=case.error):
            decode(body, cls, FieldValidation.IGNORE)
        return
    written = json.loads(encode(decode(body, cls, FieldValidation.IGNORE).object))
    expected = {"manager": "m"} if case.kept is None else {"manager": "m", "fieldsV1": json.loads(case.kept)}
    assert written["metadata"]["managedFields"] == [expected]
    if case.kept is not None:
        assert case.kept in encode(decode(body, cls, FieldValidation.IGNORE).object)
