"""StatefulSets: pods with a stable name, ordinal and storage.

OrderedReady handles one pod at a time: they are created from the lowest ordinal up, each when the one before is
available, and removed from the highest down. Parallel handles all at once. A rolling update replaces pods from the
highest ordinal down to the partition, at most `maxUnavailable` at a time (one while MaxUnavailableStatefulSet is off).
Each pass does what is possible now. Names, volumes and update order: ``stateful_pods.py``.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from itertools import islice

import msgspec

from mooring.api import errors, label_selector, states
from mooring.api.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from mooring.api.core_v1 import PersistentVolumeClaim, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import OwnerReference
from mooring.client import PatchType
from mooring.controllers.controller import Context
from mooring.controllers.workloads import pod_states, revisions, stateful_pods
from mooring.controllers.workloads.ownership import controller_reference
from mooring.controllers.workloads.pod_control import LARGEST_BATCH, growing_batches
from mooring.controllers.workloads.revisions import History, Revisions
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, Workload, min_wait


class _Pass(msgspec.Struct):
    key: str
    owner: StatefulSet
    ref: OwnerReference
    current: ControllerRevision
    update: ControllerRevision
    pods: dict[int, Pod]
    condemned: list[Pod]
    """The pods that scaling down removes, highest ordinal first."""
    now: datetime

    @property
    def one_by_one(self) -> bool:
        return stateful_pods.is_ordered(self.owner)

    def is_ready(self, pod: Pod) -> bool:
        running = pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        return running and states.is_ready(pod)

    def is_available(self, pod: Pod) -> bool:
        seconds = self.owner.spec.min_ready_seconds
        return self.is_ready(pod) and (not seconds or pod_states.is_available(pod, seconds, self.now))

    def is_old(self, pod: Pod) -> bool:
        newest = self.update.metadata.name
        return pod.metadata.deletion_timestamp is None and stateful_pods.revision_of(pod) != newest


class StatefulSetController(Workload[StatefulSet]):
    """Reconcile StatefulSets."""

    name = "statefulset"
    component = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, StatefulSet)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._revisions = Revisions(context.informers, self.expectations)
        self._at_once = context.options.stateful_pods_at_once
        self.follow_pods()

    async def sync(self, key: str, owner: StatefulSet) -> float | None:
        selector = label_selector.from_label_selector(owner.spec.selector)
        pods = await self.pods.claim(owner, selector, lambda pod: stateful_pods.is_member(owner, pod))
        if owner.metadata.deletion_timestamp is not None:
            return None
        collisions = owner.status.collision_count
        history = await self._revisions.history(key, owner, owner.spec, selector, collisions)
        look = self._look(key, owner, pods, history)
        problem: StatusError | None = None
        wait: float | None = None
        try:
            wait = await self._act(look)
        except StatusError as error:
            problem = error
        await self.write_status(key, owner, new_status(look, history.collisions))
        used = {look.current.metadata.name, *map(stateful_pods.revision_of, pods)}
        await self._revisions.truncate(key, owner.spec, history, used)
        if problem is not None:
            raise problem
        again = LOOK_AGAIN_SECONDS if key in self.unfinished else None
        return min_wait(wait, again, pod_states.next_availability(pods, owner.spec.min_ready_seconds, look.now))

    def _look(self, key: str, owner: StatefulSet, pods: Sequence[Pod], history: History) -> _Pass:
        wanted = stateful_pods.ordinals(owner)
        numbered = [(stateful_pods.ordinal_of(pod), pod) for pod in pods]
        condemned = [(number, pod) for number, pod in numbered if number not in wanted]
        return _Pass(
            key=key,
            owner=owner,
            ref=controller_reference(self.client, owner),
            current=revisions.by_name(history.revisions, owner.status.current_revision) or history.update,
            update=history.update,
            pods={number: pod for number, pod in numbered if number in wanted},
            condemned=[pod for _, pod in sorted(condemned, key=lambda entry: entry[0], reverse=True)],
            now=self.clock.now(),
        )

    async def _act(self, look: _Pass) -> float | None:
        """Create, remove and replace pods as far as possible now; return when to retry rejected ones."""
        await self._settle_claims(look)
        await self._repair(look)
        vacant = (ordinal for ordinal in stateful_pods.ordinals(look.owner) if ordinal not in look.pods)
        missing = list(islice(vacant, 1 if look.one_by_one else LARGEST_BATCH))
        if missing and not look.one_by_one:
            wait = await self._create(look, missing)
            if wait is not None:
                return wait
            if len(missing) == LARGEST_BATCH:
                self.unfinished.add(look.key)
        for ordinal in sorted(look.pods):
            pod = look.pods[ordinal]
            if look.one_by_one and missing and missing[0] < ordinal:
                return await self._create(look, missing)
            if states.has_ended(pod) and pod.metadata.deletion_timestamp is None:
                state = "Failed" if pod.status.phase == "Failed" else "Terminated"
                text = f"StatefulSet {look.key} is recreating {state.lower()} Pod {pod.metadata.name}"
                self.recorder.event(look.owner, "Warning", f"Recreating{state}Pod", text)
                await self.pod_control.delete(look.key, look.owner, [pod])
                if look.one_by_one:
                    return None
            elif look.one_by_one and not look.is_available(pod):
                return None
        if look.one_by_one and missing:
            return await self._create(look, missing)
        if not await self._remove_condemned(look):
            return None
        if look.owner.spec.update_strategy.type == "RollingUpdate":
            doomed = stateful_pods.to_replace(
                look.owner, look.pods, is_old=look.is_old, works=look.is_available, at_once=self._at_once
            )
            await self.pod_control.delete(look.key, look.owner, doomed)
        return None

    async def _repair(self, look: _Pass) -> None:
        for ordinal, pod in look.pods.items():
            meta = pod.metadata
            if meta.deletion_timestamp is None and not stateful_pods.has_identity(look.owner, ordinal, pod):
                wanted = stateful_pods.identity_labels(look.owner, ordinal)
                body = {"metadata": {"uid": meta.uid, "labels": wanted}}
                written = await self.client.patch(Pod, meta.name, body, meta.namespace)
                self.expectations.wrote(look.key, self.pods.informer, written)

    async def _create(self, look: _Pass, ordinals: Sequence[int]) -> float | None:
        owner, first = look.owner, stateful_pods.first_updated(look.owner)
        old = [ordinal for ordinal in ordinals if ordinal < first]
        new = [ordinal for ordinal in ordinals if ordinal >= first]
        for revision, numbers in ((look.current, old), (look.update, new)):
            if not numbers:
                continue
            await self._create_claims(look, numbers)
            template, name = revisions.template_of(revision), revision.metadata.name
            pods = [stateful_pods.new_pod(owner, ordinal, template, name, look.ref) for ordinal in numbers]
            outcome = await self.pod_control.create(look.key, owner, template, pods)
            if outcome.error is not None and outcome.wait is None:
                raise outcome.error
            if outcome.wait is not None:
                return outcome.wait
        return None

    async def _remove_condemned(self, look: _Pass) -> bool:
        """Remove surplus pods, highest first; return False while one must be waited for."""
        if not look.one_by_one:
            going = [pod for pod in look.condemned if pod.metadata.deletion_timestamp is None]
            await self.pod_control.delete(look.key, look.owner, going)
            return True
        unhealthy = [pod for pod in (*look.pods.values(), *reversed(look.condemned)) if not look.is_available(pod)]
        for pod in look.condemned:
            if pod.metadata.deletion_timestamp is not None:
                return False
            if unhealthy and unhealthy[0] is not pod and not look.is_available(pod):
                return False
            await self.pod_control.delete(look.key, look.owner, [pod])
            return False
        return True

    async def _create_claims(self, look: _Pass, ordinals: Sequence[int]) -> None:
        if not look.owner.spec.volume_claim_templates:
            return
        missing = [
            (ordinal, claim)
            for ordinal in ordinals
            for claim in stateful_pods.claims(look.owner, ordinal, look.ref)
            if self._claims.get(claim.metadata.name, claim.metadata.namespace) is None
        ]
        for batch in growing_batches(missing):
            answers = await asyncio.gather(*(self._create_claim(look, *each) for each in batch), return_exceptions=True)
            for answer in answers:
                if answer is not None:
                    raise answer

    async def _create_claim(self, look: _Pass, ordinal: int, claim: PersistentVolumeClaim) -> None:
        try:
            await self.client.create(claim)
        except errors.AlreadyExists:
            return
        except StatusError as error:
            message = f"create Claim {claim.metadata.name} in StatefulSet {look.owner.metadata.name} failed: {error}"
            self.recorder.event(look.owner, "Warning", "FailedCreate", message)
            raise
        message = (
            f"create Claim {claim.metadata.name} Pod {stateful_pods.pod_name(look.owner, ordinal)} "
            f"in StatefulSet {look.owner.metadata.name} success"
        )
        self.recorder.event(look.owner, "Normal", "SuccessfulCreate", message)

    async def _settle_claims(self, look: _Pass) -> None:
        """Set claims' owners by the retention policy, before a pod is removed."""
        if not look.owner.spec.volume_claim_templates:
            return
        for pod in (*look.pods.values(), *look.condemned):
            condemned = stateful_pods.ordinal_of(pod) not in stateful_pods.ordinals(look.owner)
            for template in look.owner.spec.volume_claim_templates:
                name = stateful_pods.claim_name(look.owner, template, stateful_pods.ordinal_of(pod))
                claim = self._claims.get(name, look.owner.metadata.namespace)
                if claim is None:
                    continue
                owners = stateful_pods.claim_owners(look.owner, look.ref, pod, claim, condemned=condemned)
                if owners != claim.metadata.owner_references:
                    body = {"metadata": {"uid": claim.metadata.uid, "ownerReferences": owners}}
                    written = await self.client.patch(
                        PersistentVolumeClaim, name, body, claim.metadata.namespace, type=PatchType.MERGE
                    )
                    self.expectations.wrote(look.key, self._claims, written)


def new_status(look: _Pass, collisions: int | None) -> StatefulSetStatus:
    """Return the status. An update whose pods are all ready becomes the current revision."""
    pods = [*look.pods.values(), *look.condemned]
    made = [stateful_pods.revision_of(pod) for pod in pods if pod.metadata.deletion_timestamp is None]
    ready = [pod for pod in pods if look.is_ready(pod)]
    status = StatefulSetStatus(
        observed_generation=look.owner.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(map(look.is_available, ready)) if look.owner.spec.min_ready_seconds else len(ready),
        current_replicas=made.count(look.current.metadata.name),
        updated_replicas=made.count(look.update.metadata.name),
        current_revision=look.current.metadata.name,
        update_revision=look.update.metadata.name,
        collision_count=collisions,
        conditions=look.owner.status.conditions,
    )
    rolling = look.owner.spec.update_strategy.type == "RollingUpdate"
    if rolling and status.updated_replicas == status.ready_replicas == status.replicas:
        status.current_replicas = status.updated_replicas
        status.current_revision = status.update_revision
    return status
