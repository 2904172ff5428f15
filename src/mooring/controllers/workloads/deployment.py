"""Deployments: a ReplicaSet for each template, and the rollout from one to the next.

    sync: find the ReplicaSet of the template and the old ones
          terminating        → write the status only
          paused, or scaled  → keep sizes, or scale them in proportion
          Recreate           → scale old ones to 0, wait for their pods to end, then scale the new one
          RollingUpdate      → scale the new one up within the surge, old ones down within availability
          then: status, conditions, old revisions beyond the limit

Each pass takes one step and is repeated when the ReplicaSets have followed. Sizes are computed in
``deployment_pace.py``, templates and revisions in ``deployment_replica_sets.py``.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import structs

from mooring.api import errors, label_selector, states, times
from mooring.api.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.api.states import controller_of
from mooring.client import Change
from mooring.controllers.conditions import build_condition, find_condition
from mooring.controllers.controller import Context
from mooring.controllers.workloads import deployment_pace as pace
from mooring.controllers.workloads import deployment_replica_sets as replica_sets
from mooring.controllers.workloads.ownership import Children, build_controller_reference
from mooring.controllers.workloads.pod_control import is_namespace_terminating
from mooring.controllers.workloads.replicas import REPLICA_FAILURE
from mooring.controllers.workloads.workload import WorkloadController, find_shortest_wait

AVAILABLE, PROGRESSING = "Available", "Progressing"
NEW_AVAILABLE, UPDATED, TIMED_OUT = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
CREATED, FOUND, CREATE_ERROR = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetCreateError"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
NO_DEADLINE = 2**31 - 1

Conditions = Sequence[DeploymentCondition]


def _without_condition(conditions: Conditions, kind: str) -> list[DeploymentCondition]:
    return [each for each in conditions if each.type != kind]


def with_condition(
    conditions: Conditions, kind: str, content: tuple[str, str, str], now: datetime, *, always: bool = False
) -> list[DeploymentCondition]:
    """Return the conditions with that of type `kind` set; unless `always`, not if only its message would change."""
    before = find_condition(conditions, kind)
    if not always and before is not None and (before.status, before.reason) == content[:2]:
        return list(conditions)
    stamp = times.to_seconds(now)
    condition = build_condition(DeploymentCondition, conditions, (kind, *content), stamp, last_update_time=stamp)
    return [*_without_condition(conditions, kind), condition]


def has_progress_deadline(deployment: Deployment) -> bool:
    deadline = deployment.spec.progress_deadline_seconds
    return deadline is not None and deadline != NO_DEADLINE


def compute_status_counts(
    deployment: Deployment, conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return a Deployment's status with its pod counts and the condition Available; other conditions are kept."""
    available = sum(each.status.available_replicas for each in sets)
    if available >= pace.wanted_replicas(deployment) - pace.max_unavailable(deployment):
        content = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        content = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    terminating = [each.status.terminating_replicas for each in sets]
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(0, pace.total_replicas(sets) - available),
        terminating_replicas=None if None in terminating else sum(number or 0 for number in terminating),
        conditions=with_condition(conditions, AVAILABLE, content, now),
        collision_count=deployment.status.collision_count,
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all pods have the current template and are available, and no others exist."""
    wanted = pace.wanted_replicas(deployment)
    return (
        status.updated_replicas == status.replicas == status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def _has_progressed(deployment: Deployment, status: DeploymentStatus) -> bool:
    before = deployment.status
    return (
        status.updated_replicas > before.updated_replicas
        or status.replicas - status.updated_replicas < before.replicas - before.updated_replicas
        or status.ready_replicas > before.ready_replicas
        or status.available_replicas > before.available_replicas
    )


def seconds_to_deadline(deployment: Deployment, conditions: Conditions, now: datetime) -> float | None:
    """Return the seconds until a rollout without further progress has failed; None if none is in progress."""
    condition = find_condition(conditions, PROGRESSING)
    if condition is None or not has_progress_deadline(deployment) or condition.reason in (NEW_AVAILABLE, TIMED_OUT):
        return None
    since = times.parse(condition.last_update_time) if condition.last_update_time else now
    deadline = times.add_seconds(since, deployment.spec.progress_deadline_seconds or 0)
    return (deadline - now).total_seconds()


def _has_rollout_timed_out(deployment: Deployment, conditions: Conditions, now: datetime) -> bool:
    condition = find_condition(conditions, PROGRESSING)
    if condition is not None and condition.reason == TIMED_OUT:
        return True
    left = seconds_to_deadline(deployment, conditions, now)
    return left is not None and left < 0


def compute_rollout_status(
    deployment: Deployment, conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return a Deployment's status during and after a rollout: counts, and the conditions that describe progress."""
    status = compute_status_counts(deployment, conditions, new, sets, now)
    found = status.conditions
    if not has_progress_deadline(deployment):
        found = _without_condition(found, PROGRESSING)
    progress = find_condition(found, PROGRESSING)
    was_complete = (
        status.replicas == status.updated_replicas and progress is not None and progress.reason == NEW_AVAILABLE
    )
    if has_progress_deadline(deployment) and not was_complete:
        what = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
        if is_complete(deployment, status):
            text = f"{what} has successfully progressed."
            found = with_condition(found, PROGRESSING, ("True", NEW_AVAILABLE, text), now)
        elif _has_progressed(deployment, status):
            content = ("True", UPDATED, f"{what} is progressing.")
            found = with_condition(found, PROGRESSING, content, now, always=True)
        elif _has_rollout_timed_out(deployment, found, now):
            text = f"{what} has timed out progressing."
            found = with_condition(found, PROGRESSING, ("False", TIMED_OUT, text), now)
    return structs.replace(status, conditions=_with_replica_failure(found, new, sets, now))


def _with_replica_failure(
    conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> list[DeploymentCondition]:
    ordered = [*([new] if new is not None else []), *sets]
    failures = (each for owner in ordered for each in owner.status.conditions if each.type == REPLICA_FAILURE)
    failure = next((each for each in failures if each.status == "True"), None)
    if failure is None:
        return _without_condition(conditions, REPLICA_FAILURE)
    return with_condition(conditions, REPLICA_FAILURE, ("True", failure.reason, failure.message), now)


_AFTER_DEADLINE = 1.0
_SIZES = (pace.DESIRED, pace.MAXIMUM)


class _Rollout(msgspec.Struct):
    """A Deployment and its ReplicaSets in one reconcile, with the parts of its new status so far."""

    key: str
    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]
    conditions: list[DeploymentCondition]
    revision: str
    collisions: int | None
    written: bool = msgspec.field(default=False)
    """Whether a ReplicaSet was written; the next step then waits until the cache shows that."""
    wait: float | None = None

    @property
    def sets(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]


class DeploymentController(WorkloadController[Deployment]):
    """The controller of Deployments: rolls out their templates by scaling ReplicaSets."""

    name = "deployment"
    component = "deployment-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, Deployment)
        self._sets = Children(context.informers, ReplicaSet)
        self.follow_children(self._sets)
        self.pods.informer.add_batch_handler(self._enqueue_recreating_deployments)

    def _enqueue_recreating_deployments(self, changes: Sequence[Change[Pod]]) -> None:
        for change in changes:
            pod = change.object
            if change.new is not None and not states.has_ended(pod):
                continue
            owner = controller_of(pod.metadata)
            parent = self._find_owner_of_replica_set(pod.metadata.namespace, owner.name) if owner is not None else None
            if parent is not None and not pace.is_rolling(parent):
                self.enqueue(parent)

    def _find_owner_of_replica_set(self, namespace: str, replica_set: str) -> Deployment | None:
        found = self._sets.informer.get(replica_set, namespace)
        owner = controller_of(found.metadata) if found is not None else None
        return self.owners.get(owner.name, namespace) if owner is not None else None

    async def sync(self, key: str, owner: Deployment) -> float | None:
        selector = label_selector.from_label_selector(owner.spec.selector)
        sets = await self._sets.claim(owner, selector)
        new = replica_sets.find_current_replica_set(owner, sets)
        old = [each for each in sets if new is None or each.metadata.uid != new.metadata.uid]
        rollout = _Rollout(
            key,
            owner,
            new,
            old,
            list(owner.status.conditions),
            owner.metadata.annotations.get(replica_sets.REVISION, ""),
            owner.status.collision_count,
        )
        if owner.metadata.deletion_timestamp is not None:
            return await self._write_status(rollout)
        self._record_pause(rollout)
        if owner.spec.paused or pace.is_scaled(owner, sets):
            await self._update_new_replica_set(rollout, create=False)
            if not rollout.written:
                await self._scale_replica_sets(rollout, pace.compute_scaled_sizes(owner, rollout.new, rollout.old))
                await self._annotate_sizes(rollout)
            if owner.spec.paused:
                await self._delete_old_replica_sets(rollout)
            return await self._write_status(rollout)
        await (self._roll_forward(rollout) if pace.is_rolling(owner) else self._recreate_pods(rollout))
        if not rollout.written and is_complete(owner, owner.status):
            await self._delete_old_replica_sets(rollout)
        return await self._write_status(rollout, rolls=True)

    def _record_pause(self, rollout: _Rollout) -> None:
        deployment = rollout.deployment
        condition = find_condition(rollout.conditions, PROGRESSING)
        if condition is not None and condition.reason == TIMED_OUT:
            return
        was_paused = condition is not None and condition.reason == PAUSED
        if deployment.spec.paused and not was_paused:
            self._set_progressing_condition(rollout, "Unknown", PAUSED, "Deployment is paused")
        elif not deployment.spec.paused and was_paused:
            self._set_progressing_condition(rollout, "Unknown", RESUMED, "Deployment is resumed")

    # -- the two strategies

    async def _roll_forward(self, rollout: _Rollout) -> None:
        await self._update_new_replica_set(rollout, create=True)
        new = rollout.new
        if rollout.written or new is None:
            return
        size = pace.compute_new_size(rollout.deployment, rollout.sets, pace.wanted_replicas(new))
        await self._scale_replica_sets(rollout, pace.select_changed_sizes({new.metadata.name: size}, [new]))
        if not rollout.written:
            await self._scale_replica_sets(rollout, pace.compute_old_sizes(rollout.deployment, new, rollout.old))

    async def _recreate_pods(self, rollout: _Rollout) -> None:
        await self._update_new_replica_set(rollout, create=False)
        if rollout.written:
            return
        surplus = {each.metadata.name: 0 for each in rollout.old if pace.wanted_replicas(each)}
        await self._scale_replica_sets(rollout, surplus)
        if surplus or any(not states.has_ended(pod) for each in rollout.old for pod in self.pods.owned_by(each)):
            return
        if rollout.new is None:
            await self._create_new_replica_set(rollout)
            return
        new = rollout.new
        await self._scale_replica_sets(
            rollout, pace.select_changed_sizes({new.metadata.name: pace.wanted_replicas(rollout.deployment)}, [new])
        )

    # -- ReplicaSets

    async def _update_new_replica_set(self, rollout: _Rollout, *, create: bool) -> None:
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            if create:
                await self._create_new_replica_set(rollout)
            return
        revision = replica_sets.find_max_revision(rollout.old) + 1
        wanted = replica_sets.compute_annotations(deployment, new, revision)
        seconds = deployment.spec.min_ready_seconds
        if not create:  # sizes are annotated when they are set
            wanted = {**wanted, **{name: new.metadata.annotations.get(name, wanted[name]) for name in _SIZES}}
        if wanted != new.metadata.annotations or seconds != new.spec.min_ready_seconds:
            changed = structs.replace(
                new,
                metadata=structs.replace(new.metadata, annotations=wanted),
                spec=structs.replace(new.spec, min_ready_seconds=seconds),
            )
            rollout.new = await self._write_replica_set(rollout, changed)
        rollout.revision = wanted[replica_sets.REVISION]
        if has_progress_deadline(deployment) and find_condition(rollout.conditions, PROGRESSING) is None:
            message = f'Found new replica set "{new.metadata.name}"'
            self._set_progressing_condition(rollout, "True", FOUND, message)

    async def _create_new_replica_set(self, rollout: _Rollout) -> None:
        deployment, template = rollout.deployment, rollout.deployment.spec.template
        held = self.pod_control.template_rejections.find_backoff(deployment, template)
        if held is not None:
            rollout.wait = held[1]
            return
        owner = build_controller_reference(self.client, deployment)
        made = replica_sets.build_replica_set(deployment, rollout.old, owner, rollout.collisions)
        name, size = made.metadata.name, pace.wanted_replicas(made)
        try:
            rollout.new = await self.client.create(made)
        except errors.AlreadyExists:
            await self._handle_name_conflict(rollout, made)
            return
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            message = f'Failed to create new replica set "{name}": {error}'
            self.recorder.event(deployment, "Warning", CREATE_ERROR, message)
            self._set_progressing_condition(rollout, "False", CREATE_ERROR, message)
            rollout.wait = self.pod_control.template_rejections.record_rejection(deployment, template, error)
            if rollout.wait is None:
                await self._write_status(rollout)
                raise
            return
        self.pod_control.template_rejections.forget(deployment)
        self.expectations.record_write(rollout.key, self._sets.informer, rollout.new)
        rollout.written = True
        rollout.revision = made.metadata.annotations[replica_sets.REVISION]
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        self._set_progressing_condition(rollout, "True", CREATED, f'Created new replica set "{name}"')

    async def _handle_name_conflict(self, rollout: _Rollout, made: ReplicaSet) -> None:
        """Use the ReplicaSet that has the name already if it is the Deployment's and current; else count a collision.

        With another collision count the next reconcile generates another name.
        """
        meta = made.metadata
        found = await self.client.get(ReplicaSet, meta.name, meta.namespace)
        owner = controller_of(found.metadata)
        if (
            owner is not None
            and owner.uid == rollout.deployment.metadata.uid
            and replica_sets.is_same_template(found.spec.template, rollout.deployment.spec.template)
        ):
            rollout.new = found
        else:
            rollout.collisions = (rollout.collisions or 0) + 1
        rollout.written = True

    async def _scale_replica_sets(self, rollout: _Rollout, sizes: pace.Sizes) -> None:
        for each in rollout.sets:
            size, before = sizes.get(each.metadata.name), pace.wanted_replicas(each)
            if size is None:
                continue
            await self._write_replica_set(rollout, self._with_replicas(rollout.deployment, each, size))
            way = "up" if size > before else "down"
            message = f"Scaled {way} replica set {each.metadata.name} from {before} to {size}"
            self.recorder.event(rollout.deployment, "Normal", "ScalingReplicaSet", message)

    async def _annotate_sizes(self, rollout: _Rollout) -> None:
        """Write the Deployment's size to annotations of ReplicaSets; else every pass would see it as scaled again."""
        wanted = replica_sets.compute_size_annotations(rollout.deployment)
        for each in rollout.sets:
            if pace.wanted_replicas(each) and not wanted.items() <= each.metadata.annotations.items():
                await self._write_replica_set(
                    rollout, self._with_replicas(rollout.deployment, each, pace.wanted_replicas(each))
                )

    def _with_replicas(self, deployment: Deployment, each: ReplicaSet, size: int) -> ReplicaSet:
        annotations = {**each.metadata.annotations, **replica_sets.compute_size_annotations(deployment)}
        return structs.replace(
            each,
            metadata=structs.replace(each.metadata, annotations=annotations),
            spec=structs.replace(each.spec, replicas=size),
        )

    async def _write_replica_set(self, rollout: _Rollout, changed: ReplicaSet) -> ReplicaSet:
        written = await self.client.update(changed)
        self.expectations.record_write(rollout.key, self._sets.informer, written)
        rollout.written = True
        uid = written.metadata.uid
        if rollout.new is not None and rollout.new.metadata.uid == uid:
            rollout.new = written
        rollout.old = [written if each.metadata.uid == uid else each for each in rollout.old]
        return written

    async def _delete_old_replica_sets(self, rollout: _Rollout) -> None:
        for each in replica_sets.find_sets_to_delete(rollout.deployment, rollout.old):
            await self._sets.delete(rollout.key, each, self.expectations)

    # -- status

    def _set_progressing_condition(self, rollout: _Rollout, value: str, reason: str, message: str) -> None:
        if has_progress_deadline(rollout.deployment):
            now = self.clock.now()
            content = (value, reason, message)
            rollout.conditions = with_condition(rollout.conditions, PROGRESSING, content, now)

    async def _write_status(self, rollout: _Rollout, *, rolls: bool = False) -> float | None:
        """Write the status, with the progress of the rollout if it `rolls`; return the seconds to the next pass."""
        deployment = rollout.deployment
        status_of = compute_rollout_status if rolls else compute_status_counts
        found = status_of(deployment, rollout.conditions, rollout.new, rollout.sets, self.clock.now())
        found = structs.replace(found, collision_count=rollout.collisions)
        annotations = deployment.metadata.annotations
        if rollout.revision:
            annotations = {**annotations, replica_sets.REVISION: rollout.revision}
        if found != deployment.status or annotations != deployment.metadata.annotations:
            metadata = structs.replace(deployment.metadata, annotations=annotations)
            written = await self.client.update_status(structs.replace(deployment, metadata=metadata, status=found))
            self.expectations.record_write(rollout.key, self.owners, written)
        left = seconds_to_deadline(deployment, found.conditions, self.clock.now())
        over = None if left is None or deployment.spec.paused else max(left, 0.0) + _AFTER_DEADLINE
        return find_shortest_wait(rollout.wait, over)
