"""DaemonSets: one pod on every node that suits the template.

Nodes are evaluated as by the scheduler: node affinity and node selector with every operator, and tolerations against
taints (``daemon_nodes.py``). Each pod is created for one node, by affinity to its name, and bound by the scheduler. If
the affinity uses an operator whose gate is off, running pods stay, none are created, and a condition reports it.
Updates replace old pods within `maxUnavailable`, or start new ones first within `maxSurge`.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from mooring.api import label_selector, states, times
from mooring.api.apps_v1 import DaemonSet, DaemonSetCondition, DaemonSetStatus
from mooring.api.core_v1 import Node, Pod
from mooring.api.int_or_string import scaled_value
from mooring.client import Backoff, Change
from mooring.controllers.conditions import build_condition
from mooring.controllers.controller import Context
from mooring.controllers.workloads import daemon_nodes, pod_states, revisions
from mooring.controllers.workloads.daemon_nodes import DaemonPlacement
from mooring.controllers.workloads.pod_control import CreationResult
from mooring.controllers.workloads.revisions import POD_LABEL, Revisions
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, WorkloadController, find_shortest_wait

FAILED_POD_BACKOFF = Backoff(initial=1.0, maximum=900.0)
NOT_EVALUATED = "NodeAffinityNotJudged"
"""The condition of a DaemonSet whose node affinity uses an operator whose gate is off."""


class _PodPlan(msgspec.Struct):
    """The nodes to create pods for, the pods to delete, and the seconds until the next pass."""

    create: list[str] = msgspec.field(default_factory=list)
    delete: list[Pod] = msgspec.field(default_factory=list)
    wait: float | None = None


class _SyncState(msgspec.Struct):
    """A DaemonSet, its pods by node, and the hash of its template, as read in one reconcile."""

    key: str
    owner: DaemonSet
    placement: DaemonPlacement
    hash: str
    by_node: dict[str, list[Pod]]
    now: datetime

    def is_updated(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(POD_LABEL) == self.hash

    def is_available(self, pod: Pod) -> bool:
        return pod_states.is_active(pod) and pod_states.is_available(pod, self.owner.spec.min_ready_seconds, self.now)


class DaemonSetController(WorkloadController[DaemonSet]):
    """The controller of DaemonSets: keeps one pod on every suitable node, and replaces outdated pods."""

    name = "daemonset"
    component = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, DaemonSet)
        self._nodes = context.informers.of(Node)
        self._nodes.add_batch_handler(self._enqueue_all_if_placement_changed)
        self._revisions = Revisions(context.informers, self.expectations)
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}
        """Failures of a DaemonSet's pods by node, and until when the last failed pod is kept."""
        self.follow_children(self.pods)

    def _enqueue_all_if_placement_changed(self, changes: Sequence[Change[Node]]) -> None:
        if any(daemon_nodes.affects_placement(old, new) for old, new in changes):
            for owner in self.owners.objects():
                self.enqueue(owner)

    async def sync(self, key: str, owner: DaemonSet) -> float | None:
        selector = label_selector.from_label_selector(owner.spec.selector)
        placement = DaemonPlacement(owner.spec.template.spec, self.context.options.constraints)
        await placement.evaluate_all(list(self._nodes.objects()))
        pods = await self.pods.claim(owner, selector)
        if owner.metadata.deletion_timestamp is not None:
            return None
        history = await self._revisions.ensure_current_revision(
            key, owner, owner.spec, selector, owner.status.collision_count
        )
        by_node: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
            by_node.setdefault(daemon_nodes.target_node_of(pod), []).append(pod)
        state = _SyncState(key, owner, placement, revisions.revision_hash(history.update), by_node, self.clock.now())
        plan = self._plan_pods(state)
        if not (plan.create or plan.delete) and owner.spec.update_strategy.type == "RollingUpdate":
            self._plan_rolling_update(state, plan)
        outcome = await self._create_and_delete_pods(state, plan)
        if outcome.error is None and (plan.create or plan.delete):
            return outcome.wait or LOOK_AGAIN_SECONDS
        await self._report_status(state, history.collisions)
        used = {pod.metadata.labels.get(POD_LABEL, "") for pod in pods}
        await self._revisions.delete_old_revisions(key, owner.spec, history, used)
        if outcome.error is not None and outcome.wait is None:
            raise outcome.error
        next_one = pod_states.seconds_to_next_availability(pods, owner.spec.min_ready_seconds, state.now)
        return find_shortest_wait(outcome.wait, plan.wait, next_one)

    # -- planning

    def _plan_pods(self, state: _SyncState) -> _PodPlan:
        plan = _PodPlan()
        for node in self._nodes.objects():
            self._plan_node(state, node, plan)
        for name, pods in state.by_node.items():
            if self._nodes.get(name) is None:  # pod garbage collection deletes pods of deleted nodes
                plan.delete += [pod for pod in pods if not pod.spec.node_name and pod_states.is_active(pod)]
        return plan

    def _plan_node(self, state: _SyncState, node: Node, plan: _PodPlan) -> None:
        pods = state.by_node.get(node.metadata.name, [])
        suitability = state.placement.evaluate(node)
        if not suitability.may_stay:
            plan.delete += [pod for pod in pods if pod.metadata.deletion_timestamp is None]
            return
        if not pods:
            if suitability.should_run:
                plan.create.append(node.metadata.name)
            return
        running = []
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            if states.has_ended(pod):
                self._plan_finished_pod(state, node.metadata.name, pod, plan)
            else:
                running.append(pod)
        if any(map(states.is_ready, running)):
            self._failures.pop((state.owner.metadata.uid, node.metadata.name), None)
        plan.delete += self._find_surplus_pods(state, running)

    def _plan_finished_pod(self, state: _SyncState, node: str, pod: Pod, plan: _PodPlan) -> None:
        where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {node}, will try to"
        if pod.status.phase == "Failed":
            key, now = (state.owner.metadata.uid, node), self.clock.monotonic()
            count, until = self._failures.get(key, (0, 0.0))
            if now < until:
                plan.wait = find_shortest_wait(plan.wait, until - now)
                return
            self._failures[key] = (count + 1, now + FAILED_POD_BACKOFF.delay(count + 1))
            self.recorder.event(state.owner, "Warning", "FailedDaemonPod", f"Found failed daemon pod {where} kill it")
        else:
            message = f"Found succeeded daemon pod {where} delete it"
            self.recorder.event(state.owner, "Normal", "SucceededDaemonPod", message)
        plan.delete.append(pod)

    def _find_surplus_pods(self, state: _SyncState, running: Sequence[Pod]) -> list[Pod]:
        """Return a node's pods to delete: all except the oldest.

        With `maxSurge`, an outdated pod is also kept until the new one is available.
        """
        if not self._max_surge(state, 1):
            return list(running[1:])
        old = [pod for pod in running if not state.is_updated(pod)]
        new = [pod for pod in running if state.is_updated(pod)]
        surplus = [*old[1:], *new[1:]]
        if old and new and state.is_available(new[0]):
            surplus.append(old[0])
        return surplus

    # -- updates

    def _max_surge(self, state: _SyncState, desired: int) -> int:
        pace = state.owner.spec.update_strategy.rolling_update
        return scaled_value(pace.max_surge or 0, desired, round_up=True) if pace is not None else 0

    def _max_unavailable(self, state: _SyncState, desired: int) -> int:
        pace = state.owner.spec.update_strategy.rolling_update
        wanted = 1 if pace is None or pace.max_unavailable is None else pace.max_unavailable
        return scaled_value(wanted, desired, round_up=True)

    def _plan_rolling_update(self, state: _SyncState, plan: _PodPlan) -> None:
        nodes = [node for node in self._nodes.objects() if state.placement.evaluate(node).should_run]
        surge = self._max_surge(state, len(nodes))
        room = surge or self._max_unavailable(state, len(nodes))
        at_once: list[tuple[str, Pod]] = []
        candidates: list[tuple[str, Pod]] = []
        for node in nodes:
            pods = [pod for pod in state.by_node.get(node.metadata.name, []) if pod_states.is_active(pod)]
            old = [pod for pod in pods if not state.is_updated(pod)]
            new = [pod for pod in pods if state.is_updated(pod)]
            if surge and old and new:
                room -= 1
            elif old and not new:
                useful = state.is_available(old[0])
                (candidates if useful else at_once).append((node.metadata.name, old[0]))
                room -= not useful and not surge
            elif not surge and not (new and state.is_available(new[0])):
                room -= 1
        chosen = at_once + candidates[: max(0, room)]
        if surge:
            plan.create += [node for node, _ in chosen]
        else:
            plan.delete += [pod for _, pod in chosen]

    # -- writing

    async def _create_and_delete_pods(self, state: _SyncState, plan: _PodPlan) -> CreationResult:
        owner = state.owner
        template = owner.spec.template
        labels = {**template.metadata.labels, POD_LABEL: state.hash}
        pods = []
        for node in plan.create:
            pod = self.pod_control.build_pod(owner, template, labels=labels)
            pod.spec = daemon_nodes.pin_spec_to_node(template.spec, node)
            pods.append(pod)
        outcome = await self.pod_control.create_pods(state.key, owner, template, pods) if pods else CreationResult()
        await self.pod_control.delete_pods(state.key, owner, plan.delete)
        return outcome

    async def _report_status(self, state: _SyncState, collisions: int | None) -> None:
        status = compute_status(state, self._nodes.objects(), collisions)
        reported = {condition.type for condition in state.owner.status.conditions}
        for condition in status.conditions:
            if condition.type not in reported:
                self.recorder.event(state.owner, "Warning", condition.reason, condition.message)
        await self.write_status(state.key, state.owner, status)


def compute_status(state: _SyncState, nodes: Collection[Node], collisions: int | None) -> DaemonSetStatus:
    """Compute a DaemonSet's status: numbers of nodes, and a condition if its affinity cannot be evaluated."""
    status = DaemonSetStatus(
        observed_generation=state.owner.metadata.generation,
        collision_count=collisions,
        conditions=_build_conditions(state),
    )
    for node in nodes:
        suitability = state.placement.evaluate(node)
        pods = state.by_node.get(node.metadata.name, [])
        should_run = suitability.should_run or (bool(pods) and not suitability.is_evaluated)
        pods = [pod for pod in pods if pod.spec.node_name or should_run]
        status.desired_number_scheduled += should_run
        if not pods:
            continue
        if not should_run:
            status.number_misscheduled += 1
            continue
        first = pods[0]
        status.current_number_scheduled += 1
        status.number_ready += states.is_ready(first)
        status.number_available += state.is_available(first)
        status.updated_number_scheduled += state.is_updated(first)
    status.number_unavailable = status.desired_number_scheduled - status.number_available
    return status


def _build_conditions(state: _SyncState) -> list[DaemonSetCondition]:
    before = {condition.type: condition for condition in state.owner.status.conditions}
    found = before.pop(NOT_EVALUATED, None)
    if not state.placement.off_operators:
        return list(before.values())
    message = (
        f"the template's node affinity uses {', '.join(state.placement.off_operators)}, whose feature gate is off here:"
        " pods on nodes that it decides about are kept, and none are made there"
    )
    if found is None or found.message != message:
        content = (NOT_EVALUATED, "True", "FeatureGateOff", message)
        found = build_condition(DaemonSetCondition, (), content, times.to_seconds(state.now))
    return [*before.values(), found]
