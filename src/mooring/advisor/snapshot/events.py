"""Read Warning events: about one pod, on demand, and, for snapshots, of controllers that cannot create pods.

A snapshot contains only events with the reason `FailedCreate`: StatefulSets, DaemonSets and Jobs report a refused pod
nowhere else.
"""

from collections.abc import Mapping

import msgspec

from mooring.advisor.snapshot.objects import Snapshot
from mooring.api import errors
from mooring.api.core_v1 import Event, Pod
from mooring.api.meta_v1 import Resource
from mooring.client import Client, ClientError

_MAX_READ, _MAX_SHOWN = 100, 3
_FAILED_CREATE = "FailedCreate"


class _Event(msgspec.Struct, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class _Events(msgspec.Struct):
    items: list[_Event] = []


async def warnings_about(client: Client, pod: Pod) -> list[str]:
    """Return the newest Warning event of each reason about a pod, as text; empty if the user may not read events."""
    meta = pod.metadata
    query = [("fieldSelector", f"involvedObject.name={meta.name}"), ("limit", str(_MAX_READ))]
    try:
        answer = await client.raw("GET", f"/api/v1/namespaces/{meta.namespace}/events", query=query)
        found = msgspec.json.decode(answer.body, type=_Events).items
    except (errors.StatusError, ClientError, msgspec.DecodeError):
        return []
    warnings = [each for each in found if each.type == "Warning" and each.message]
    warnings.sort(key=lambda each: each.last_timestamp or each.event_time or "", reverse=True)
    newest = {each.reason: each.message for each in reversed(warnings)}
    return [f"{reason}: {newest[reason]}" for reason in dict.fromkeys(each.reason for each in warnings)][:_MAX_SHOWN]


def field_selector_of(kind: type[Resource]) -> str:
    """Return the field selector for reading a kind: of events, only those that a snapshot contains."""
    return f"reason={_FAILED_CREATE}" if kind is Event else ""


def failed_creations(snapshot: Snapshot) -> Mapping[tuple[str, str, str], Event]:
    """Return the newest FailedCreate event of each controller, by the controller's kind, namespace and name."""
    events = [each for each in snapshot.all(Event) if each.reason == _FAILED_CREATE]
    events.sort(key=time_of_event)
    about = ((each.involved_object, each) for each in events)
    return {(of.kind, of.namespace, of.name): each for of, each in about}


def time_of_event(event: Event) -> str:
    """Return the time of an event, or of the last one in its series; empty if it has none."""
    return event.last_timestamp or event.event_time or ""
