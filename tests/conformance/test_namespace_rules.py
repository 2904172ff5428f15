"""What the rules of a namespace make of requests, word by word as Kubernetes answered them.

The recordings are made by ``recording/namespace_rules.py``.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from mooring.admission.limit_range import ANNOTATION

DATA = Path(__file__).parent / "data" / "api"
Tree = dict[str, Any]


def said(code: int, body: Tree, warnings: list[str]) -> Tree:
    """Of an answer, what the rules of a namespace have a say in."""
    if body.get("kind") == "Status":
        return {"code": code, "message": body["message"], "reason": body["reason"], "warnings": warnings}
    spec = body.get("spec", {})
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    resources = [each.get("resources") or {} for each in containers]
    annotation = (body["metadata"].get("annotations") or {}).get(ANNOTATION)
    return {"code": code, "annotation": annotation, "resources": resources, "warnings": warnings}


async def differences(directory: Path, cases: list[Tree]) -> list[tuple[str, Tree, Tree]]:
    found = []
    async with running(directory) as server:
        call = Caller(server.app, ADMIN)
        for case in cases:
            recorded = case["response"]
            wanted = said(recorded["code"], recorded["body"], recorded["warnings"])
            answer = await call(case["method"], case["path"], case["body"])
            given = said(answer.status, answer.json, answer.warnings)
            if given != wanted:
                found.append((case["id"], given, wanted))
    return found


@pytest.mark.req("X.10")
@pytest.mark.parametrize(("file", "count"), [("limits.jsonl", 40), ("pod-security.jsonl", 250)])
def test_every_recorded_request_is_answered_word_by_word(file: str, count: int, tmp_path: Path) -> None:
    cases = [json.loads(line) for line in (DATA / file).read_text().splitlines()]
    assert asyncio.run(differences(tmp_path, cases)) == []
    assert len(cases) >= count
