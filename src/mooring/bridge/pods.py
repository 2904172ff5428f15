"""Release gated pods with lowered constraints, and add tolerations for new taint values to running pods."""

from functools import lru_cache

from prometheus_client import Counter

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.annotations import validate_constraint_annotations
from mooring.admission.pod.rules import PodRules
from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.field_path import Path
from mooring.api.states import has_ended
from mooring.bridge import plan
from mooring.bridge.cluster import BridgedCluster
from mooring.client import Client, Informer, PatchType, key_of
from mooring.constraints import annotations
from mooring.controllers.controller import Context, Controller

COMPONENT = "mooring-bridge"
_RELEASED_LIMIT = 2
"""Released pods may have the labels that they had before a restart, after which gated pods may register first.

They are limited, because clients can write annotations and affinity of released pods themselves.
"""
RULES = PodRules(options=AdmissionOptions(), is_pod=True)
_ANNOTATIONS = Path("metadata.annotations")
_CHANGED = "the annotations were changed after the pod was released, which has no effect: make a new pod instead"
_NO_CONSTRAINTS = (
    f"spec.schedulingGates: the pod has the gate {annotations.GATE}, but neither of the annotations "
    f"{annotations.TOLERATIONS} and {annotations.NODE_AFFINITY}: add one, or take the gate away"
)


def find_problems(pod: Pod) -> list[str]:
    """Return the validation errors of a pod's constraint annotations; an empty list if they are valid."""
    given = pod.metadata.annotations
    is_lowered = plan.RELEASED in given and not plan.is_gated(pod)
    if pod.spec.affinity is not None and not is_lowered:
        return _validate_annotations(pod)
    return list(_find_problems_in_annotations(given.get(annotations.TOLERATIONS), given.get(annotations.NODE_AFFINITY)))


@lru_cache(maxsize=4096)
def _find_problems_in_annotations(tolerations: str | None, affinity: str | None) -> tuple[str, ...]:
    pod = Pod()
    texts = {annotations.TOLERATIONS: tolerations, annotations.NODE_AFFINITY: affinity}
    pod.metadata.annotations = {key: text for key, text in texts.items() if text is not None}
    return tuple(_validate_annotations(pod))


def _validate_annotations(pod: Pod) -> list[str]:
    return [str(error) for error in validate_constraint_annotations(pod, _ANNOTATIONS, RULES)]


class PodConstraintController(Controller):
    """The controller that releases pods with constraint annotations or the scheduling gate; reconciles them by key."""

    name = "bridge-pods"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        self._events = context.recorder(COMPONENT)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._known: dict[str, None] = {}
        """Keys of the pods with constraints or the gate, oldest first."""
        self._waiting: set[str] = set()
        """Keys of pods that wait for node labels."""
        self.follow(self._pods, self._register_rules)
        self._pods.add_handler(deleted=self._forget_pod)
        cluster.on_new_taints = self._enqueue_tolerating_pods
        cluster.on_current = lambda key: self.queue.add(key) if key in self._waiting else None
        self._released = Counter(
            "mooring_bridge_released_pods", "Pods released from the scheduling gate.", registry=context.registry
        )
        self._refused = Counter(
            "mooring_bridge_refused_pods", "Rejections of pods with invalid constraints.", registry=context.registry
        )

    def _register_rules(self, pod: Pod) -> None:
        """Register the pod's rules before anything is written."""
        key = key_of(pod)
        given = pod.metadata.annotations
        is_bridged = annotations.has_constraints(given) or plan.is_gated(pod) or plan.RELEASED in given
        if has_ended(pod) or not is_bridged:
            self._forget_pod(pod)
            return
        self._known[key] = None
        if not plan.was_changed_after_release(pod):  # else its old rules stay registered
            self._register_required(key, pod)
        self.queue.add(key)

    def _register_required(self, key: str, pod: Pod) -> str | None:
        rules = [] if find_problems(pod) else plan.required_rules(pod)
        return self._cluster.register(key, rules, limit=1 if plan.is_gated(pod) else _RELEASED_LIMIT)

    def _forget_pod(self, pod: Pod) -> None:
        key = key_of(pod)
        self._waiting.discard(key)
        if key in self._known:
            del self._known[key]
            self._cluster.unregister(key)

    def _enqueue_tolerating_pods(self) -> None:
        for key in self._known:
            pod = self._pods.by_key(key)
            if pod is not None and annotations.TOLERATIONS in pod.metadata.annotations:
                self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        pod = self._pods.by_key(key)
        self._waiting.discard(key)
        if pod is None or key not in self._known or pod.metadata.deletion_timestamp is not None:
            return
        if plan.was_changed_after_release(pod):
            self._events.event(pod, "Warning", "ConstraintsChanged", _CHANGED)
            return
        wrong = find_problems(pod) if annotations.has_constraints(pod.metadata.annotations) else [_NO_CONSTRAINTS]
        if wrong:
            self._record_refusal(pod, "InvalidConstraints", "; ".join(wrong))
            return
        excess = self._register_required(key, pod)
        if excess is not None:
            self._waiting.add(key)  # woken when other pods need fewer
            self._record_refusal(pod, "TooManyConstraints", f"{excess}; the pod stays as it is until others need fewer")
            return
        try:
            await (self._release(key, pod) if plan.is_gated(pod) else self._add_tolerations(pod))
        except plan.TooManyTaintsError as error:
            self._record_refusal(pod, "TooManyTaints", str(error))

    async def _release(self, key: str, pod: Pod) -> None:
        if not self._cluster.is_current_for(key):
            self._waiting.add(key)  # woken when the last node has its label
            return
        if await patch_pod(self.client, pod, plan.release(pod, self._cluster.facts())):
            self._released.inc()

    async def _add_tolerations(self, pod: Pod) -> None:
        if plan.RELEASED not in pod.metadata.annotations and pod.spec.node_name:
            return  # it was never gated
        operations = plan.additions(pod, self._cluster.facts())
        if operations:
            await patch_pod(self.client, pod, operations)

    def _record_refusal(self, pod: Pod, reason: str, note: str) -> None:
        self._refused.inc()
        self._events.event(pod, "Warning", reason, note, action="Releasing")


async def patch_pod(client: Client, pod: Pod, operations: list[plan.Operation]) -> bool:
    """Apply operations that test the pod's revision; return False if it is gone, raise Conflict if it changed.

    The server responds to a failed `test` with 422, as to an invalid pod: only the stored pod shows which it was.
    """
    metadata = pod.metadata
    try:
        await client.patch_unread(Pod, metadata.name, operations, metadata.namespace, type=PatchType.JSON)
    except errors.NotFound:
        return False
    except errors.Invalid as error:
        stored = await client.find(Pod, metadata.name, metadata.namespace)
        if stored is not None and stored.metadata.resource_version == metadata.resource_version:
            raise
        raise errors.conflict("pods", metadata.name) from error
    return True
