"""Releases gated pods, with their constraints said in stock words, and lets those that run tolerate new values."""

from functools import lru_cache

from prometheus_client import Counter

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.constraint_annotations import validate_constraint_annotations
from mooring.admission.pod.rules import PodRules
from mooring.api.core_v1 import Pod
from mooring.api.field_path import Path
from mooring.api.states import has_ended
from mooring.bridge import plan
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.pod_patch import patch_pod
from mooring.client import Informer, key_of
from mooring.constraints import annotations
from mooring.controllers.controller import Context, Controller

COMPONENT = "mooring-bridge"
RULES = PodRules(options=AdmissionOptions(), is_pod=True)
_ANNOTATIONS = Path("metadata", "annotations")
_CHANGED = "the annotations were changed after the pod was released, which has no effect: make a new pod instead"
_NO_CONSTRAINTS = (
    f"spec.schedulingGates: the pod has the gate {annotations.GATE}, but neither of the annotations "
    f"{annotations.TOLERATIONS} and {annotations.NODE_AFFINITY}: add one, or take the gate away"
)


def problems(pod: Pod) -> list[str]:
    """What is wrong with the constraints in a pod's annotations."""
    given = pod.metadata.annotations
    is_lowered = plan.RELEASED in given and not plan.is_gated(pod)
    if pod.spec.affinity is not None and not is_lowered:
        return _judged(pod)
    return list(_problems(given.get(annotations.TOLERATIONS), given.get(annotations.NODE_AFFINITY)))


@lru_cache(maxsize=4096)
def _problems(tolerations: str | None, affinity: str | None) -> tuple[str, ...]:
    """Pods of one template say the same, and each is looked at whenever its status changes."""
    pod = Pod()
    texts = {annotations.TOLERATIONS: tolerations, annotations.NODE_AFFINITY: affinity}
    pod.metadata.annotations = {key: text for key, text in texts.items() if text is not None}
    return tuple(_judged(pod))


def _judged(pod: Pod) -> list[str]:
    return [str(error) for error in validate_constraint_annotations(pod, _ANNOTATIONS, RULES)]


class PodConstraints(Controller):
    """Works on pods with the annotations."""

    name = "bridge-pods"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        self._events = context.recorder(COMPONENT)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._known: dict[str, None] = {}
        """Keys of the pods with constraints or with the gate, in the order in which they came."""
        self._waiting: set[str] = set()
        """Those of them that wait for the labels of nodes."""
        self._pods.add_handler(added=self._changed, updated=lambda _, new: self._changed(new), deleted=self._left)
        cluster.on_new_taints = self._look_at_tolerating
        cluster.on_current = lambda key: self.queue.add(key) if key in self._waiting else None
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
        if has_ended(pod) or not _concerns_us(pod):
            self._left(pod)
            return
        self._known[key] = None
        if not plan.was_changed_after_release(pod):  # else it goes on to need what it was released with
            self._ask(key, pod)
        self.queue.add(key)

    def _ask(self, key: str, pod: Pod) -> str | None:
        """Register what the pod asks for; return which limit keeps a gated one from it."""
        rules = [] if problems(pod) else plan.wanted(pod)
        return self._cluster.is_asked(key, rules, is_limited=plan.is_gated(pod))

    def _left(self, pod: Pod) -> None:
        key = key_of(pod)
        self._waiting.discard(key)
        if self._known.pop(key, _NOT_THERE) is not _NOT_THERE:
            self._cluster.asks_no_more(key)

    def _look_at_tolerating(self) -> None:
        for key in self._known:
            pod = self._pods.by_key(key)
            if pod is not None and annotations.TOLERATIONS in pod.metadata.annotations:
                self.queue.add(key)

    # -- what is done

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        self._waiting.discard(key)
        if pod is None or key not in self._known or pod.metadata.deletion_timestamp is not None:
            return None
        if plan.was_changed_after_release(pod):
            self._events.event(pod, "Warning", "ConstraintsChanged", _CHANGED)
            return None
        wrong = problems(pod) if annotations.are_in(pod.metadata.annotations) else [_NO_CONSTRAINTS]
        if wrong:
            self._refuse(pod, "InvalidConstraints", "; ".join(wrong))
            return None
        try:
            await (self._release(key, pod) if plan.is_gated(pod) else self._follow(pod))
        except plan.TooManyTaintsError as error:
            self._refuse(pod, "TooManyTaints", str(error))
        return None

    async def _release(self, key: str, pod: Pod) -> None:
        excess = self._ask(key, pod)
        if excess is not None:
            self._waiting.add(key)  # woken when other pods need fewer
            self._refuse(pod, "TooManyConstraints", f"{excess}; the pod stays gated until others need fewer")
            return
        if not self._cluster.is_current_for(key):
            self._waiting.add(key)  # woken when the last node has its label
            return
        if await patch_pod(self.client, pod, plan.release(pod, self._cluster.facts())):
            self._released.inc()

    async def _follow(self, pod: Pod) -> None:
        """Let a released pod tolerate what it should."""
        if plan.RELEASED not in pod.metadata.annotations and pod.spec.node_name:
            return  # it never waited for the bridge: nobody promised anything
        operations = plan.additions(pod, self._cluster.facts())
        if operations:
            await patch_pod(self.client, pod, operations)

    def _refuse(self, pod: Pod, reason: str, note: str) -> None:
        self._refused.inc()
        self._events.event(pod, "Warning", reason, note, action="Releasing")


def _concerns_us(pod: Pod) -> bool:
    given = pod.metadata.annotations
    return annotations.are_in(given) or plan.is_gated(pod) or plan.RELEASED in given


_NOT_THERE = object()
