"""Read how a live server runs: its versions from `/version`, its feature gates from `/metrics`.

Mooring and upstream Kubernetes serve both in the same form. A user who may not read the metrics gets the default gates
of that release, and a note says so. ``from_server.py`` records the result in `Snapshot.server`, `mooring dump` writes
it, and ``mooring.advisor.audit.options.component_of_snapshot`` turns it into versions and gates.
"""

import re
from typing import Any

import msgspec

from mooring.api import errors
from mooring.client import Client

_GATE = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])(?:\.0)?$', re.MULTILINE)


class ServerInfo(msgspec.Struct, frozen=True):
    """The body of `/version`, and the feature gates as far as the server shows them."""

    version: dict[str, str]
    gates: dict[str, bool] = {}


async def read_server_info(client: Client) -> ServerInfo:
    """Return versions and gates; no gates if the metrics may not be read. Raises `ClientError` and `StatusError`."""
    answer = await client.raw("GET", "/version")
    version = msgspec.json.decode(answer.body, type=dict[str, str])
    gates: dict[str, bool] = {}
    try:
        page = await client.raw("GET", "/metrics", accept="text/plain")
        gates = {name: on == "1" for name, on in _GATE.findall(page.body.decode(errors="replace"))}
    except errors.StatusError:
        pass  # `component_of` notes that the gates are assumed
    return ServerInfo(version, gates)


async def server_of(client: Client) -> dict[str, Any] | None:
    """Return the value of `Snapshot.server` for a live cluster; None where `/version` may not be read."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(await read_server_info(client))
    except errors.StatusError:
        return None
    return found
