"""Releases gated pods, with their constraints said in stock words, and lets those that run tolerate new values."""

from prometheus_client import Counter

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.constraint_annotations import validate_constraint_annotations
from mooring.admission.pod.rules import PodRules
from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.field_path import Path
from mooring.api.states import has_ended
from mooring.bridge import plan
from mooring.bridge.cluster import BridgedCluster
from mooring.client import Informer, PatchType, key_of
from mooring.constraints import annotations
from mooring.controllers.controller import Context, Controller

COMPONENT = "mooring-bridge"
RULES = PodRules(options=AdmissionOptions(), is_pod=True)
_ANNOTATIONS = Path("metadata", "annotations")


def problems(pod: Pod) -> list[str]:
    """What is wrong with the constraints in a pod's annotations."""
    return [str(error) for error in validate_constraint_annotations(pod, _ANNOTATIONS, RULES)]


class PodConstraints(Controller):
    """Works on pods with the annotations."""

    name = "bridge-pods"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        self._events = context.recorder(COMPONENT)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._annotated: dict[str, None] = {}
        """Keys of the pods with constraints, in the order in which they came."""
        self._pods.add_handler(added=self._changed, updated=lambda _, new: self._changed(new), deleted=self._left)
        cluster.on_new_taints = self._look_at_all
        cluster.on_current = lambda key: self.queue.add(key) if key in self._annotated else None
        self._released = Counter(
            "mooring_bridge_released_pods", "Pods whose gate was taken away.", registry=context.registry
        )
        self._refused = Counter(
            "mooring_bridge_refused_pods", "Times that a pod's constraints were not valid.", registry=context.registry
        )

    # -- what is told

    def _changed(self, pod: Pod) -> None:
        """Before anything is written, the cluster knows what the pod asks for."""
        key = key_of(pod)
        if not annotations.are_in(pod.metadata.annotations) or has_ended(pod):
            self._left(pod)
            return
        self._annotated[key] = None
        self._cluster.is_asked(key, [] if problems(pod) else plan.wanted(pod))
        self.queue.add(key)

    def _left(self, pod: Pod) -> None:
        if self._annotated.pop(key_of(pod), _NOT_THERE) is not _NOT_THERE:
            self._cluster.asks_no_more(key_of(pod))

    def _look_at_all(self) -> None:
        for key in self._annotated:
            self.queue.add(key)

    # -- what is done

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        if pod is None or key not in self._annotated or pod.metadata.deletion_timestamp is not None:
            return None
        wrong = problems(pod)
        if wrong:
            self._refuse(pod, "InvalidConstraints", "; ".join(wrong))
            return None
        try:
            await (self._release(key, pod) if plan.is_gated(pod) else self._follow(pod))
        except plan.TooManyTaintsError as error:
            self._refuse(pod, "TooManyTaints", str(error))
        return None

    async def _release(self, key: str, pod: Pod) -> None:
        if not self._cluster.is_current_for(key):
            return  # woken when the last node has its label
        if await self._patch(pod, plan.release(pod, self._cluster.facts())):
            self._released.inc()

    async def _follow(self, pod: Pod) -> None:
        """Let a released pod tolerate what it should. Annotations that were changed afterwards have no effect."""
        released = pod.metadata.annotations.get(plan.RELEASED)
        if released is not None and released != plan.digest(pod):
            note = (
                "the annotations were changed after the pod was released, which has no effect: make a new pod instead"
            )
            self._events.event(pod, "Warning", "ConstraintsChanged", note)
            return
        if released is None and pod.spec.node_name:
            return  # it never waited for the bridge: nobody promised anything
        operations = plan.additions(pod, self._cluster.facts().taints)
        if operations:
            await self._patch(pod, operations)

    async def _patch(self, pod: Pod, operations: list[plan.Operation]) -> bool:
        metadata = pod.metadata
        try:
            await self.client.patch(Pod, metadata.name, operations, metadata.namespace, type=PatchType.JSON)
        except errors.NotFound:
            return False
        return True

    def _refuse(self, pod: Pod, reason: str, note: str) -> None:
        self._refused.inc()
        self._events.event(pod, "Warning", reason, note, action="Releasing")


_NOT_THERE = object()
