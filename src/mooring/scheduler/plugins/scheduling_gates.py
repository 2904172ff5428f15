"""SchedulingGates: a pod with gates is not tried before they are all removed.

Nor is one whose constraints in annotations cannot be read (``mooring.constraints.annotations``).
"""

from collections.abc import Sequence

from mooring.api.core_v1 import Pod
from mooring.constraints.annotations import UNREADABLE
from mooring.scheduler.framework import (
    SUCCESS,
    Action,
    ClusterEvent,
    EventWithHint,
    Handle,
    Kind,
    PluginArguments,
    QueueingHint,
    Status,
    unresolvable,
)


class SchedulingGates:
    name = "SchedulingGates"

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: Pod) -> Status:
        if not pod.spec.scheduling_gates:
            wrong = pod.metadata.annotations.get(UNREADABLE)
            return SUCCESS if wrong is None else unresolvable(wrong)
        names = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> Sequence[EventWithHint]:
        event = ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (EventWithHint(event, _after_own_change),)


def _after_own_change(_pod: Pod, _old: Pod | None, new: Pod | None) -> QueueingHint:
    return QueueingHint.of(new is not None and not new.spec.scheduling_gates)
