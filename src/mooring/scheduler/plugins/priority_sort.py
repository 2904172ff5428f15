"""PrioritySort: pods with a higher priority come first, among equals those that have waited longer."""

from typing import Any

from mooring.api.core_v1 import Pod
from mooring.scheduler.framework import Handle, PluginArguments


class PrioritySort:
    name = "PrioritySort"

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        pass

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        return -(pod.spec.priority or 0), queued_at
