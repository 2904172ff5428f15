"""Whatever a client sends to whatever path the OpenAPI documents name, the answer is no error of the server's."""

import asyncio
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app_calls import ADMIN, Answer, Caller, running
from mooring.api.meta_v1 import VersionInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.output.openapi import OpenApi
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.1", "S.6")

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
REQUESTS = 3000 if os.environ.get("MOORING_FULL") else 150
METHODS = ("get", "post", "put", "patch", "delete")
NAMES = st.sampled_from(["default", "kube-system", "a", "none", "A_", "system:discovery", "-", "x" * 300, "ü"])
ODD = st.sampled_from(
    ["", "1", "-1", "true", "All", "x=y", "a in (b", "%00", "9" * 40, "null", "Strict", "metadata.name=a"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(["", "a", "1Gi", "25%", "2026-01-01T00:00:00Z", "\x00"])
)
GARBAGE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
CONTENT_TYPES = st.sampled_from(
    [
        "application/json",
        "application/yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ]
)


@cache
def document() -> dict[str, Any]:
    return OpenApi(Scheme(), VersionInfo(git_version="v1.37.0")).build_v2()


def _value(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> Any:
    """Something that fits a schema more or less."""
    if draw(st.integers(0, 19)) == 0:
        return draw(GARBAGE)
    if "$ref" in schema:
        return _value(draw, document()["definitions"][schema["$ref"].removeprefix("#/definitions/")], depth)
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _object(draw, schema, depth)
        case "object":
            return {draw(NAMES): draw(SCALARS)}
        case "array":
            size = draw(st.integers(0, 2)) if depth < 6 else 0
            return [_value(draw, schema["items"], depth + 1) for _ in range(size)]
        case "integer":
            return draw(st.integers(-5, 10) | st.sampled_from([2**31, 2**63, -(2**63)]))
        case "boolean":
            return draw(st.booleans())
    return draw(st.sampled_from(["", "a", "b", "Exists", "Lt", "1", "100m", "true", "1.2.3", "taint.key == 'a'"]))


def _object(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required", [])
    optional = [name for name in schema["properties"] if name not in required]
    few = draw(st.lists(st.sampled_from(optional), max_size=3, unique=True)) if optional and depth < 6 else []
    return {name: _value(draw, schema["properties"][name], depth + 1) for name in (*required, *few)}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    template = draw(st.sampled_from(sorted(document()["paths"])))
    item = document()["paths"][template]
    path = template.replace("{namespace}", draw(NAMES)).replace("{name}", draw(NAMES))
    path = path.replace("{path}", draw(NAMES))
    declared = [method for method in METHODS if method in item]
    method = draw(st.sampled_from(declared if draw(st.integers(0, 9)) else METHODS))
    # Streams and proxies name their parameters for all methods together, at the path, and none at a method.
    parameters = [*item.get("parameters", []), *item.get(method, {}).get("parameters", [])]
    names = sorted({parameter["name"] for parameter in parameters if parameter.get("in") == "query"})
    names = [name for name in names if name != "watch"]
    chosen = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
    query = "&".join(f"{name}={draw(ODD)}" for name in chosen)
    body = next((each["schema"] for each in parameters if each.get("in") == "body"), None)
    content = (
        json.dumps(_value(draw, body, 0)).encode() if body and draw(st.integers(0, 9)) else draw(st.binary(max_size=20))
    )
    content_type = draw(CONTENT_TYPES) if method == "patch" or not draw(st.integers(0, 9)) else "application/json"
    accept = draw(st.sampled_from(["", "*/*", "application/yaml", TABLE, "x/y"]))
    return {
        "method": method.upper(),
        "path": f"{path}?{query}" if query else path,
        "body": content,
        "content_type": content_type,
        "accept": accept,
    }


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="module")
def server(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    directory: Path = tmp_path_factory.mktemp("server")
    context = running(directory)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@settings(
    max_examples=REQUESTS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(requests())
def test_no_request_is_an_error_of_the_server(runner: asyncio.Runner, server: ApiServer, asked: dict[str, Any]) -> None:
    answer: Answer = runner.run(_send(server, asked))
    assert answer.status < 500 or b"resourceVersion" in answer.body, (asked, answer.body)
    if answer.status >= 400:
        assert answer.json["kind"] == "Status"


async def _send(server: ApiServer, asked: dict[str, Any]) -> Answer:
    headers = {"content_type": asked["content_type"], "accept": asked["accept"]}
    return await asyncio.wait_for(
        Caller(server.app, ADMIN)(asked["method"], asked["path"], asked["body"], **headers), 20
    )
