"""Writing the status of many claims: one call with an outcome for each, where the server has it."""

import json

import pytest

from client_fakes import Answer, FakeTransport, json_response, lost
from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.resource_v1 import ResourceClaim
from mooring.client import BulkClaims, Client, TransportError
from mooring.client.transport import Request
from mooring.testing.builders import made


def claim(name: str) -> ResourceClaim:
    metadata = {"name": name, "namespace": "prod", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}}
    status: dict[str, object] = {"allocation": {"devices": {"results": []}}}
    return made(ResourceClaim, {"metadata": metadata, "spec": {}, "status": status})


def bulk_against(answer: Answer) -> tuple[BulkClaims, FakeTransport]:
    transport = FakeTransport(lambda _request: answer)
    return BulkClaims(Client(transport, user_agent="t")), transport


async def test_written_claims_have_their_new_version_and_the_finalizer() -> None:
    conflict = json.loads(codec.encode(errors.conflict("resourceclaims", "b").status))
    success = {"kind": "Status", "status": "Success", "metadata": {"resourceVersion": "9"}}
    bulk, transport = bulk_against(json_response({"kind": "StatusList", "items": [success, conflict]}))
    outcomes = await bulk.update_status([claim("a"), claim("b")])
    assert outcomes is not None
    written, refused = outcomes
    assert isinstance(written, ResourceClaim)
    assert written.metadata.resource_version == "9"
    assert written.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
    assert written.metadata.labels == {"a": "b"}
    assert isinstance(refused, errors.Conflict)
    [request] = transport.requests
    assert (request.method, request.path) == ("PUT", "/apis/resource.k8s.io/v1/resourceclaims/-/status")
    assert "labels" not in json.loads(request.body)["items"][0]["metadata"], "only what counts is sent"


@pytest.mark.parametrize("answer", [errors.not_found("x", "y"), errors.method_not_allowed("update", "x")])
async def test_a_server_without_the_call_is_not_asked_again(answer: StatusError) -> None:
    bulk, _ = bulk_against(answer)
    assert await bulk.update_status([claim("a")]) is None
    assert not bulk.is_offered


async def test_an_answer_of_another_length_says_nothing_about_any() -> None:
    bulk, _ = bulk_against(json_response({"kind": "StatusList", "items": []}))
    assert [type(outcome).__mro__[1] for outcome in await bulk.update_status([claim("a")]) or []] == [TransportError]


async def test_a_lost_answer_is_the_outcome_of_all() -> None:
    def lose(_request: Request) -> Answer:
        return lost()

    bulk = BulkClaims(Client(FakeTransport(lose), user_agent="t"))
    outcomes = await bulk.update_status([claim("a"), claim("b")])
    assert outcomes is not None
    assert all(isinstance(outcome, TransportError) for outcome in outcomes)
    assert bulk.is_offered
