"""Causes for pods that no scheduler tries: scheduling gates, and a missing scheduler."""

import re
from collections.abc import Iterable

from mooring.advisor.explain.reasons.groups import did_you_mean
from mooring.advisor.explain.results import Cause
from mooring.advisor.node_facts import similar
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Pod

_GATE_OWNERS = {
    "kueue.x-k8s.io": "Kueue removes when its queue admits the workload",
    "constraints.mooring.dev": "Mooring's bridge removes when it has lowered the constraints",
    "karpenter.sh": "Karpenter removes",
    "batch.volcano.sh": "Volcano removes",
    "scheduling.x-k8s.io": "the coscheduling plugins remove",
    "yunikorn.apache.org": "YuniKorn removes",
}
_SCHEDULER_NAME = re.compile(r"--scheduler-name[= ](\S+)")


def gated(pod: Pod) -> Cause:
    """Return the cause for a pod with scheduling gates; it names the gates and the controllers that remove them."""
    names = [gate.name for gate in pod.spec.scheduling_gates]
    domains = dict.fromkeys(name.partition("/")[0] for name in names if "/" in name)
    owners = [_owner_of_gate(domain) for domain in domains]
    whose = f", which {' and '.join(owners)}" if owners else ""
    word = "gate" if len(names) == 1 else "gates"
    return Cause("SchedulingGated", f"the pod waits for its scheduling {word} {', '.join(names)}{whose}")


def _owner_of_gate(domain: str) -> str:
    known = next((owner for suffix, owner in _GATE_OWNERS.items() if domain.endswith(suffix)), "")
    return known or f"the controller of {domain} removes"


def of_another_scheduler(snapshot: Snapshot, pod: Pod, profiles: Iterable[str]) -> Cause:
    """Return the cause for a pod of another scheduler; it says whether that scheduler seems to run."""
    name = pod.spec.scheduler_name
    if snapshot.unread("pods"):
        seen = "whether it runs cannot be read"
    else:
        running = [each for each in snapshot.all(Pod) if _is_scheduler(each, name)]
        ready = [each for each in running if each.status.phase == "Running"]
        if ready:
            seen = f"it seems to be pod {ready[0].metadata.namespace}/{ready[0].metadata.name}; see its log"
        elif running:
            seen = f"its pod {running[0].metadata.namespace}/{running[0].metadata.name} does not run"
        else:
            meant = similar(name, profiles)
            seen = f"no such scheduler runs in this cluster{did_you_mean(meant)}"
    return Cause("OtherScheduler", f"the pod waits for the scheduler {name}: {seen}")


def _is_scheduler(pod: Pod, name: str) -> bool:
    """Return whether a pod looks like a scheduler of that name: by an argument, its workload or its image."""
    for container in pod.spec.containers:
        words = " ".join((*container.command, *container.args))
        found = _SCHEDULER_NAME.search(words)
        if found is not None:
            return found[1].strip("'\"") == name
    names = (pod.metadata.name, *pod.metadata.labels.values(), *(each.image for each in pod.spec.containers))
    wanted = name if "scheduler" in name else f"{name}-scheduler"
    return any(wanted in each for each in names)
