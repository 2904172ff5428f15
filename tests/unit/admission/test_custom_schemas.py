"""Schemas of custom kinds are compiled as far as objects need them, however large or entangled they are."""

from typing import Any

import msgspec
import pytest

from mooring.admission.custom import rules, validation
from mooring.admission.custom.rules import ValidationRules
from mooring.admission.custom.validation import SchemaErrors, compile_schema
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.structural import Structural
from mooring.constraints.celenv.schemas import declare, is_declared


def schema_of(tree: dict[str, Any]) -> JSONSchemaProps:
    return msgspec.convert(tree, JSONSchemaProps)


@pytest.mark.req("X.11")
def test_conditions_in_conditions_are_compiled_once_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[JSONSchemaProps] = []
    checks_for = validation._build_checks_for

    def counted(cls: type, schema: JSONSchemaProps) -> list[validation.Check]:
        made.append(schema)
        return checks_for(cls, schema)

    monkeypatch.setattr(validation, "_build_checks_for", counted)
    tree: dict[str, Any] = {"maxLength": 3}
    for _ in range(40):
        tree = {"anyOf": [tree]}
    check = compile_schema(schema_of({"type": "string", **tree}))
    found = SchemaErrors(None)
    for text in ("abc", "abcd"):
        check(text, None, found)
    assert found.errors
    assert len(made) == 41


@pytest.mark.req("X.2")
def test_rules_are_compiled_when_an_object_has_what_they_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_rules = rules._compile_rules

    def counted(schema: JSONSchemaProps, declared: Any) -> Any:
        compiled.extend(rule.rule for rule in schema.validations)
        return compile_rules(schema, declared)

    monkeypatch.setattr(rules, "_compile_rules", counted)
    size = {"type": "object", "properties": {"n": {"type": "integer"}}}
    fields = {
        "one": {**size, "x-kubernetes-validations": [{"rule": "self.n > 1"}]},
        "many": {"type": "array", "items": {**size, "x-kubernetes-validations": [{"rule": "self.n > 2"}]}},
        "never": {**size, "x-kubernetes-validations": [{"rule": "self.n > 3"}]},
    }
    found = ValidationRules(Structural(schema_of({"type": "object", "properties": fields}), root=True))
    errors = found.validate({"one": {"n": 1}, "many": [{"n": 3}, {"n": 2}]}, None)
    assert [str(error.path) for error in errors] == ["one", "many[1]"]
    assert compiled == ["self.n > 1", "self.n > 2"]


@pytest.mark.req("X.2")
@pytest.mark.parametrize(
    "tree",
    [
        {"type": "string"},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "array"},
        {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}},
        {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "array"}}},
    ],
    ids=str,
)
def test_whether_expressions_see_a_schema_is_known_without_looking_at_all_of_it(tree: dict[str, Any]) -> None:
    schema = schema_of(tree)
    assert is_declared(schema) is (declare(schema) is not None)
