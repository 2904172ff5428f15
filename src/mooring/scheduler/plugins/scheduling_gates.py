"""SchedulingGates: keeps a pod out of the active queue until all of its scheduling gates are removed.

Also keeps out a pod whose constraints in annotations cannot be parsed (``mooring.constraints.annotations``).
"""

from collections.abc import Sequence

from mooring.api.core_v1 import Pod
from mooring.constraints.annotations import UNREADABLE
from mooring.scheduler import framework as fwk


class SchedulingGates:
    name = "SchedulingGates"

    def __init__(self, _arguments: fwk.PluginArguments, _handle: fwk.Handle) -> None:
        pass

    def pre_enqueue(self, pod: Pod) -> fwk.Status:
        if not pod.spec.scheduling_gates:
            wrong = pod.metadata.annotations.get(UNREADABLE)
            return fwk.SUCCESS if wrong is None else fwk.unresolvable(wrong)
        names = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return fwk.unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        removed = fwk.Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (fwk.wake_on(fwk.Kind.TARGET_POD, removed, _after_own_change),)


def _after_own_change(_pod: Pod, _old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
    return fwk.QueueingHint.of(new is not None and not new.spec.scheduling_gates)
