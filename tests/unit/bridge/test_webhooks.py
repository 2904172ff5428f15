"""What the bridge's webhooks answer to AdmissionReviews."""

import base64
import json
from typing import Any

import pytest

from mooring.api import codec
from mooring.bridge.webhooks import PodReviews, ReviewError, encode_review, parse_review
from mooring.constraints import annotations
from mooring.testing.builders import pod

GOOD = {annotations.TOLERATIONS: '[{"key": "sla", "operator": "Gt", "value": "950"}]'}
BAD = {annotations.TOLERATIONS: '[{"key": "sla", "operator": "Gt", "value": "0950"}]'}


def tree(given: dict[str, str], gates: list[str] | None = None) -> dict[str, Any]:
    made = pod("web")
    made.metadata.annotations = dict(given)
    found: dict[str, Any] = codec.to_tree(made)
    if gates:
        found["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return found


@pytest.mark.req("B.1", "B.6")
@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (tree({}), None, (True, [])),
        (
            tree(GOOD),
            None,
            (True, [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": annotations.GATE}]}]),
        ),
        (
            tree(GOOD, ["x"]),
            None,
            (True, [{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": annotations.GATE}}]),
        ),
        (tree(GOOD, [annotations.GATE]), None, (True, [])),
        (tree(BAD), None, (False, '[constraints.mooring.dev/tolerations][0].value: Invalid value: "0950"')),
        (tree(GOOD), tree(GOOD), (True, [])),
        (tree({}), tree(GOOD), (False, "cannot be changed once it is released")),
        (tree({}, [annotations.GATE]), tree(GOOD, [annotations.GATE]), (True, [])),
        (tree(BAD, [annotations.GATE]), tree(GOOD, [annotations.GATE]), (False, "0950")),
    ],
    ids=[
        "a pod without constraints",
        "constraints bring the gate",
        "beside other gates",
        "a pod that has the gate",
        "constraints that are not valid",
        "a change of something else",
        "constraints changed on a released pod",
        "constraints changed on a gated pod",
        "to ones that are not valid",
    ],
)
async def test_pods(new: dict[str, Any], old: dict[str, Any] | None, expected: tuple[bool, Any]) -> None:
    found = await PodReviews().review({"object": new, "oldObject": old})
    assert found["allowed"] == expected[0]
    if expected[0]:
        patch = json.loads(base64.b64decode(found["patch"])) if "patch" in found else []
        assert patch == expected[1]
    else:
        assert expected[1] in found["status"]["message"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"request": 5}', b"\xff", b"[" * 100_000])
def test_what_is_no_review_is_reported(body: bytes) -> None:
    with pytest.raises(ReviewError, match="no AdmissionReview"):
        parse_review(body)


async def test_an_object_that_is_none_is_reported() -> None:
    with pytest.raises(ReviewError, match=r"request\.object"):
        await PodReviews().review({"object": {"spec": 5}})


def test_the_answer_names_the_request() -> None:
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}}).encode()
    _, uid, version = parse_review(body)
    assert json.loads(encode_review({"allowed": True}, uid, version)) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }
