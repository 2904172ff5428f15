"""Find clients that need what the other release lacks, in audit logs and in a server's metrics.

Audit logs have one JSON event a line, as kube-apiserver and Mooring write them. Called by the command line.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.api import errors
from mooring.client import Client

_AGENT = re.compile(r"^(kubectl|kubelet|kube-[\w-]+|k3s|client-go)[\w.-]*/v?(1\.\d+)[.\w+-]*")
_PATH = re.compile(r"^/apis/([^/?]+)/([^/?]+)/(?:namespaces/[^/?]+/)?([a-z]+)")
_COUNTED = re.compile(r"^apiserver_requested_deprecated_apis\{([^}]*)\} [1-9]", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LONGEST = 1 << 20


class _RequestedResource(NamedTuple):
    group: str
    version: str
    plural: str


class _Event(msgspec.Struct, rename="camel"):
    user_agent: str = ""
    request_uri: str = msgspec.field(default="", name="requestURI")


async def read_metrics(client: Client) -> str:
    """Return the text of a live server's `/metrics`; empty if the server refuses, as for lack of rights."""
    try:
        answer = await client.raw("GET", "/metrics", accept="text/plain")
    except errors.StatusError:
        return ""
    return answer.body.decode(errors="replace")


def findings_of_metrics(page: str, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about API versions that clients request, by a server's metrics, and the target does not serve."""
    for labels in _COUNTED.findall(page):
        said = dict(_LABEL.findall(labels))
        place = _RequestedResource(said.get("group", ""), said.get("version", ""), said.get("resource", ""))
        yield from _check_requested_resource(place, "some client (apiserver_requested_deprecated_apis)", "", crossing)


def findings_of_log(lines: Iterable[bytes], name: str, crossing: Crossing) -> Iterator[Finding]:
    """Yield a finding for each client version and requested API version in an audit log that the target lacks."""
    seen: set[tuple[_RequestedResource, str]] = set()
    agents: set[str] = set()
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=_Event) if len(line) < _LONGEST else _Event()
        except msgspec.DecodeError:
            continue
        agent = event.user_agent.partition(" ")[0]
        if agent and agent not in agents:
            agents.add(agent)
            found = _AGENT.match(agent)
            if wrong := crossing.client_skew(found[1], found[2]) if found else "":
                yield _build_finding(agent, name, "userAgent", agent, wrong)
        path = _PATH.match(event.request_uri)
        place = _RequestedResource(path[1], path[2], path[3]) if path else None
        if place and (place, agent) not in seen:
            seen.add((place, agent))
            yield from _check_requested_resource(place, agent or "a client without a name", name, crossing)


def _check_requested_resource(place: _RequestedResource, who: str, log: str, crossing: Crossing) -> Iterator[Finding]:
    group, version, plural = place
    served = next((each for each in crossing.history.versions(group, plural) if each.version == version), None)
    if served is None or crossing.knows(served, end=True) or not crossing.knows(served, end=False):
        return
    usable = [each.api_version for each in crossing.history.versions(group, plural) if crossing.serves(each, end=True)]
    instead = f"; it is served as {usable[0]}" if usable else ""
    text = f"{who} asks for {plural} of {served.api_version}, which {crossing.end} does not serve{instead}"
    yield _build_finding(who, log, "requestURI", served.api_version, text)


def _build_finding(who: str, log: str, field: str, value: str, text: str) -> Finding:
    reference = ObjectReference(api_version="", kind="Client", name=who, file=log, stored=True)
    return Finding(object=reference, field=field, value=value, effect=Effect.CLIENT, message=text)
