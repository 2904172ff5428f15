"""Rehearse an audit: start one control plane with the current and one with the target flags, each on a copy of the
objects, and compare.

Each copy is a control plane with scheduler and controllers, which the caller starts (`StartPlane`). When both have
settled, every object is probed: whether it is served, whether it can be written back, whether controllers can create
objects from it, and where its pods are. A difference between the copies is an effect of the target flags. Read next:
`_Probe`.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import structs

from mooring.advisor.audit.admission_checks import build_generated_object, find_dropped_fields, reason_not_creating
from mooring.advisor.audit.results import Audit, Effect, Finding, ObjectReference, Observation, Rehearsal
from mooring.advisor.snapshot.engines import needs_node
from mooring.advisor.snapshot.to_store import is_written, missing_namespaces, write_objects
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Event, Pod
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.client import Client
from mooring.client.wire import path_prefix
from mooring.controllers.conditions import find_condition
from mooring.scheduler.facade import DEFAULT_SCHEDULER
from mooring.store.kv import Store

_POLL_SECONDS = 0.1
_QUIET_POLLS = 10
"""A control plane of the rehearsal has settled after this many polls in which nothing was written."""
_PODS = f"{ROOT}pods/"
_FAILURES = frozenset({"FailedCreate", "ReplicaSetCreateError"})
_FIRST = ("Namespace", "PriorityClass", "StorageClass", "DeviceClass")


@dataclass(frozen=True, slots=True)
class RehearsalPlane:
    """Interface of a running control plane of the rehearsal."""

    client: Client
    store: Store


class StartPlane(Protocol):
    """Starts a control plane on a data directory, with the target flags (`then`) or the current ones."""

    def __call__(
        self, folder: Path, *, then: bool, with_workers: bool = True
    ) -> AbstractAsyncContextManager[RehearsalPlane]: ...


Subject = tuple[Resource, ObjectReference]
"""An audited object, in the newest version of its kind, and its reference for findings."""


@dataclass(slots=True)
class RehearsalObjects:
    """The objects that a rehearsal copies: stored ones, manifests to create, and names of schedulers."""

    stored: list[Subject] = field(default_factory=list)
    manifests: list[Subject] = field(default_factory=list)
    schedulers: frozenset[str] = frozenset({DEFAULT_SCHEDULER})


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One observation on one control plane: the result of a request for an object, or the state of its pods."""

    outcome: str
    detail: str = ""


_Key = tuple[ObjectReference, str]
_View = Mapping[_Key, _Outcome]
EXPECTED: Mapping[Effect, tuple[str, str]] = {
    Effect.CREATE_REJECTED: ("create", "rejected"),
    Effect.FIELD_DROPPED: ("create", "changed"),
    Effect.UPDATE_REJECTED: ("update", "rejected"),
    Effect.NOT_SERVED: ("read", "not served"),
    Effect.EVICTED: ("pod", "evicted"),
    Effect.STUCK_PENDING: ("pod", "pending"),
    Effect.ALREADY_PENDING: ("pod", "pending"),
    Effect.STILL_SCHEDULABLE: ("pod", "scheduled"),
    Effect.KEEPS_RUNNING: ("pod", "running"),
}
"""By predicted effect, what a rehearsal observes (a request or the pod) and the result that confirms the prediction."""
_HARMLESS = frozenset({"accepted", "served", "scheduled", "works"})


async def rehearse(audit: Audit, copy: RehearsalObjects, start: StartPlane, folder: Path, seconds: float) -> Audit:
    """Rehearse the audit's change on two control planes in `folder`, each settling for at most `seconds`."""
    began = time.monotonic()
    notes: list[str] = []
    first, second = folder / "now", folder / "then"
    async with start(first, then=False, with_workers=False) as plane:
        taken = await _load_objects(plane, copy, notes)
    await asyncio.to_thread(shutil.copytree, first, second)
    pods = [obj for obj, _ in taken if isinstance(obj, Pod) and needs_node(obj) and not obj.spec.scheduling_gates]
    waiting = [pod for pod in pods if pod.spec.scheduler_name in copy.schedulers]
    views: list[dict[_Key, _Outcome]] = []
    for place, then in ((first, False), (second, True)):
        async with start(place, then=then) as plane:
            if not await _wait_until_settled(plane, waiting, seconds):
                name = "new" if then else "current"
                notes.append(
                    f"the copy with the {name} flags was still changing after {seconds:g} s; "
                    "repeat with more --rehearsal-seconds"
                )
            views.append(await _Probe(plane).observe(taken))
    report = Rehearsal(
        objects=len(taken),
        seconds=round(time.monotonic() - began, 2),
        broken=list(_find_broken(*views)),
        differences=list(_find_differences(audit.findings, *views)),
        notes=notes,
    )
    return structs.replace(audit, rehearsal=report)


async def _load_objects(plane: RehearsalPlane, copy: RehearsalObjects, notes: list[str]) -> list[Subject]:
    scheme = plane.client.scheme
    objects = [obj for obj, _ in (*copy.stored, *copy.manifests)]
    stored = [obj for obj, _ in copy.stored]
    await write_objects(plane.store, scheme, [*missing_namespaces(objects), *stored])
    taken = [(obj, reference) for obj, reference in copy.stored if is_written(scheme, obj)]
    for obj, reference in sorted(copy.manifests, key=lambda each: each[1].kind not in _FIRST):
        try:
            made = copy_of(obj)
            made.api_version = ""  # in whichever version is served
            await plane.client.create(made)
        except (errors.StatusError, ValueError) as refusal:
            notes.append(f"{reference} is left out, since it is refused now as well: {refusal}")
            continue
        taken.append((obj, reference))
    return taken


async def _wait_until_settled(plane: RehearsalPlane, waiting: Sequence[Pod], seconds: float) -> bool:
    """Wait until writes stop and every pending pod was tried; return False if that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    revision, quiet = -1, 0
    while time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        current = (await plane.store.range(_PODS, limit=1)).revision
        revision, quiet = current, quiet + 1 if current == revision else 0
        if quiet >= _QUIET_POLLS and await _are_all_evaluated(plane, waiting):
            return True
    return False


async def _are_all_evaluated(plane: RehearsalPlane, waiting: Sequence[Pod]) -> bool:
    found = {(pod.metadata.namespace, pod.metadata.name): pod for pod in (await plane.client.list(Pod)).items}
    return all(
        pod is None or pod.spec.node_name or find_condition(pod.status.conditions, "PodScheduled")
        for pod in (found.get((each.metadata.namespace, each.metadata.name)) for each in waiting)
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """Observes one control plane of the rehearsal: sends dry-run requests for all objects, and reads pods' states."""

    plane: RehearsalPlane

    async def observe(self, taken: Sequence[Subject]) -> dict[_Key, _Outcome]:
        """Return by object: whether it is served, results of dry-run update and create, pod state, controller error."""
        seen: dict[_Key, _Outcome] = {}
        failing = await self._failing_controllers()
        for obj, reference in taken:
            body = await self._read_object(obj, reference)
            seen[reference, "read"] = _Outcome("not served" if body is None else "served")
            if body is None:
                continue  # nothing can be written that is not served
            if isinstance(obj, Pod) and reference.stored:
                seen[reference, "pod"] = await self._observe_pod(obj)
            if body:
                seen[reference, "update"] = await self._try_update(obj, reference, body)
            if not reference.stored or (build_generated_object(obj) is not None and not reason_not_creating(obj)):
                seen[reference, "create"] = await self._try_create(obj, stored=reference.stored)
            failure = failing.get((reference.kind, reference.namespace, reference.name))
            seen[reference, "controller"] = _Outcome("fails", failure) if failure else _Outcome("works")
        return seen

    async def _read_object(self, obj: Resource, reference: ObjectReference) -> bytes | None:
        try:
            return (await self.plane.client.raw("GET", self._path(obj, reference))).body
        except errors.NotFound as missing:
            details = missing.status.details
            return b"" if details is not None and details.name else None

    def _path(self, obj: Resource, reference: ObjectReference) -> str:
        """Return the URL path of an object, in the API version that its reference names."""
        kind = self.plane.client.scheme.kind(reference.api_version, reference.kind)
        if kind is None:
            raise LookupError(f"{reference} was decoded, so its kind is known")
        namespace = f"/namespaces/{obj.metadata.namespace}" if kind.namespaced else ""
        return f"{path_prefix(kind)}{namespace}/{kind.plural}/{obj.metadata.name}"

    async def _try_update(self, obj: Resource, reference: ObjectReference, body: bytes) -> _Outcome:
        path = self._path(obj, reference)
        try:
            await self.plane.client.raw("PUT", path, query=[("dryRun", "All")], body=body)
        except (errors.Invalid, errors.Forbidden, errors.BadRequest) as refusal:
            return _Outcome("rejected", str(refusal))
        except errors.StatusError:
            pass  # it has changed or gone in the meantime
        return _Outcome("accepted")

    async def _try_create(self, obj: Resource, *, stored: bool) -> _Outcome:
        made = build_generated_object(obj) if stored else None
        wanted = copy_of(made.object if made else obj)
        if made is None:
            metadata = obj.metadata
            wanted.metadata = ObjectMeta(
                generate_name="rehearsal-",
                namespace=metadata.namespace,
                labels=metadata.labels,
                annotations=metadata.annotations,
            )
        if isinstance(wanted, Pod):  # what a server fills in
            wanted.spec.node_name, wanted.spec.priority, wanted.spec.preemption_policy = "", None, None
        wanted.api_version = wanted.kind = ""
        try:
            created = await self.plane.client.create(wanted, dry_run=True)
        except (errors.StatusError, ValueError) as refusal:
            return _Outcome("rejected", str(refusal))
        lost = sorted(find_dropped_fields({"spec": codec.to_tree(wanted).get("spec")}, created))
        return _Outcome("changed", f"without {', '.join(lost)}") if lost else _Outcome("accepted")

    async def _observe_pod(self, pod: Pod) -> _Outcome:
        try:
            found = await self.plane.client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except errors.NotFound:
            return _Outcome("evicted")
        if found.metadata.deletion_timestamp is not None and pod.metadata.deletion_timestamp is None:
            return _Outcome("evicted")
        if pod.spec.node_name:
            return _Outcome("running")
        if found.spec.node_name or found.status.nominated_node_name:
            return _Outcome("scheduled")
        scheduled = find_condition(found.status.conditions, "PodScheduled")
        return _Outcome("pending", scheduled.message if scheduled is not None else "")

    async def _failing_controllers(self) -> dict[tuple[str, str, str], str]:
        found: dict[tuple[str, str, str], str] = {}
        owners = {
            (each.kind, obj.metadata.namespace, obj.metadata.name): (owner.kind, obj.metadata.namespace, owner.name)
            for each in self.plane.client.scheme.served
            if each.kind == "ReplicaSet"
            for obj in (await self.plane.client.list(each.type)).items
            for owner in obj.metadata.owner_references
        }
        for event in (await self.plane.client.list(Event)).items:
            if event.reason in _FAILURES:
                about = event.involved_object
                key = (about.kind, about.namespace, about.name)
                found[key] = found[owners.get(key, key)] = event.message
        return found


def _find_broken(now: _View, then: _View) -> Iterator[Observation]:
    for (reference, subject), after in then.items():
        before = now.get((reference, subject))
        if before is not None and before.outcome != after.outcome and after.outcome not in _HARMLESS:
            yield _build_observation(reference, subject, before.outcome, after, agrees=True)


def _find_differences(findings: Sequence[Finding], now: _View, then: _View) -> Iterator[Observation]:
    predicted = _predicted_outcomes(findings)
    for (reference, subject), after in then.items():
        before, wanted = now.get((reference, subject)), predicted.get((reference, subject))
        if wanted is None and (before is None or after.outcome in (before.outcome, *_HARMLESS)):
            continue
        if wanted is None and subject == "controller" and predicted.get((reference, "create")) == "rejected":
            continue  # the controller retries, as predicted
        if wanted != after.outcome:
            yield _build_observation(
                reference, subject, wanted or (before.outcome if before else ""), after, agrees=False
            )


def _build_observation(
    reference: ObjectReference, subject: str, predicted: str, after: _Outcome, *, agrees: bool
) -> Observation:
    return Observation(
        object=reference,
        subject=subject,
        predicted=predicted,
        observed=after.outcome,
        agrees=agrees,
        detail=after.detail,
    )


def _predicted_outcomes(findings: Sequence[Finding]) -> dict[_Key, str]:
    predicted: dict[_Key, str] = {}
    for finding in sorted(findings, key=lambda each: each.breaks):
        if finding.effect in EXPECTED:
            subject, outcome = EXPECTED[finding.effect]
            if predicted.get((finding.object, subject)) != "rejected":
                predicted[finding.object, subject] = outcome
    return predicted
