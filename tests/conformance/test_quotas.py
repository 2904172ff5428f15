"""What ResourceQuotas make of requests, and what their status says, word by word as Kubernetes answered.

The recordings are made by ``recording/quotas.py``.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running

RECORDED = Path(__file__).parent / "data" / "api" / "quotas.jsonl"
MADE_UP = "x-"
Tree = dict[str, Any]


def said(code: int, body: Tree) -> Tree:
    """Return the part of an answer that depends on quotas. Generated names differ from run to run."""
    if body.get("kind") == "Status" and code >= 400:
        words = body["message"].split('"')
        if len(words) > 1 and words[1].startswith(MADE_UP):
            words[1] = MADE_UP
        return {"code": code, "message": '"'.join(words), "reason": body["reason"]}
    return {"code": code, "status": body["status"]} if body.get("kind") == "ResourceQuota" else {"code": code}


async def answered(call: Caller, case: Tree, wanted: Tree) -> Tree:
    """Return the answer to a request; one that may take a moment to settle is asked for again and again."""
    query = f"?{case['query']}" if case.get("query") else ""
    content_type = case.get("content_type", "application/json")
    tries = 100 if case.get("settles") else 1
    while True:
        answer = await call(case["method"], case["path"] + query, case["body"], content_type=content_type)
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


@pytest.mark.req("X.10")
def test_every_recorded_request_is_answered_word_by_word(tmp_path: Path) -> None:
    cases = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert asyncio.run(differences(tmp_path, cases)) == []
    assert len(cases) >= 160
