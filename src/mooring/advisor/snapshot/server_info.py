"""Read the versions of a live server from `/version`, and its feature gates from `/metrics`.

Mooring and upstream Kubernetes serve both in the same format. If the user may not read the metrics, the default gates
of the release are assumed, and a note says so. ``from_server.py`` records the result in `Snapshot.server`, `mooring
dump` writes it, and ``mooring.advisor.audit.options.component_of_snapshot`` converts it to versions and gates.
"""

import re
from typing import Any

import msgspec

from mooring.api import errors
from mooring.client import Client

_GATE = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])(?:\.0)?$', re.MULTILINE)


class ServerInfo(msgspec.Struct, frozen=True):
    """The body of `/version`, and the feature gates that the server exposes."""

    version: dict[str, str]
    gates: dict[str, bool] = {}


async def read_server_info(client: Client) -> ServerInfo:
    """Return versions and gates; no gates if metrics are forbidden. Raise `ClientError` and `StatusError`."""
    answer = await client.raw("GET", "/version")
    version = msgspec.json.decode(answer.body, type=dict[str, str])
    gates: dict[str, bool] = {}
    try:
        page = await client.raw("GET", "/metrics", accept="text/plain")
        gates = {name: on == "1" for name, on in _GATE.findall(page.body.decode(errors="replace"))}
    except errors.StatusError:
        pass  # `component_of_server` notes that the gates are assumed
    return ServerInfo(version, gates)


async def read_server(client: Client) -> dict[str, Any] | None:
    """Return the value of `Snapshot.server` for a live cluster; None if the user may not read `/version`."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(await read_server_info(client))
    except errors.StatusError:
        return None
    return found
