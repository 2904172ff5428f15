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
from mooring.controllers.workloads.ownership import build_controller_reference
from mooring.controllers.workloads.pod_control import LARGEST_BATCH, CreationResult, split_into_growing_batches
from mooring.controllers.workloads.revisions import RevisionHistory, Revisions
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, WorkloadController, find_shortest_wait


class _SyncState(msgspec.Struct):
    """A StatefulSet, its current and update revision, and its pods by ordinal, as read in one reconcile."""

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
    def is_one_by_one(self) -> bool:
        return stateful_pods.is_ordered(self.owner)

    def is_ready(self, pod: Pod) -> bool:
        running = pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        return running and states.is_ready(pod)

    def is_available(self, pod: Pod) -> bool:
        return self.is_ready(pod) and pod_states.is_available(pod, self.owner.spec.min_ready_seconds, self.now)

    def is_outdated(self, pod: Pod) -> bool:
        newest = self.update.metadata.name
        return pod.metadata.deletion_timestamp is None and stateful_pods.revision_of(pod) != newest


class StatefulSetController(WorkloadController[StatefulSet]):
    """The controller of StatefulSets: creates, replaces and deletes their pods and volume claims in order."""

    name = "statefulset"
    component = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, StatefulSet)
        self._claims = context.informers.of(PersistentVolumeClaim)
        self._revisions = Revisions(context.informers, self.expectations)
        self._at_once = context.options.stateful_pods_at_once
        self.follow_children(self.pods)

    async def sync(self, key: str, owner: StatefulSet) -> float | None:
        selector = label_selector.from_label_selector(owner.spec.selector)
        pods = await self.pods.claim(owner, selector, lambda pod: stateful_pods.is_member(owner, pod))
        if owner.metadata.deletion_timestamp is not None:
            return None
        collisions = owner.status.collision_count
        history = await self._revisions.ensure_current_revision(key, owner, owner.spec, selector, collisions)
        state = self._build_sync_state(key, owner, pods, history)
        problem: StatusError | None = None
        wait: float | None = None
        try:
            wait = await self._update_pods(state)
        except StatusError as error:
            problem = error
        await self.write_status(key, owner, compute_status(state, history.collisions))
        used = {state.current.metadata.name, *map(stateful_pods.revision_of, pods)}
        await self._revisions.delete_old_revisions(key, owner.spec, history, used)
        if problem is not None:
            raise problem
        again = LOOK_AGAIN_SECONDS if key in self.unfinished else None
        return find_shortest_wait(
            wait, again, pod_states.seconds_to_next_availability(pods, owner.spec.min_ready_seconds, state.now)
        )

    def _build_sync_state(
        self, key: str, owner: StatefulSet, pods: Sequence[Pod], history: RevisionHistory
    ) -> _SyncState:
        wanted = stateful_pods.ordinals(owner)
        numbered = [(stateful_pods.parse_ordinal(pod), pod) for pod in pods]
        condemned = [(number, pod) for number, pod in numbered if number not in wanted]
        named = (each for each in history.revisions if each.metadata.name == owner.status.current_revision)
        return _SyncState(
            key=key,
            owner=owner,
            ref=build_controller_reference(self.client, owner),
            current=next(named, history.update),
            update=history.update,
            pods={number: pod for number, pod in numbered if number in wanted},
            condemned=[pod for _, pod in sorted(condemned, key=lambda entry: entry[0], reverse=True)],
            now=self.clock.now(),
        )

    async def _update_pods(self, state: _SyncState) -> float | None:
        """Create, delete and replace pods as far as possible now; return the seconds to wait after a rejection."""
        await self._write_claim_owners(state)
        await self._restore_identity_labels(state)
        vacant = (ordinal for ordinal in stateful_pods.ordinals(state.owner) if ordinal not in state.pods)
        missing = list(islice(vacant, 1 if state.is_one_by_one else LARGEST_BATCH))
        if missing and not state.is_one_by_one:
            wait = await self._create_pods(state, missing)
            if wait is not None:
                return wait
            if len(missing) == LARGEST_BATCH:
                self.unfinished.add(state.key)
        for ordinal in sorted(state.pods):
            pod = state.pods[ordinal]
            if state.is_one_by_one and missing and missing[0] < ordinal:
                return await self._create_pods(state, missing)
            if states.has_ended(pod) and pod.metadata.deletion_timestamp is None:
                ending = "Failed" if pod.status.phase == "Failed" else "Terminated"
                text = f"StatefulSet {state.key} is recreating {ending.lower()} Pod {pod.metadata.name}"
                self.recorder.event(state.owner, "Warning", f"Recreating{ending}Pod", text)
                await self.pod_control.delete_pods(state.key, state.owner, [pod])
                if state.is_one_by_one:
                    return None
            elif state.is_one_by_one and not state.is_available(pod):
                return None
        if state.is_one_by_one and missing:
            return await self._create_pods(state, missing)
        if not await self._delete_condemned_pods(state):
            return None
        if state.owner.spec.update_strategy.type == "RollingUpdate":
            doomed = stateful_pods.find_pods_to_replace(
                state.owner,
                state.pods,
                is_outdated=state.is_outdated,
                is_available=state.is_available,
                at_once=self._at_once,
            )
            await self.pod_control.delete_pods(state.key, state.owner, doomed)
        return None

    async def _restore_identity_labels(self, state: _SyncState) -> None:
        for ordinal, pod in state.pods.items():
            meta = pod.metadata
            wanted = stateful_pods.identity_labels(state.owner, ordinal)
            if meta.deletion_timestamp is None and not wanted.items() <= meta.labels.items():
                body = {"metadata": {"uid": meta.uid, "labels": wanted}}
                written = await self.client.patch(Pod, meta.name, body, meta.namespace)
                self.expectations.record_write(state.key, self.pods.informer, written)

    async def _create_pods(self, state: _SyncState, ordinals: Sequence[int]) -> float | None:
        owner, first = state.owner, stateful_pods.first_updated_ordinal(state.owner)
        old = [ordinal for ordinal in ordinals if ordinal < first]
        new = [ordinal for ordinal in ordinals if ordinal >= first]
        for revision, numbers in ((state.current, old), (state.update, new)):
            if not numbers:
                continue
            failed = await self._create_claims(state, numbers)
            template, name = revisions.decode_template(revision), revision.metadata.name
            having_claims = [ordinal for ordinal in numbers if ordinal not in failed]
            pods = [stateful_pods.build_pod(owner, ordinal, template, name, state.ref) for ordinal in having_claims]
            outcome = await self.pod_control.create_pods(state.key, owner, template, pods) if pods else CreationResult()
            if failed:
                raise next(iter(failed.values()))
            if outcome.error is not None and outcome.wait is None:
                raise outcome.error
            if outcome.wait is not None:
                return outcome.wait
        return None

    async def _delete_condemned_pods(self, state: _SyncState) -> bool:
        """Delete surplus pods, highest ordinal first; return False while the caller must wait for a deletion."""
        if not state.is_one_by_one:
            going = [pod for pod in state.condemned if pod.metadata.deletion_timestamp is None]
            await self.pod_control.delete_pods(state.key, state.owner, going)
            return True
        if not state.condemned:
            return True
        pod, in_order = state.condemned[0], (*state.pods.values(), *reversed(state.condemned))
        first_unhealthy = next((each for each in in_order if not state.is_available(each)), pod)
        if pod.metadata.deletion_timestamp is None and (first_unhealthy is pod or state.is_available(pod)):
            await self.pod_control.delete_pods(state.key, state.owner, [pod])
        return False

    async def _create_claims(self, state: _SyncState, ordinals: Sequence[int]) -> dict[int, BaseException]:
        """Create missing volume claims in batches until one fails; return the error by ordinal that lacks claims."""
        if not state.owner.spec.volume_claim_templates:
            return {}
        missing = [
            (ordinal, claim)
            for ordinal in ordinals
            for claim in stateful_pods.build_claims(state.owner, ordinal, state.ref)
            if self._claims.get(claim.metadata.name, claim.metadata.namespace) is None
        ]
        tried = 0
        for batch in split_into_growing_batches(missing):
            answers = await asyncio.gather(
                *(self._create_claim(state, *each) for each in batch), return_exceptions=True
            )
            tried += len(batch)
            failed = {ordinal: error for (ordinal, _), error in zip(batch, answers, strict=True) if error is not None}
            if failed:
                first = next(iter(failed.values()))
                return failed | {ordinal: first for ordinal, _ in missing[tried:]}
        return {}

    async def _create_claim(self, state: _SyncState, ordinal: int, claim: PersistentVolumeClaim) -> None:
        try:
            await self.client.create(claim)
        except errors.AlreadyExists:
            return
        except StatusError as error:
            message = f"create Claim {claim.metadata.name} in StatefulSet {state.owner.metadata.name} failed: {error}"
            self.recorder.event(state.owner, "Warning", "FailedCreate", message)
            raise
        message = (
            f"create Claim {claim.metadata.name} Pod {stateful_pods.pod_name(state.owner, ordinal)} "
            f"in StatefulSet {state.owner.metadata.name} success"
        )
        self.recorder.event(state.owner, "Normal", "SuccessfulCreate", message)

    async def _write_claim_owners(self, state: _SyncState) -> None:
        """Write the owner references of volume claims by the retention policy, before pods are deleted."""
        if not state.owner.spec.volume_claim_templates:
            return
        for pod in (*state.pods.values(), *state.condemned):
            condemned = stateful_pods.parse_ordinal(pod) not in stateful_pods.ordinals(state.owner)
            for template in state.owner.spec.volume_claim_templates:
                name = stateful_pods.claim_name(state.owner, template, stateful_pods.parse_ordinal(pod))
                claim = self._claims.get(name, state.owner.metadata.namespace)
                if claim is None:
                    continue
                owners = stateful_pods.find_claim_owners(state.owner, state.ref, pod, claim, condemned=condemned)
                if owners != claim.metadata.owner_references:
                    body = {"metadata": {"uid": claim.metadata.uid, "ownerReferences": owners}}
                    written = await self.client.patch(
                        PersistentVolumeClaim, name, body, claim.metadata.namespace, type=PatchType.MERGE
                    )
                    self.expectations.record_write(state.key, self._claims, written)


def compute_status(state: _SyncState, collisions: int | None) -> StatefulSetStatus:
    """Compute a StatefulSet's status; the update revision becomes the current one when all its pods are ready."""
    pods = [*state.pods.values(), *state.condemned]
    made = [stateful_pods.revision_of(pod) for pod in pods if pod.metadata.deletion_timestamp is None]
    ready = [pod for pod in pods if state.is_ready(pod)]
    status = StatefulSetStatus(
        observed_generation=state.owner.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(map(state.is_available, ready)),
        current_replicas=made.count(state.current.metadata.name),
        updated_replicas=made.count(state.update.metadata.name),
        current_revision=state.current.metadata.name,
        update_revision=state.update.metadata.name,
        collision_count=collisions,
        conditions=state.owner.status.conditions,
    )
    rolling = state.owner.spec.update_strategy.type == "RollingUpdate"
    if rolling and status.updated_replicas == status.ready_replicas == status.replicas:
        status.current_replicas = status.updated_replicas
        status.current_revision = status.update_revision
    return status
