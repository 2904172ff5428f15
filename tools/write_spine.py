"""Measure how far a reader of a write has to jump: python tools/write_spine.py

A server in this process creates a Deployment by server-side apply. Printed are the modules of `apiserver/` that the
request passes, in the order of their first call, and the returns: direct calls of a module into an earlier one. Methods
of requests, routes and users (`messages/`) are values, and no returns.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

_ROOT = "/mooring/apiserver/"
_VALUES = "messages/"


async def _spine() -> list[tuple[str, str]]:
    """Return the modules of caller and callee of each call; the caller is empty outside of the server."""
    pod = {"containers": [{"name": "c", "image": "app:1"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    body["spec"] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = _module_of(frame)
        if event == "call" and module:
            calls.append((_module_of(frame.f_back), module))

    with tempfile.TemporaryDirectory() as directory:
        server = await ApiServer.open(ServerConfig(data_dir=Path(directory), port=0, ephemeral=True))
        try:
            request = Request(
                method="PATCH",
                path="/apis/apps/v1/namespaces/default/deployments/web",
                query={"fieldManager": ["kubectl"]},
                headers={"content-type": "application/apply-patch+yaml"},
                body=json.dumps(body).encode(),
                user=users.authenticated_user("admin", groups=[users.MASTERS]),
            )
            sys.setprofile(note)
            response = await server.app.respond(request)
            sys.setprofile(None)
            if response.status != 201:
                raise SystemExit(f"the apply was refused: {response.body!r}")
        finally:
            await server.close()
    return calls


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
