"""Answers that would take the server long to format are sent in a cheaper form of the same format."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from app_calls import ADMIN, Caller, running
from mooring.apiserver.messages.http import YAML, Accepted, Request
from mooring.apiserver.output.formats import MAX_BLOCK_YAML_BYTES, format_json

pytestmark = pytest.mark.req("S.6")
MAPS = "/api/v1/namespaces/default/configmaps"
ODD = '\x7f \x80 \x85 \u2028 \u2029 \ufeff \ufffe é 😀 \\ " \n'


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of JSON were written as YAML in lines, each time."""
    from mooring.api import yaml_documents

    sizes: list[int] = []
    write = yaml_documents.write

    def counted(trees: Any) -> str:
        listed = list(trees)
        sizes.append(len(json.dumps(listed)))
        return write(listed)

    monkeypatch.setattr(yaml_documents, "write", counted)
    return sizes


async def test_a_long_list_in_yaml_is_sent_as_flow_yaml(tmp_path: Path, written: list[int]) -> None:
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        for number in range(3):
            made = {"metadata": {"name": f"c{number}"}, "data": {"odd": ODD, "long": "x" * 300_000}}
            assert (await call("POST", MAPS, made)).status == 201
        long = await call("GET", MAPS, accept="application/yaml")
        short = await call("GET", f"{MAPS}/c0", accept="application/yaml")
        as_json = await call("GET", MAPS)
    assert long.headers["content-type"] == short.headers["content-type"] == YAML
    assert yaml.safe_load(long.body) == as_json.json
    assert yaml.safe_load(short.body)["data"] == as_json.json["items"][0]["data"]
    assert max(written) <= MAX_BLOCK_YAML_BYTES * 2


def test_a_long_object_in_yaml_is_the_same_object(written: list[int]) -> None:
    tree = {"data": {f"k{number}": ODD for number in range(20_000)}}
    body, kind = format_json(msgspec.json.encode(tree), Accepted("yaml"), Request(method="GET", path="/"))
    assert (kind, written) == (YAML, [])
    assert yaml.load(body, Loader=yaml.CSafeLoader) == tree


async def test_a_very_long_list_is_not_indented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.apiserver.output.formats.MAX_INDENTED_BYTES", 100_000)
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        await call("POST", MAPS, {"metadata": {"name": "c"}, "data": {"long": "x" * 90_000}})
        short = await call("GET", MAPS, user_agent="curl/8")
        await call("POST", MAPS, {"metadata": {"name": "d"}, "data": {"long": "x" * 90_000}})
        long = await call("GET", MAPS, user_agent="curl/8")
    assert short.body.count(b"\n") > 10
    assert long.body.count(b"\n") == 1
    assert len(long.json["items"]) == 2
