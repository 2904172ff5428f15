"""Field paths, field errors and the Status made of them, in Kubernetes' words."""

from dataclasses import dataclass

import pytest

from mooring.api import errors, field_errors
from mooring.api.core_v1 import Taint
from mooring.api.core_v1.references import TypedLocalObjectReference
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.quantity import parse
from mooring.api.quoting import go_quote

SPEC = Path("spec")


def test_a_path_names_fields_items_and_keys() -> None:
    path = SPEC.child("containers").index(0).child("env", "value").key("a/b")
    assert str(path) == "spec.containers[0].env.value[a/b]"
    assert path == Path("spec.containers[0]").child("env").child("value").key("a/b")
    assert len({path, Path(str(path))}) == 1


@dataclass(frozen=True)
class Case:
    id: str
    error: FieldError
    text: str


CASES = [
    Case("required", field_errors.required(SPEC), "spec: Required value"),
    Case("required with a detail", field_errors.required(SPEC, "why"), "spec: Required value: why"),
    Case("a string is quoted", field_errors.invalid(SPEC, 'a"b\n٣', "why"), r'spec: Invalid value: "a\"b\n٣": why'),
    Case("a number is not", field_errors.invalid(SPEC, -1, "why"), "spec: Invalid value: -1: why"),
    Case("a boolean is not", field_errors.invalid(SPEC, True, "why"), "spec: Invalid value: true: why"),
    Case(
        "a map is JSON",
        field_errors.invalid(SPEC, {"b": "<", "a": "y"}, "why"),
        'spec: Invalid value: {"a":"y","b":"\\u003c"}: why',
    ),
    Case("a quantity is JSON", field_errors.invalid(SPEC, [parse("1Gi")], "why"), 'spec: Invalid value: ["1Gi"]: why'),
    Case(
        "a struct shows its fields by their names in Go",
        field_errors.duplicate(SPEC, Taint(key="a", value="951", effect="NoSchedule"), "must be unique"),
        'spec: Duplicate value: {"Key":"a","Value":"951","Effect":"NoSchedule","TimeAdded":null}: must be unique',
    ),
    Case(
        "a field that begins with an acronym",
        field_errors.invalid(SPEC, TypedLocalObjectReference(api_group="g", kind="K", name="n"), "why"),
        'spec: Invalid value: {"APIGroup":"g","Kind":"K","Name":"n"}: why',
    ),
    Case("a duplicate", field_errors.duplicate(SPEC, "a/b"), 'spec: Duplicate value: "a/b"'),
    Case(
        "supported values are listed in their order",
        field_errors.not_supported(SPEC, "Gt", ["Equal", "Exists"]),
        'spec: Unsupported value: "Gt": supported values: "Equal", "Exists"',
    ),
    Case(
        "nothing where something is needed",
        field_errors.not_supported(SPEC, None, ["storage"]),
        'spec: Unsupported value: null: supported values: "storage"',
    ),
    Case("forbidden", field_errors.forbidden(SPEC, "why"), "spec: Forbidden: why"),
    Case("not found", field_errors.not_found(SPEC, "x"), 'spec: Not found: "x"'),
    Case("too long", field_errors.too_long(SPEC, 63), "spec: Too long: may not be more than 63 bytes"),
    Case("too many", field_errors.too_many(SPEC, 9, 8), "spec: Too many: 9: must have at most 8 items"),
    Case("too many of one", field_errors.too_many(SPEC, 2, 1), "spec: Too many: 2: must have at most 1 item"),
    Case("internal", field_errors.internal(SPEC, "why"), "spec: Internal error: why"),
    Case("a wrong type", field_errors.type_invalid(SPEC, 5, "why"), "spec: Invalid value: 5: why"),
    Case("no path", field_errors.invalid(None, "x", "why"), '<nil>: Invalid value: "x": why'),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_texts(case: Case) -> None:
    assert str(case.error) == case.text


@pytest.mark.req("S.1")
def test_an_invalid_object_is_reported_with_a_cause_for_each_field() -> None:
    wrong = [field_errors.required(SPEC.child("a")), field_errors.invalid(SPEC.child("b"), 0, "must be positive")]
    status = errors.invalid("Deployment", "web", wrong, group="apps").status
    assert status.message == (
        'Deployment.apps "web" is invalid: [spec.a: Required value, spec.b: Invalid value: 0: must be positive]'
    )
    assert (status.status, status.reason, status.code) == ("Failure", "Invalid", 422)
    assert status.details is not None
    assert (status.details.name, status.details.group, status.details.kind) == ("web", "apps", "Deployment")
    assert [(cause.reason, cause.field, cause.message) for cause in status.details.causes] == [
        ("FieldValueRequired", "spec.a", "Required value"),
        ("FieldValueInvalid", "spec.b", "Invalid value: 0: must be positive"),
    ]


def test_one_error_stands_without_brackets_and_equal_ones_are_reported_once() -> None:
    wrong = field_errors.required(SPEC)
    assert errors.invalid("Pod", "p", [wrong, wrong]).status.message == 'Pod "p" is invalid: spec: Required value'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", '"a"'),
        ("\x00\x7f", r'"\x00\x7f"'),
        ("é \u200b", '"é \\u200b"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\\", r'"\\"'),
    ],
    ids=repr,
)
def test_quoting(text: str, expected: str) -> None:
    assert go_quote(text) == expected
