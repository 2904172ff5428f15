"""Webhook configurations and what webhooks do to requests, as Kubernetes answered them, asked of a server that runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mooring.api import codec
from mooring.api.errors import StatusError
from mooring.testing.control_plane import RunningControlPlane
from scripted_webhook import ScriptedWebhook

Tree = dict[str, Any]
DATA = Path(__file__).parent / "data" / "api" / "webhooks.jsonl"
CASES: list[Tree] = [json.loads(line) for line in DATA.read_text().splitlines()]
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GO_WORDS = ("json: cannot unmarshal", "invalid character", "illegal base64", "no kind ", "unknown conversion")
"""How Go's libraries tell what cannot be decoded: only the words before them are compared."""


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedWebhook]:
    with ScriptedWebhook(tmp_path_factory.mktemp("webhook")) as running:
        yield running


@pytest.fixture(scope="module")
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(without=("scheduler", "controllers", "nodes")) as running:
        yield running


def ask(plane: RunningControlPlane, case: Tree) -> Tree:
    """Return what the server says to a request, in the form of a recorded answer."""
    body = b"" if case["body"] is None else json.dumps(case["body"]).encode()
    path, _, query = case["path"].partition("?")
    given = parse_qsl(case["query"] or query)
    content_type = case.get("contentType", "application/json")
    call = plane.client.raw(case["method"], path, query=given, body=body, content_type=content_type)
    try:
        answer = plane.run(call)
    except StatusError as error:
        return {"code": error.status.code, "body": json.loads(codec.encode(error.status))}
    return {"code": answer.status, "body": json.loads(answer.body)}


def shown(answer: Tree) -> Tree:
    """Return what of an answer is compared."""
    body = answer["body"]
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        causes = [(cause.get("reason"), cause.get("field")) for cause in details.get("causes") or ()]
        return {"code": answer["code"], "message": plain(body.get("message", "")), "causes": causes,
                "reason": body.get("reason", "")}  # fmt: skip
    metadata = body["metadata"]
    kept = {name: metadata.get(name) for name in ("labels", "generation", "annotations")}
    rest = {name: value for name, value in body.items() if name in ("data", "webhooks", "kind")}
    return {"code": answer["code"], **kept, **rest}


def as_far_as_recorded(wanted: Tree, got: Tree) -> Tree:
    """Return an answer without the texts of Go's libraries."""
    if "message" not in wanted or "message" not in got:
        return got
    return {**got, "message": got["message"][: len(wanted["message"])]} if wanted["message"].endswith(": ") else got


def plain(message: str) -> str:
    for words in _GO_WORDS:
        message = message.partition(words)[0]
    return _UID.sub("UID", message)


def differences(webhook: ScriptedWebhook, plane: RunningControlPlane, cases: list[Tree]) -> list[str]:
    found = []
    for case in cases:
        sent = json.loads(webhook.named(json.dumps(case)))
        given = json.loads(webhook.unnamed(json.dumps(ask(plane, sent))))
        wanted = shown(case["response"])
        got = as_far_as_recorded(wanted, shown(given))
        if wanted != got:
            found.append(f"{case['id']}:\n    {wanted}\n    {got}")
    return found


@pytest.mark.req("X.9")
def test_configurations_are_validated_as_recorded(webhook: ScriptedWebhook, plane: RunningControlPlane) -> None:
    cases = [case for case in CASES if not case["id"].startswith(("call-", "see"))]
    assert len(cases) > 150
    found = differences(webhook, plane, cases)
    assert not found, "\n".join(found)


def reported(reviews: list[Tree]) -> list[Tree]:
    """Return what of reviews is compared: all but what stands in objects, whose names and versions count."""
    found = []
    for review in reviews:
        request = {key: value for key, value in review["request"].items() if key not in ("uid", "userInfo")}
        for name in ("object", "oldObject"):
            request[name] = _outline(request.get(name))
        request["name"] = re.sub("made-.*", "made-", request.get("name", ""))
        found.append({**review, "request": request})
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))  # validating webhooks are called at once


def _outline(obj: Tree | None) -> Any:
    if not obj or "metadata" not in obj:
        return obj
    metadata = {key: obj["metadata"].get(key) for key in ("generateName", "namespace")}
    return obj["kind"], obj["apiVersion"], metadata, sorted({*obj} - {"status"})


@pytest.mark.req("X.9")
def test_webhooks_are_sent_what_was_recorded(webhook: ScriptedWebhook, plane: RunningControlPlane) -> None:
    found = []
    for case in (case for case in CASES if case["id"].startswith("see")):
        webhook.reviews.clear()
        given = ask(plane, json.loads(webhook.named(json.dumps(case))))
        wanted, got = reported(case.get("reviews", [])), reported(webhook.reviews)
        if case["id"].startswith("seen-") and wanted != got:
            found.append(f"{case['id']} ({given['code']}):\n    {wanted}\n    {got}")
    assert not found, "\n".join(found)


@pytest.mark.req("X.9")
def test_requests_that_webhooks_have_a_say_in_are_answered_as_recorded(
    webhook: ScriptedWebhook, plane: RunningControlPlane
) -> None:
    cases = [case for case in CASES if case["id"].startswith("call-")]
    assert len(cases) > 80
    found = differences(webhook, plane, cases)
    assert not found, "\n".join(found)
