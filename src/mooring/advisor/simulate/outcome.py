"""Build the result of a simulation: placed and pending pods, evictions, rejections, and the use of nodes."""

from collections import Counter

from mooring.advisor.simulate import results
from mooring.advisor.simulate.pods import Departure, SimulatedPod
from mooring.advisor.simulate.results import (
    Blocked,
    Comparison,
    Counts,
    MovedPod,
    NodeUse,
    PendingGroup,
    PendingPod,
    Placement,
    RejectedGroup,
    Simulation,
    Utilisation,
)
from mooring.advisor.simulate.running import SimulationRun
from mooring.advisor.simulate.utilisation import Usage, usage_of
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.api import times
from mooring.base.natural_sort import natural_key

_WAITING = "not tried yet"


def build_result(running: SimulationRun, snapshot: Snapshot) -> Simulation:
    """Return the result of a simulation run, which may have been interrupted."""
    world, scenario = running.world, running.scenario
    placements = _list_placements(world)
    pending = _group_pending(world)
    rejected = _group_rejections(world)
    after = usage_of(world.engine.cluster)
    webhooks = world.admission.webhooks.items()
    called = (f"the {text} would be asked about {count} of the new objects, and was not" for text, count in webhooks)
    blocked = tuple(
        Blocked(pod=pod.name, node=pod.node, message=why) for pod, why in world.drains.refused.values() if pod.node
    )
    return Simulation(
        name=scenario.name,
        cluster=snapshot.origin,
        configuration=world.settings.description,
        seed=scenario.seed,
        started_at=times.to_seconds(world.clock.start),
        seconds=round(world.clock.monotonic(), 3),
        is_complete=running.is_complete,
        counts=Counts(
            nodes=len(world.engine.cluster),
            pods=len(world.pods),
            running=world.running,
            placed=len(placements),
            pending=len(world.pods) - world.running,
            rejected=sum(group.count for group in rejected),
            preempted=len(world.record.preemptions),
            evicted=len(world.record.evictions),
            blocked=len(blocked),
            newly_pending=sum(not pod.node and pod.created_at is not None for pod in world.pods.values()),
        ),
        utilisation=Utilisation(before=running.before.total_use(), after=after.total_use()),
        placements=placements,
        pending=pending,
        rejected=rejected,
        preempted=tuple(departure_of(each, world, by=each.cause) for each in world.record.preemptions),
        evicted=tuple(departure_of(each, world, cause=each.cause) for each in world.record.evictions),
        blocked=blocked,
        nodes=_node_uses(running.before, after, world),
        timeline=tuple(running.timeline),
        room=running.room,
        added_nodes=tuple(world.autoscaler.added),
        notes=(*map(str, snapshot.notes), *called),
    )


def _list_placements(world: World) -> tuple[Placement, ...]:
    found = [pod for pod in world.pods.values() if pod.node and pod.placed_at is not None]
    found.sort(key=lambda pod: (pod.placed_at, pod.name))
    return tuple(
        Placement(
            pod=pod.name, owner=pod.owner_name, node=pod.node, at=round(pod.placed_at or 0.0, 3), replaces=pod.replaces
        )
        for pod in found
    )


def _group_pending(world: World) -> tuple[PendingGroup, ...]:
    groups: dict[str, list[SimulatedPod]] = {}
    for pod in world.pods.values():
        if not pod.node:
            groups.setdefault(_pending_reason(world, pod), []).append(pod)
    made = [
        PendingGroup(
            message=message,
            count=len(pods),
            owners=tuple(dict.fromkeys(pod.owner_name or pod.name for pod in pods)),
            pods=tuple(
                PendingPod(pod=pod.name, owner=pod.owner_name, is_new=pod.created_at is not None)
                for pod in sorted(pods, key=lambda each: natural_key(each.name))
            ),
        )
        for message, pods in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: (-group.count, group.message)))


def _pending_reason(world: World, pod: SimulatedPod) -> str:
    message = world.message_of(pod)
    if message:
        return message
    queued = world.queue.find(pod.key)
    if queued is not None and queued.gated_by:
        for plugin in world.engine.profiles[queued.profile].pre_enqueue:
            status = plugin.pre_enqueue(pod.pod)
            if not status.is_success:
                return status.message
    text = (entry for entry in pod.pod.status.conditions if entry.type == "PodScheduled" and entry.status == "False")
    return next((entry.message for entry in text if entry.message), _WAITING)


def _group_rejections(world: World) -> tuple[RejectedGroup, ...]:
    found = Counter((refusal.name, refusal.message) for refusal in world.record.refusals)
    for owner in world.workloads.list_all():
        if owner.refusal:
            found[owner.display_name, owner.refusal] += max(owner.wanted - len(owner.pods), 1)
    return tuple(RejectedGroup(name=name, message=message, count=count) for (name, message), count in found.items())


def departure_of(each: Departure, world: World, *, cause: str = "", by: str = "") -> results.Departure:
    """Return the record of an evicted or preempted pod, with the pod that replaces it now and that pod's node."""
    successor = each.pod.successor
    while successor is not None and world.pods.get(successor.key) is not successor:
        successor = successor.successor  # that one was evicted as well
    return results.Departure(
        pod=each.pod.name,
        owner=each.pod.owner_name,
        node=each.node,
        at=round(each.at, 3),
        cause=cause,
        by=by,
        replacement=successor.name if successor is not None else "",
        replacement_node=successor.node if successor is not None else "",
    )


def _node_uses(before: Usage, after: Usage, world: World) -> tuple[NodeUse, ...]:
    found = [
        NodeUse(
            name=info.name,
            pods=len(info.placed),
            unschedulable=info.node.spec.unschedulable,
            before=before.use_of_node(info.name) if info.name in before.rows else None,
            after=after.use_of_node(info.name),
        )
        for info in world.engine.cluster.node_infos()
    ]
    gone = (name for name in before.names if name not in after.rows)
    found += [NodeUse(name=name, pods=0, before=before.use_of_node(name)) for name in gone]
    return tuple(found)


def compare_results(one: Simulation, other: Simulation) -> Comparison:
    """Compare a scenario's results under two configurations: pods on other nodes, in one only, pending in one."""
    here, there = _nodes_by_pod(one), _nodes_by_pod(other)
    common = [pod for pod in here if pod in there]
    moved = [MovedPod(pod=pod, node=here[pod], other_node=there[pod]) for pod in common if here[pod] != there[pod]]
    waiting, other_waiting = _pending_pods(one), _pending_pods(other)
    return Comparison(
        configuration=one.configuration,
        other_configuration=other.configuration,
        same=len(common) - len(moved),
        elsewhere=tuple(sorted(moved, key=lambda each: natural_key(each.pod))),
        only_here=tuple(sorted(here.keys() - there.keys(), key=natural_key)),
        only_there=tuple(sorted(there.keys() - here.keys(), key=natural_key)),
        only_pending_here=tuple(sorted(waiting - other_waiting, key=natural_key)),
        only_pending_there=tuple(sorted(other_waiting - waiting, key=natural_key)),
        counts=one.counts,
        other_counts=other.counts,
        after=one.utilisation.after,
        other_after=other.utilisation.after,
    )


def _nodes_by_pod(result: Simulation) -> dict[str, str]:
    found = {placement.pod: placement.node for placement in result.placements}
    found.update((waiting.pod, "") for group in result.pending for waiting in group.pods)
    return found


def _pending_pods(result: Simulation) -> set[str]:
    return {waiting.pod for group in result.pending for waiting in group.pods}
