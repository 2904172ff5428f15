"""How a live server runs, as far as it tells: its versions by `/version`, its gates by `/metrics`.

Mooring and Kubernetes show both in the same way. Whoever may not read the metrics gets the gates that the version of
Mooring or Kubernetes has by default, and a note. Called by the command line, for `mooring audit` and
`mooring lint --cluster`.
"""

import re
from typing import NamedTuple

import msgspec

from mooring.api import errors
from mooring.client import Client

_GATE = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])(?:\.0)?$', re.MULTILINE)


class Shown(NamedTuple):
    """What a server tells about itself; `options.component_of` makes a component of it."""

    version: dict[str, str]
    gates: dict[str, bool]


async def shown_by(client: Client) -> Shown:
    """Versions and gates of a server; no gates if they cannot be seen. Raises `ClientError` and `StatusError`."""
    answer = await client.raw("GET", "/version")
    version = msgspec.json.decode(answer.body, type=dict[str, str])
    gates: dict[str, bool] = {}
    try:
        page = await client.raw("GET", "/metrics", accept="text/plain")
        gates = {name: on == "1" for name, on in _GATE.findall(page.body.decode(errors="replace"))}
    except errors.StatusError:
        pass  # a note will say that they are assumed
    return Shown(version, gates)
