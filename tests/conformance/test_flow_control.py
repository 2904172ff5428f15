"""FlowSchemas and PriorityLevelConfigurations, word by word as Kubernetes answered.

The recordings are made by ``recording/flow_control.py``.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running

RECORDED = Path(__file__).parent / "data" / "api" / "flow-control.jsonl"
Tree = dict[str, Any]


def said(code: int, body: Tree) -> Tree:
    """Return an answer without what is not the same twice."""
    if body.get("kind") == "Status":
        return {"code": code, "message": body["message"], "causes": body["details"].get("causes")}
    meta = {key: body["metadata"].get(key) for key in ("name", "annotations", "generation")}
    for condition in body.get("status", {}).get("conditions", []):
        condition.pop("lastTransitionTime", None)
    return {"code": code, "metadata": meta, "spec": body["spec"], "status": body.get("status")}


async def answered(call: Caller, case: Tree, wanted: Tree) -> Tree:
    """Return the answer to a request; reads are repeated until the server has done what it does by itself."""
    tries = 100 if case["method"] == "GET" else 1
    content_type = case.get("content_type", "application/json")
    while True:
        answer = await call(case["method"], case["path"], case["body"], content_type=content_type)
        given, tries = said(answer.status, answer.json), tries - 1
        if given == wanted or not tries:
            return given
        await asyncio.sleep(0.02)


async def differences(directory: Path, cases: list[Tree]) -> list[tuple[str, Tree, Tree]]:
    found = []
    async with running(directory) as server:
        call = Caller(server.app, ADMIN)
        for case in cases:
            wanted = said(case["response"]["code"], case["response"]["body"])
            given = await answered(call, case, wanted)
            if given != wanted:
                found.append((case["id"], given, wanted))
    return found


@pytest.mark.req("N.10")
def test_every_recorded_request_is_answered_word_by_word(tmp_path: Path) -> None:
    cases = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert asyncio.run(differences(tmp_path, cases)) == []
    assert len(cases) >= 50
