"""Measure how far a reader of a write has to jump: python tools/write_spine.py

A client creates a Deployment by server-side apply over HTTPS. Printed are the modules of `apiserver/` that the request
passes, in the order of their first call, and the returns: direct calls of a module into an earlier one. Methods of
requests, routes and users (`messages/`) are values, and no returns.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from mooring.api.apps_v1 import Deployment
from mooring.api.codec import decode_tree
from mooring.apiserver.edge.protocol import HttpProtocol
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.client.connect import connect

_ROOT = "/mooring/apiserver/"
_VALUES = "messages/"


def _deployment(name: str) -> Deployment:
    pod = {"containers": [{"name": "c", "image": "app:1"}]}
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}}
    return decode_tree({**head, "spec": spec}, Deployment).object


async def _spine() -> list[tuple[str, str]]:
    """Return the modules of caller and callee of each call; the caller is empty outside of the server."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = _module_of(frame)
        if event == "call" and module and not _is_in_background():
            calls.append((_module_of(frame.f_back), module))

    with tempfile.TemporaryDirectory() as directory:
        async with await ApiServer.open(ServerConfig(data_dir=Path(directory), port=0, ephemeral=True)) as server:
            await server.listen()
            client = connect(server.kubeconfig(), user_agent="write-spine")
            await client.apply(_deployment("first"), field_manager="kubectl")  # connects
            sys.setprofile(note)
            await client.apply(_deployment("web"), field_manager="kubectl")
            sys.setprofile(None)
            await client.close()
    return calls


def _is_in_background() -> bool:
    """Return whether a task of the server runs that belongs to no request."""
    task = asyncio.current_task()
    return task is not None and getattr(task.get_coro(), "__qualname__", "") != HttpProtocol._respond.__qualname__


def _module_of(frame: FrameType | None) -> str:
    return frame.f_code.co_filename.partition(_ROOT)[2] if frame is not None else ""


def measure() -> tuple[list[str], list[tuple[str, str]]]:
    """Return the modules in the order of their first call, and the calls into earlier ones."""
    calls = asyncio.run(_spine())
    modules = list(dict.fromkeys(module for _, module in calls))
    place = {module: index for index, module in enumerate(modules)}
    returns = {
        (caller, callee)
        for caller, callee in calls
        if caller and place[callee] < place[caller] and not callee.startswith(_VALUES)
    }
    return modules, sorted(returns)


def main() -> None:
    modules, returns = measure()
    print("\n".join(modules))
    print(f"{len(modules)} modules, {len(returns)} returns")
    for caller, callee in returns:
        print(f"  {caller} calls {callee}")


if __name__ == "__main__":
    main()
