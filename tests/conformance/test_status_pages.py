"""`/statusz` and `/flagz`, in all forms that can be asked for, as Kubernetes answered.

The recordings are made by ``recording/status_pages.py``.
"""

import json
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, running
from conformance.recording.status_pages import said

RECORDED = Path(__file__).parent / "data" / "api" / "status-pages.jsonl"


@pytest.mark.req("U.6")
async def test_every_recorded_request_is_answered_as_recorded(tmp_path: Path) -> None:
    cases = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    found = []
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        for case in cases:
            answer = await call(case["method"], case["path"], case["body"], accept=case["accept"])
            content_type = answer.headers["content-type"]
            given = {
                "code": answer.status,
                "warnings": answer.warnings,
                "content_type": content_type,
                "body": said(content_type, answer.body.decode()),
            }
            if given != case["response"]:
                found.append((case["id"], given, case["response"]))
    assert found == []
    assert len(cases) > 60
