"""The example of docs/client.md runs as written."""

import re
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

PAGE = Path(__file__).parents[3] / "docs" / "client.md"


async def test_the_example_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    server = await ApiServer.open(ServerConfig(data_dir=tmp_path, port=0, ephemeral=True))
    try:
        await server.listen()
        await names["main"](str(server.kubeconfig()))
    finally:
        await server.close()
    assert capsys.readouterr().out.splitlines() == [
        'configmaps "settings" already exists',
        "{'color': 'red'}",
        "new node n1",
    ]
