"""Read the cluster's Warning events about one pod. Snapshots contain no events; these are read on demand."""

import msgspec

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.client import Client, ClientError

_MAX_READ, _MAX_SHOWN = 100, 3


class _Event(msgspec.Struct, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class _Events(msgspec.Struct):
    items: list[_Event] = []


async def warnings_about(client: Client, pod: Pod) -> list[str]:
    """Return the newest warnings about a pod, one for each reason; none if the user may not read events."""
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
