"""The status of ValidatingAdmissionPolicies: what the types of the kinds that they name say about their expressions."""

from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.admissionregistration_v1 import ValidatingAdmissionPolicy

pytestmark = pytest.mark.req("X.7")


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


async def test_what_is_right_has_no_warnings() -> None:
    async with control_plane("validatingadmissionpolicy-status") as plane:
        await policy(plane, "object.spec.template.spec.containers.all(c, c.image.contains(':'))")
        assert await warnings(plane) == {}
