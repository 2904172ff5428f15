"""`/statusz` and `/flagz` answer as kube-apiserver 1.37 was recorded to."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import NotAcceptable, NotFound
from started_server import Start, Started, started

pytestmark = pytest.mark.req("U.6")
STATUSZ = "application/json;v={};g=config.k8s.io;as=Statusz"


async def asked(server: Started, path: str, accept: str) -> Any:
    return await server.plane.client.raw("GET", path, accept=accept)


async def test_the_pages_come_as_text_and_as_typed_json_and_as_nothing_else(tmp_path: Path) -> None:
    async with started(tmp_path, Start()) as server:
        text = (await asked(server, "/statusz", "text/plain")).body.decode().splitlines()
        assert text[:2] == ["", "apiserver statusz"]
        assert text[2].startswith("Warning: This endpoint is not meant to be machine parseable")
        assert [line.partition(":")[0] for line in text[4:]] == [
            "Started",
            "Up",
            "Go version",
            "Binary version",
            "Emulation version",
            "Paths",
        ]
        assert text[-1] == "Paths: /flagz /healthz /livez /metrics /readyz /statusz /version"
        status = json.loads((await asked(server, "/statusz", STATUSZ.format("v1beta1"))).body)
        assert (status["kind"], status["apiVersion"], status["metadata"]) == (
            "Statusz",
            "config.k8s.io/v1beta1",
            {"name": "apiserver"},
        )
        assert (status["binaryVersion"], status["emulationVersion"]) == ("1.37", "1.37")
        flags = json.loads((await asked(server, "/flagz", STATUSZ.format("v1beta1").replace("Statusz", "Flagz"))).body)
        assert (flags["kind"], flags["flags"]) == ("Flagz", {})
        for accept in ("application/json", "text/html", STATUSZ.format("v1")):
            with pytest.raises(NotAcceptable, match="application/json, application/yaml, text/plain"):
                await asked(server, "/statusz", accept)
        paths = json.loads((await server.plane.client.raw("GET", "/")).body)["paths"]
        assert {"/statusz", "/flagz"} <= set(paths)


async def test_a_server_that_emulates_1_35_does_not_have_them(tmp_path: Path) -> None:
    async with started(tmp_path, Start(emulation="1.35")) as server:
        with pytest.raises(NotFound):
            await asked(server, "/statusz", "text/plain")
