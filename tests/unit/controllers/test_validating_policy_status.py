"""The status of ValidatingAdmissionPolicies: what the types of the kinds that they name say about their expressions."""

from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from custom_api import definition
from mooring.api.admissionregistration_v1 import ValidatingAdmissionPolicy
from mooring.api.apiextensions_v1 import CustomResourceDefinition

pytestmark = pytest.mark.req("X.7")
CUSTOM = "stable.example.com"


async def policy(plane: ControlPlane, *expressions: str, **spec: Any) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    said = {"matchConstraints": {"resourceRules": [rule]}, **spec}
    said["validations"] = [{"expression": each} for each in expressions]
    await plane.create(ValidatingAdmissionPolicy, metadata={"name": "p"}, spec=said)


async def warnings(plane: ControlPlane) -> dict[str, str]:
    await plane.run(0)
    found = await plane.client.get(ValidatingAdmissionPolicy, "p")
    assert found.status.observed_generation == found.metadata.generation
    assert found.status.type_checking is not None
    return {each.field_ref: each.warning for each in found.status.type_checking.expression_warnings}


async def test_wrong_types_and_unknown_fields_are_warned_of() -> None:
    async with control_plane("validatingadmissionpolicy-status") as plane:
        await policy(plane, "object.spec.replicas > '1'", "object.spec.replicas > 1", "object.foo == 1")
        found = await warnings(plane)
        assert list(found) == ["spec.validations[0].expression", "spec.validations[2].expression"]
        assert found["spec.validations[2].expression"] == (
            "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 1\n | ......^\n"
        )


async def test_variables_and_parameters_have_types_too() -> None:
    async with control_plane("validatingadmissionpolicy-status") as plane:
        variables = [{"name": "n", "expression": "object.spec.replicas"}]
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await policy(plane, "variables.n == 'x'", "params.data.a == 1", variables=variables, paramKind=kind)
        assert len(await warnings(plane)) == 2


@pytest.mark.parametrize(
    ("expression", "warning"),
    [
        pytest.param("object.spec.replicas > 1", "", id="a field of the schema"),
        pytest.param("object.metadata.labels['a'] == 'b'", "", id="metadata that all objects have"),
        pytest.param("object.kind == 'CronTab'", "", id="what the object is"),
        pytest.param("params.spec.cronSpec.startsWith('*')", "", id="a custom parameter"),
        pytest.param("object.spec.replicas > 'x'", "no matching overload", id="a type that does not fit"),
        pytest.param("object.spec.nothing == 1", "undefined field 'nothing'", id="a field that is not there"),
        pytest.param("params.spec.nothing == 1", "undefined field 'nothing'", id="one of a parameter"),
        pytest.param("object.metadata.nothing == 1", "undefined field 'nothing'", id="one of the metadata"),
    ],
)
async def test_custom_kinds_have_the_types_of_their_schemas(expression: str, warning: str) -> None:
    async with control_plane("validatingadmissionpolicy-status") as plane:
        crd = definition()
        await plane.create(CustomResourceDefinition, metadata=crd["metadata"], spec=crd["spec"])
        rule = {"apiGroups": [CUSTOM], "apiVersions": ["v1"], "operations": ["*"], "resources": ["crontabs"]}
        kind = {"apiVersion": f"{CUSTOM}/v1", "kind": "CronTab"}
        await policy(plane, expression, matchConstraints={"resourceRules": [rule]}, paramKind=kind)
        found = await warnings(plane)
        assert list(found) == (["spec.validations[0].expression"] if warning else [])
        for text in found.values():
            assert text.startswith(f"{CUSTOM}/v1, Kind=CronTab: ")
            assert warning in text


async def test_what_is_right_has_no_warnings() -> None:
    async with control_plane("validatingadmissionpolicy-status") as plane:
        await policy(plane, "object.spec.template.spec.containers.all(c, c.image.contains(':'))")
        assert await warnings(plane) == {}
