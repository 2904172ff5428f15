"""What policies make of requests, and what may be written in them, word by word as Kubernetes answered.

The recordings are made by ``recording/policies.py``.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running

DATA = Path(__file__).parent / "data" / "api"
Tree = dict[str, Any]
CHANGED = ("labels", "annotations", "name")


def said(code: int, body: Tree, warnings: list[str]) -> Tree:
    """Of an answer, what policies have a say in."""
    if body.get("kind") == "Status":
        return {
            "code": code,
            "message": body["message"],
            "reason": body["reason"],
            "details": body.get("details"),
            "warnings": warnings,
        }
    metadata = {key: body["metadata"].get(key) for key in CHANGED}
    spec = body.get("spec", {})
    if body["kind"] == "Pod":
        names = ("containers", "initContainers")
        spec = {name: [{**each, "env": each.get("env")} for each in spec.get(name, [])] for name in names}
    return {"code": code, "metadata": metadata, "data": body.get("data"), "spec": spec, "warnings": warnings}


async def differences(directory: Path, cases: list[Tree]) -> list[tuple[str, Tree, Tree]]:
    found = []
    async with running(directory) as server:
        call = Caller(server.app, ADMIN)
        for case in cases:
            recorded = case["response"]
            wanted = said(recorded["code"], recorded["body"], recorded["warnings"])
            path = f"{case['path']}?{case['query']}" if case["query"] else case["path"]
            answer = await call(case["method"], path, case["body"])
            given = said(answer.status, answer.json, answer.warnings)
            if given != wanted:
                found.append((case["id"], given, wanted))
    return found


def recorded(file: str) -> list[Tree]:
    return [json.loads(line) for line in (DATA / file).read_text().splitlines()]


@pytest.mark.req("X.7", "X.8")
def test_what_may_be_written_in_policies(tmp_path: Path) -> None:
    cases = recorded("policy-objects.jsonl")
    assert asyncio.run(differences(tmp_path, cases)) == []
    assert len(cases) >= 90


@pytest.mark.req("X.7", "X.8")
def test_what_policies_make_of_requests(tmp_path: Path) -> None:
    cases = recorded("policy-setup.jsonl") + recorded("policies.jsonl")
    assert asyncio.run(differences(tmp_path, cases)) == []
    assert len(cases) >= 280
