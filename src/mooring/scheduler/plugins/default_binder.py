"""DefaultBinder: writes the binding of a pod to its node.

The scheduler's cycle binds pods in groups by itself where this is the only Bind plugin; where users have others, it is
asked after them for the pods that they skip.
"""

from mooring.api.core_v1 import Pod
from mooring.scheduler.framework import SUCCESS, CycleState, Handle, PluginArguments, Status, error


class DefaultBinder:
    name = "DefaultBinder"

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._client = handle.client

    async def bind(self, _cycle: CycleState, pod: Pod, node_name: str) -> Status:
        if self._client is None:
            return error("there is no API to bind through")
        meta = pod.metadata
        await self._client.bind(meta.name, meta.namespace, node_name, uid=meta.uid)
        return SUCCESS
