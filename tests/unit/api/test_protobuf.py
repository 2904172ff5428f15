"""Objects in Kubernetes' protobuf encoding: messages that kubectl sent, and messages made here."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.advisor_v1 import Audit
from mooring.api.codec import DecodeError, FieldValidation, Unsupported
from mooring.api.core_v1 import ConfigMap, Event, Pod
from mooring.api.kinds import KINDS, Kind
from mooring.api.meta_v1 import DeleteOptions
from mooring.api.policy_v1 import PodDisruptionBudget

pytestmark = pytest.mark.req("S.1")
SENT = json.loads((Path(__file__).parent / "protobuf-messages.json").read_text())


def _kind(api_version: str, name: str) -> Kind:
    return next(kind for kind in KINDS if (kind.api_version, kind.kind) == (api_version, name))


@pytest.mark.parametrize("case", SENT, ids=lambda case: case["command"])
def test_a_message_of_kubectl_says_what_its_json_would(case: dict[str, Any]) -> None:
    wanted = case["object"]
    kind = _kind(wanted["apiVersion"], wanted["kind"])
    decoded = codec.decode_protobuf(b64decode(case["message"]), kind.type).object
    assert decoded == codec.decode(json.dumps(wanted).encode(), kind.type).object


# -- messages made here


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _body(api_version: str, kind: str, message: bytes) -> bytes:
    meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, meta) + _field(2, message)


def _pod(spec: bytes = b"", metadata: bytes = b"") -> Pod:
    message = _field(1, metadata) + _field(2, spec)
    return codec.decode_protobuf(_body("v1", "Pod", message), Pod).object


def test_times_are_text_and_no_time_is_none() -> None:
    seconds = _field(8, _field(1, 1_700_000_000))
    assert _pod(metadata=seconds).metadata.creation_timestamp == "2023-11-14T22:13:20Z"
    assert _pod(metadata=_field(8, b"")).metadata.creation_timestamp is None
    message = _field(10, _field(1, 1_700_000_000) + _field(2, 123_456_789))
    event = codec.decode_protobuf(_body("v1", "Event", message), Event).object
    assert event.event_time == "2023-11-14T22:13:20.123456Z"


def test_what_go_embeds_belongs_to_the_type_around_it() -> None:
    secret = _field(6, _field(1, b"s3"))
    spec = _field(1, _field(1, b"v") + _field(2, secret))
    (volume,) = _pod(spec).spec.volumes
    assert volume.name == "v"
    assert volume.secret is not None
    assert volume.secret.secret_name == "s3"


def test_negative_numbers_lists_and_maps() -> None:
    toleration = _field(1, b"k") + _field(5, -3)
    spec = _field(22, toleration) + _field(22, _field(1, b"l")) + _field(7, _field(1, b"zone") + _field(2, b"a"))
    pod = _pod(spec)
    assert [(each.key, each.toleration_seconds) for each in pod.spec.tolerations] == [("k", -3), ("l", None)]
    assert pod.spec.node_selector == {"zone": "a"}


def test_a_number_or_a_text() -> None:
    def budget(value: bytes) -> int | str | None:
        message = _field(2, _field(1, value))
        body = _body("policy/v1", "PodDisruptionBudget", message)
        return codec.decode_protobuf(body, PodDisruptionBudget).object.spec.min_available

    assert budget(_field(1, 0) + _field(2, 3)) == 3
    assert budget(_field(1, 1) + _field(3, b"25%")) == "25%"


def test_bytes_and_empty_values_of_maps() -> None:
    message = _field(3, _field(1, b"b") + _field(2, b"\x00\xff")) + _field(2, _field(1, b"empty"))
    found = codec.decode_protobuf(_body("v1", "ConfigMap", message), ConfigMap).object
    assert (found.binary_data, found.data) == ({"b": b"\x00\xff"}, {"empty": ""})


def test_times_in_a_map() -> None:
    disrupted = _field(1, b"web-1") + _field(2, _field(1, 1_800_000_000))
    body = _body("policy/v1", "PodDisruptionBudget", _field(3, _field(2, disrupted)))
    budget = codec.decode_protobuf(body, PodDisruptionBudget).object
    assert budget.status.disrupted_pods == {"web-1": "2027-01-15T08:00:00Z"}


def test_options_of_a_deletion() -> None:
    body = _body("v1", "DeleteOptions", _field(1, 0) + _field(4, b"Foreground"))
    options = codec.decode_protobuf(body, DeleteOptions).object
    assert (options.grace_period_seconds, options.propagation_policy) == (0, "Foreground")


def test_an_unknown_number_is_an_unknown_field() -> None:
    body = _body("v1", "Pod", _field(2, _field(999, b"x")))
    with pytest.raises(DecodeError, match=r'unknown field "spec.#999"'):
        codec.decode_protobuf(body, Pod)
    assert codec.decode_protobuf(body, Pod, FieldValidation.WARN).warnings == ('unknown field "spec.#999"',)
    assert codec.decode_protobuf(body, Pod, FieldValidation.IGNORE).warnings == ()


@pytest.mark.req("5500.1")
def test_the_fields_of_kep_5500_have_its_numbers() -> None:
    term = _field(3, b"node.labels['a'] == 'b'") + _field(3, b"false")
    affinity = _field(1, _field(1, _field(1, term)))
    toleration = _field(5, 30) + _field(6, b"taint.key == 'sla'")
    spec = _pod(_field(18, affinity) + _field(22, toleration)).spec
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert [each.match_cel_expressions for each in required.node_selector_terms] == [
        ["node.labels['a'] == 'b'", "false"]
    ]
    assert [(each.expression, each.toleration_seconds) for each in spec.tolerations] == [("taint.key == 'sla'", 30)]


_UNKNOWN = _field(99, b"x")
_TERM = _field(1, _UNKNOWN)  # the first field of each of these is a term, or a list of them


@pytest.mark.req("5500.1")
@pytest.mark.parametrize("validation", FieldValidation)
@pytest.mark.parametrize(
    ("spec", "where"),
    [
        (_field(22, _UNKNOWN), "core.v1.Toleration"),
        (_field(18, _UNKNOWN), "core.v1.Affinity"),
        (_field(18, _field(1, _UNKNOWN)), "core.v1.NodeAffinity"),
        (_field(18, _field(1, _field(1, _UNKNOWN))), "core.v1.NodeSelector"),
        (_field(18, _field(1, _field(1, _TERM))), "core.v1.NodeSelectorTerm"),
        (_field(18, _field(1, _field(1, _field(1, _TERM)))), "core.v1.NodeSelectorRequirement"),
        (_field(18, _field(1, _field(2, _UNKNOWN))), "core.v1.PreferredSchedulingTerm"),
        (_field(18, _field(2, _UNKNOWN)), "core.v1.PodAffinity"),
        (_field(18, _field(2, _TERM)), "core.v1.PodAffinityTerm"),
        (_field(18, _field(2, _field(2, _UNKNOWN))), "core.v1.WeightedPodAffinityTerm"),
        (_field(18, _field(3, _UNKNOWN)), "core.v1.PodAntiAffinity"),
        (_field(33, _UNKNOWN), "core.v1.TopologySpreadConstraint"),
        (_field(33, _field(4, _UNKNOWN)), "meta.v1.LabelSelector"),
        (_field(33, _field(4, _field(2, _UNKNOWN))), "meta.v1.LabelSelectorRequirement"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_field_in_a_constraint_is_always_refused(
    spec: bytes, where: str, validation: FieldValidation
) -> None:
    with pytest.raises(DecodeError, match=rf"unknown field 99 in {where}: a constraint is not read in part"):
        codec.decode_protobuf(_body("v1", "Pod", _field(2, spec)), Pod, validation)


def test_a_type_that_kubernetes_does_not_have_is_not_read() -> None:
    with pytest.raises(Unsupported):
        codec.decode_protobuf(_body("advisor.mooring.dev/v1", "Audit", b""), Audit)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s\x00\x0a", "cut off"),
        (b"k8s\x00" + b"\xff" * 12, "too long"),
        (b"k8s\x00\x0f", "wire type 7 is not known"),
        (_body("v1", "Pod", _field(2, 7)), "a number where bytes are expected"),
        (_body("v1", "Pod", _field(2, _field(25, b"x"))), "bytes where a number is expected"),
        (_body("v1", "Pod", _field(2, _field(10, b"\xff"))), "not UTF-8"),
        (_body("v1", "Pod", _field(1, _field(8, _field(1, 1 << 62)))), "out of range"),
    ],
)
def test_what_is_wrong_is_reported(body: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        codec.decode_protobuf(body, Pod)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_are_an_object_or_an_error(noise: bytes) -> None:
    try:
        codec.decode_protobuf(_body("v1", "Pod", noise), Pod, FieldValidation.IGNORE)
    except DecodeError:
        return


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_is_in_the_table(kind: Kind) -> None:
    body = _body(kind.api_version, kind.kind, b"")
    decoded = codec.decode_protobuf(body, kind.type).object
    assert isinstance(decoded, msgspec.Struct)
