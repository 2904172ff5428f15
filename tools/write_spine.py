"""Count the modules of apiserver/ that a `kubectl apply` of a Deployment passes: python tools/write_spine.py

A server in this process creates a Deployment by server-side apply. Printed are the modules of `apiserver/` on the
stack from the application to the store, in the order of their first call, and how often control returns to a module
that was left before: both say how far a reader has to jump.
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


async def _spine() -> list[str]:
    """Return the modules of all calls, one entry for each change of module."""
    pod = {"containers": [{"name": "c", "image": "app:1"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    body["spec"] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        _, found, module = frame.f_code.co_filename.partition(_ROOT)
        if event == "call" and found and (not entered or entered[-1] != module):
            entered.append(module)

    with tempfile.TemporaryDirectory() as directory:
        server = await ApiServer.open(ServerConfig(data_dir=Path(directory), port=0, ephemeral=True))
        try:
            request = Request(
                method="PATCH",
                path="/apis/apps/v1/namespaces/default/deployments/web",
                query={"fieldManager": ["kubectl"]},
                headers={"content-type": "application/apply-patch+yaml"},
                body=json.dumps(body).encode(),
                user=users.authenticated("admin", groups=[users.MASTERS]),
            )
            sys.setprofile(note)
            response = await server.app.respond(request)
            sys.setprofile(None)
            if response.status != 201:
                raise SystemExit(f"the apply was refused: {response.body!r}")
        finally:
            await server.close()
    return entered


def main() -> None:
    entered = asyncio.run(_spine())
    modules = list(dict.fromkeys(entered))
    print("\n".join(modules))
    print(f"{len(modules)} modules, {len(entered) - len(modules)} returns")


if __name__ == "__main__":
    main()
