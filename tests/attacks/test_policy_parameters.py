"""Policies disclose parameters only to users who may read them."""

from dataclasses import dataclass
from typing import Any

import pytest

from app_calls import Caller
from attack_users import MERGE, rule, user_with
from policy_objects import GROUP, mutating, validating

pytestmark = [pytest.mark.req("S.6"), pytest.mark.req("X.7", "X.8")]
_SORTS = ("validatingadmissionpolic", "mutatingadmissionpolic")
POLICIES = " ".join(f"{sort}{end}" for sort in _SORTS for end in ("ies", "ybindings"))
WRITE = rule("create update patch", POLICIES, "admissionregistration.k8s.io")
SECRETS = {"apiVersion": "v1", "kind": "Secret"}
NAMED = {"name": "key", "namespace": "default", "parameterNotFoundAction": "Deny"}
SELECTED = {"selector": {}, "parameterNotFoundAction": "Deny"}
DISCLOSES = "Object{metadata: Object.metadata{annotations: {'told': string(params.data.key)}}}"


@dataclass(frozen=True)
class Case:
    about: str
    rights: tuple[dict[str, Any], ...]
    policy: int
    binding: int
    reference: dict[str, Any]


CASES = [
    Case("who may read nothing", (), 422, 422, NAMED),
    Case("who may read the one Secret", (rule("get", "secrets", names="key"),), 422, 201, NAMED),
    Case("who may read another Secret", (rule("get", "secrets", names="other"),), 422, 422, NAMED),
    Case("who may read all Secrets", (rule("get", "secrets"),), 201, 201, NAMED),
    Case("who may read all Secrets but not list them", (rule("get", "secrets"),), 201, 422, SELECTED),
    Case("who may read and list all Secrets", (rule("get list", "secrets"),), 201, 201, SELECTED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
@pytest.mark.parametrize("sort", _SORTS)
async def test_parameters_are_used_by(call: Caller, case: Case, sort: str) -> None:
    policy, binding = validating("told", "false") if sort.startswith("validating") else mutating("told", DISCLOSES)
    policy["spec"]["paramKind"] = SECRETS
    binding["spec"]["paramRef"] = case.reference
    mallory = await user_with(call, WRITE, *case.rights)
    written = await mallory("POST", f"{GROUP}/{sort}ies", policy)
    assert (written.status, "spec.paramKind: Forbidden" in written.message) == (case.policy, case.policy == 422)
    if written.status != 201:
        assert (await call("POST", f"{GROUP}/{sort}ies", policy)).status == 201
    bound = await mallory("POST", f"{GROUP}/{sort}ybindings", binding)
    assert (bound.status, "spec.paramRef: Forbidden" in bound.message) == (case.binding, case.binding == 422)


async def test_a_binding_before_its_policy_takes_the_right_to_everything(call: Caller) -> None:
    _, binding = validating("later", "false", paramRef=NAMED)
    mallory = await user_with(call, WRITE, rule("get", "configmaps"))
    refused = await mallory("POST", f"{GROUP}/validatingadmissionpolicybindings", binding)
    assert (refused.status, "unable to get policy later" in refused.message) == (422, True)


async def test_what_was_allowed_before_may_be_changed_by_those_who_read_less(call: Caller) -> None:
    policy, _ = validating("told", "false", paramKind=SECRETS)
    path = f"{GROUP}/validatingadmissionpolicies"
    assert (await call("POST", path, policy)).status == 201
    mallory = await user_with(call, WRITE)
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert (await mallory("PATCH", f"{path}/told", patch, content_type=MERGE)).status == 200
    wider = {"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}
    assert (await mallory("PATCH", f"{path}/told", wider, content_type=MERGE)).status == 422
