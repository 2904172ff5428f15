"""Evict a pod if its PodDisruptionBudget allows it.

The disruption controller writes into a budget's status how many disruptions are allowed. An eviction uses up one of
them, with a compare-and-swap on the budget, so that two evictions never share the last one, and then deletes the pod.
"""

from functools import partial

from mooring.api import errors, times
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.base import copy_of
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Pod, PodCondition
from mooring.api.meta_v1 import DeleteOptions, StatusCause
from mooring.api.policy_v1 import Eviction, PodDisruptionBudget
from mooring.api.states import has_ended, is_ready
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.deleting import Deleting, check_preconditions
from mooring.apiserver.registry.parameters import check_type, read_body, write_options
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.writes import Writer
from mooring.apiserver.registry.writing import run_long, takes_long
from mooring.constraints import disruption_budgets
from mooring.store.kv import Event, KeyValue, Put

_ATTEMPTS = 20
_MAX_DISRUPTED = 2000


class Disruption:
    """Handles `pods/eviction`."""

    def __init__(self, context: HandlerContext, writer: Writer, deleting: Deleting) -> None:
        self._context = context
        self._writer = writer
        self._deleting = deleting

    async def evict(self, call: Call) -> None:
        eviction = self._read(call)
        options = eviction.delete_options or DeleteOptions()
        dry_run = bool(options.dry_run) or write_options(call.request, "CreateOptions").dry_run
        options.dry_run = ["All"] if dry_run else []
        await self._admit(call, eviction)
        kv = await self._context.find(call)
        pod = await self._pod(call, kv)
        self._context.guard(call.request.user, None, pod, call.subresource)  # before a budget is touched
        check_preconditions(call, pod, options)
        if options.preconditions is not None:
            options.preconditions.resource_version = None  # the condition below changes it
        if not _needs_no_budget(pod):
            await self._take_from_budget(call, pod, dry_run=dry_run)
        if not dry_run and pod.metadata.deletion_timestamp is None:
            await self._mark(call)
        await self._writer.one(self._deleting.delete_admitted(call, options))

    async def _admit(self, call: Call, eviction: Eviction) -> None:
        """Call policies and webhooks, which see the Eviction and not the deletion that follows."""
        kind = self._context.scheme.hub_of(Eviction)
        eviction.metadata.name, eviction.metadata.namespace = call.name, call.namespace
        attributes = self._context.attributes_of(call, CREATE, eviction, None, kind=kind)
        if attributes is not None:
            await self._context.extensions.admit(attributes)

    def _read(self, call: Call) -> Eviction:
        eviction = read_body(call.request, Eviction, "Eviction", "policy/v1", FieldValidation.WARN).object
        kind = self._context.scheme.hub_of(Eviction)
        check_type(eviction, kind)
        if eviction.metadata.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        return eviction

    async def _pod(self, call: Call, kv: KeyValue) -> Pod:
        decode = partial(call.stored.decode, kv.value, kv.mod_revision)
        pod = await run_long(decode) if takes_long(call, len(kv.value)) else decode()
        assert isinstance(pod, Pod), "pods are stored below their own prefix"  # noqa: S101 - says what is known
        return pod

    async def _take_from_budget(self, call: Call, pod: Pod, *, dry_run: bool) -> None:
        store = self._context.store
        for _ in range(_ATTEMPTS):
            found = await self._budget_of(pod)
            if found is None:
                return
            kv, stored, budget = found
            if _is_unhealthy_and_may_go(pod, budget):
                return
            taken = self._take_disruption(budget, pod)
            if dry_run:
                return
            outcome = await store.write(Put(kv.key, stored.encode(taken), expect=kv.mod_revision))
            if isinstance(outcome, Event):
                return
        raise errors.conflict("pods", call.name)

    async def _budget_of(self, pod: Pod) -> tuple[KeyValue, Stored, PodDisruptionBudget] | None:
        stored = self._context.stored_kind(self._context.scheme.hub_of(PodDisruptionBudget))
        found = []
        for kv in (await self._context.store.range(stored.prefix_of(pod.metadata.namespace))).items:
            budget = stored.decode(kv.value, kv.mod_revision)
            if isinstance(budget, PodDisruptionBudget) and disruption_budgets.selects(budget, pod):
                found.append((kv, stored, budget))
        if len(found) > 1:
            raise errors.internal_error(disruption_budgets.TOO_MANY_BUDGETS)
        return found[0] if found else None

    def _take_disruption(self, budget: PodDisruptionBudget, pod: Pod) -> PodDisruptionBudget:
        """Return the PodDisruptionBudget with one allowed disruption less; raise an error if none is left."""
        status, name = budget.status, budget.metadata.name
        if status.observed_generation < budget.metadata.generation:
            raise _too_many_requests(f"The disruption budget {name} is still being processed by the server.", 10)
        if status.disruptions_allowed < 0:
            raise _forbidden(name, "pdb disruptions allowed is negative")
        if len(status.disrupted_pods) > _MAX_DISRUPTED:
            raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
        if status.disruptions_allowed == 0:
            raise _too_many_requests(
                disruption_budgets.describe_exhausted(name, status.desired_healthy, status.current_healthy)
            )
        taken = copy_of(budget)
        taken.status.disruptions_allowed -= 1
        taken.status.disrupted_pods[pod.metadata.name] = times.to_seconds(self._context.clock.now())
        return taken

    async def _mark(self, call: Call) -> None:
        """Set the condition `DisruptionTarget` of the pod, which explains its deletion."""
        for _ in range(_ATTEMPTS):
            kv = await self._context.find(call)
            pod = await self._pod(call, kv)
            condition = PodCondition(
                type="DisruptionTarget",
                status="True",
                reason="EvictionByEvictionAPI",
                message="Eviction API: evicting",
                last_transition_time=times.to_seconds(self._context.clock.now()),
            )
            others = [each for each in pod.status.conditions if each.type != condition.type]
            pod.status.conditions = [*others, condition]
            encode = partial(call.stored.encode, pod)
            value = await run_long(encode) if takes_long(call, len(kv.value)) else encode()
            put = Put(kv.key, value, expect=kv.mod_revision)
            if isinstance(await self._context.store.write(put), Event):
                return


def _needs_no_budget(pod: Pod) -> bool:
    """Return whether a pod has ended, has not started or is terminating, so that its eviction disrupts nothing."""
    return has_ended(pod) or pod.status.phase == "Pending" or pod.metadata.deletion_timestamp is not None


def _is_unhealthy_and_may_go(pod: Pod, budget: PodDisruptionBudget) -> bool:
    if is_ready(pod):
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status
    return status.current_healthy >= status.desired_healthy > 0


def _too_many_requests(why: str, retry_after_seconds: int = 0) -> errors.TooManyRequests:
    refusal = errors.too_many_requests(disruption_budgets.VIOLATED, retry_after_seconds)
    if refusal.status.details is not None:
        refusal.status.details.causes = [StatusCause(reason="DisruptionBudget", message=why)]
    return refusal


def _forbidden(name: str, why: str) -> errors.Forbidden:
    return errors.forbidden("poddisruptionbudgets", name, why, group="policy")
