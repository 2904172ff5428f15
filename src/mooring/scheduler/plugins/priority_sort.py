"""PrioritySort: orders the queue by priority, then by how long pods have waited."""

from typing import Any

from mooring.api.core_v1 import Pod
from mooring.api.states import priority
from mooring.scheduler.framework import Handle, PluginArguments


class PrioritySort:
    name = "PrioritySort"

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        pass

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        return -priority(pod), queued_at
