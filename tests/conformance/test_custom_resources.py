"""Definitions of custom kinds and their objects, as Kubernetes answered them, sent to a server that runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mooring.api import codec
from mooring.api.errors import StatusError
from mooring.testing.control_plane import RunningControlPlane
from mooring.testing.replay import Result, api

DATA = Path(__file__).parent / "data" / "api" / "custom-resources.jsonl"


@pytest.fixture(scope="module")
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(without=("scheduler", "controllers", "nodes")) as running:
        yield running


def answer_of(plane: RunningControlPlane, case: api.Case) -> api.Answer:
    """Return what the server says to a recorded request."""
    body = b"" if case.body is None else json.dumps(case.body).encode()
    query = parse_qsl(case.query)
    call = plane.client.raw(case.method, case.path, query=query, body=body, content_type=case.content_type)
    try:
        given = plane.run(call)
    except StatusError as error:
        return api.Answer(error.status.code, json.loads(codec.encode(error.status)))
    return api.Answer(given.status, json.loads(given.body))


@pytest.mark.req("X.1", "X.2", "X.3")
def test_every_recorded_request_is_answered_as_recorded(plane: RunningControlPlane) -> None:
    result: Result = api.replay(DATA, lambda case: answer_of(plane, case))
    assert result.failed == []
    assert result.passed > 250
