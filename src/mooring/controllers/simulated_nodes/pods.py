"""The kubelets of simulated nodes: pods start, run, end and stop by their rules.

Reconciles pods by key; ``pod_steps.py`` computes the next step, this module writes it. All waiting is done by the
queue. An unreachable node does nothing to its pods.
"""

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mooring.api import errors, times
from mooring.api.core_v1 import HostIP, Node, Pod, PodIP, PodSpec
from mooring.api.simulation import FAILURE, is_simulated, is_unreachable
from mooring.api.states import ENDED, has_ended
from mooring.base.token_bucket import TokenBucket
from mooring.client import Informer, key_of
from mooring.controllers.conditions import is_condition_true
from mooring.controllers.controller import Context, Controller
from mooring.controllers.simulated_nodes import pod_status
from mooring.controllers.simulated_nodes.addresses import PodAddressAllocator
from mooring.controllers.simulated_nodes.commands import (
    CommandEvaluator,
    PodRuns,
    StepsUsedUpError,
    is_image_absent,
    read_rules,
)
from mooring.controllers.simulated_nodes.pod_steps import (
    Rejection,
    Step,
    build_rejection_step,
    find_rejection,
    is_unchanged_until_update,
    next_step,
)
from mooring.controllers.taint_eviction import index_by_node

if TYPE_CHECKING:
    from mooring.controllers.programs.pods import ProgramPods

_MAX_CONTAINERS_WITH_EVENTS = 25
"""The recorder drops more events of one pod and reason; here they would use up the rate limit of other pods."""
_EVENTS_PER_SECOND, _MOST_EVENTS = 20.0, 200.0
_RETRY_SECONDS = 10.0
_NO_SPEC = PodSpec()
_REJECTION_SECONDS = 1.0
"""A pause before a rejection, so that a workload does not recreate the pod in a hot loop."""


class SimulatedPodController(Controller):
    """The controller that runs the pods of simulated nodes as kubelets would; reconciles pods by key."""

    name = "simulated-pods"
    workers = 512
    """The number of workers, enough to fill all concurrent batch writes (``client/batching.py``)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("kubelet")
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._by_node = index_by_node(self._pods)
        self._addresses = PodAddressAllocator()
        self._commands = CommandEvaluator(self.clock.monotonic)
        self._programs: ProgramPods | None = None
        if context.options.programs is not None:
            from mooring.controllers.programs import pods  # noqa: PLC0415 - most servers never need it

            self._programs = pods.ProgramPods(context.options.programs, context.client, self._recorder)
        self._events = TokenBucket.full(_EVENTS_PER_SECOND, _MOST_EVENTS, self.clock.monotonic())
        self._nodes.add_handler(
            added=self._enqueue_pods_of_node,
            updated=self._enqueue_pods_of_updated_node,
            deleted=lambda node: self._addresses.forget(node.metadata.name),
        )
        self.follow(self._pods, self._handle_changed_pod)
        self._pods.add_handler(deleted=self._handle_deleted_pod)

    def _enqueue_pods_of_node(self, node: Node) -> None:
        for pod in self._by_node.get(node.metadata.name):
            self.enqueue(pod)

    def _enqueue_pods_of_updated_node(self, old: Node, new: Node) -> None:
        woken = old.metadata.annotations.get(FAILURE) != new.metadata.annotations.get(FAILURE)
        if woken or old.status.addresses != new.status.addresses or is_simulated(old) != is_simulated(new):
            self._enqueue_pods_of_node(new)

    def _handle_changed_pod(self, pod: Pod) -> None:
        if not pod.spec.node_name:
            return
        if has_ended(pod):
            self._addresses.release(pod.spec.node_name, [pod.status.pod_ip], pod.metadata.uid)
        elif pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.mark_used(pod.spec.node_name, pod.status.pod_ip, pod.metadata.uid)
        if self._programs is not None or not is_unchanged_until_update(pod, read_rules(pod)):
            self.enqueue(pod)

    def _handle_deleted_pod(self, pod: Pod) -> None:
        self._addresses.release(pod.spec.node_name, [pod.status.pod_ip], pod.metadata.uid)
        self._commands.forget(pod)
        if self._programs is not None:
            self._programs.handle_deleted(pod)

    async def run(self) -> None:
        if self._programs is None:
            await super().run()
            return
        await self._programs.remove_leftovers(pod.metadata.uid for pod in self._pods.objects())
        try:
            await super().run()
        finally:
            await self._programs.close()

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None and pod.spec.node_name else None
        if pod is None or node is None or not is_simulated(node) or is_unreachable(node):
            return None
        rules = read_rules(pod)
        for complaint in rules.complaints:
            self._recorder.event(pod, "Warning", "SimulationRuleIgnored", complaint)
        now = self.clock.now()
        rejection, later = self._find_rejection(pod, node, now)
        if later is not None:
            return later
        if rejection is None and self._programs is not None and self._programs.is_handled(pod):
            place = (node.metadata.name, node.spec.pod_cidr, pod.metadata.uid)
            return (
                None
                if self._programs.handle_changed(pod, node, lambda: self._addresses.allocate(*place))
                else _RETRY_SECONDS
            )
        runs = PodRuns(self._commands, pod, rules)
        try:
            step = (
                build_rejection_step(pod, rejection, now) if rejection is not None else next_step(pod, rules, runs, now)
            )
        except StepsUsedUpError as error:
            return error.seconds
        if step.status is not None and not await self._write_step(pod, node, step):
            return _RETRY_SECONDS
        if step.status is None and step.remove:
            with suppress(errors.NotFound):
                meta = pod.metadata
                await self.client.delete_unread(Pod, meta.name, meta.namespace, grace_period_seconds=0, uid=meta.uid)
        return None if step.again_at is None else max((step.again_at - now).total_seconds(), 0.001)

    def _find_rejection(self, pod: Pod, node: Node, now: datetime) -> tuple[Rejection | None, float | None]:
        was_scheduled = is_condition_true(pod.status.conditions, "PodScheduled")
        if pod.status.start_time is not None or pod.metadata.deletion_timestamp is not None or was_scheduled:
            return None, None
        rejection = find_rejection(pod, node, self._by_node.get(node.metadata.name))
        created = times.parse(pod.metadata.creation_timestamp or times.to_seconds(now))
        left = _REJECTION_SECONDS - (now - created).total_seconds()
        return rejection, left if rejection is not None and left > 0 else None

    async def _write_step(self, pod: Pod, node: Node, step: Step) -> bool:
        status = dict(step.status or {})
        if status.get("phase") not in ENDED and not pod.status.pod_ip:
            found = self._allocate_address_fields(pod, node)
            if found is None:
                return False
            status |= found
        status["conditions"] = pod_status.merge_conditions(pod.status.conditions, status["conditions"])
        try:
            # An update is several times cheaper than a patch; on a conflict it is computed again.
            # A status update ignores the spec, so it is not sent.
            written = structs.replace(pod, spec=_NO_SPEC, status=structs.replace(pod.status, **status))
            if step.remove:
                await self.client.end_unread(written)
            else:
                await self.client.update_unread(written, subresource="status")
        except errors.NotFound:
            self._handle_deleted_pod(pod)
        else:
            self._record_events(pod, step)
        return True

    def _allocate_address_fields(self, pod: Pod, node: Node) -> dict[str, Any] | None:
        host = next((found.address for found in node.status.addresses if found.type == "InternalIP"), "")
        if not host:
            return None  # not registered yet
        fields: dict[str, Any] = {"host_ip": host, "host_ips": [HostIP(ip=host)]}
        address: str | None = host
        if not pod.spec.host_network:
            address = self._addresses.allocate(node.metadata.name, node.spec.pod_cidr, pod.metadata.uid)
        if address is None:
            self._recorder.event(pod, "Warning", "FailedCreatePodSandBox", "the node has no free address for pods")
            return None
        return fields | {"pod_ip": address, "pod_ips": [PodIP(ip=address)]}

    def _record_events(self, pod: Pod, step: Step) -> None:
        if not step.event:
            return
        events: list[tuple[Any, str, str]] = []
        if step.event == "Rejected" and step.status is not None:
            events.append(("Warning", step.status["reason"], step.status["message"]))
        else:
            for container in pod.spec.containers[:_MAX_CONTAINERS_WITH_EVENTS]:
                events += _build_container_events(pod, step.event, container.name, container.image)
        for kind, reason, note in events:
            if self._events.take(self.clock.monotonic()):
                return
            self._recorder.event(pod, kind, reason, note)


def _build_container_events(pod: Pod, event: str, container: str, image: str) -> list[tuple[Any, str, str]]:
    if event == "Started":
        return [
            ("Normal", "Pulled", f'Container image "{image}" already present on machine'),
            ("Normal", "Created", f"Container created: {container}"),
            ("Normal", "Started", f"Container started: {container}"),
        ]
    if event == "Failed":
        refused = f'Failed to pull image "{image}": not found'
        return [("Warning", "Failed", refused)] if is_image_absent(image) else []
    if event == "BackOff":
        where = f"{key_of(pod).replace('/', '_')}({pod.metadata.uid})"
        return [("Warning", "BackOff", f"Back-off restarting failed container {container} in pod {where}")]
    return [("Normal", "Killing", f"Stopping container {container}")]
