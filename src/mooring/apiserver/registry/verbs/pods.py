"""Bind and evict pods.

A `BindingWrite` is executed by ``executor.py``; Mooring's scheduler sends many in a batch (``requests/batch.py``).
An eviction deletes a pod if its PodDisruptionBudget allows that. The disruption controller writes into a budget's
status how many disruptions are allowed; an eviction uses up one of them by a compare-and-swap on the budget, so that
two evictions never share the last one.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from mooring.admission import rows
from mooring.admission.pod.binding import bind
from mooring.api import codec, errors, times
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.base import copy_of
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Binding, Pod, PodCondition
from mooring.api.meta_v1 import DeleteOptions, Status, StatusCause
from mooring.api.policy_v1 import Eviction, PodDisruptionBudget
from mooring.api.states import has_ended, is_ready
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.parameters import WriteOptions, check_type, read_body, write_options
from mooring.apiserver.registry.storage.stored import Stored
from mooring.apiserver.registry.verbs.deleting import Deleting, check_preconditions
from mooring.apiserver.registry.verbs.executor import Draft, Write, WriteExecutor
from mooring.apiserver.registry.verbs.reading import find_named
from mooring.apiserver.registry.verbs.templates import CreationTemplate
from mooring.apiserver.registry.verbs.views import make_response
from mooring.base.tasks import run_by_size
from mooring.constraints import disruption_budgets
from mooring.store.kv import KeyValue, Put

_MAX_DISRUPTED = 2000
_SUCCESS = Status(kind="Status", api_version="v1", status="Success", code=201)


class BindingWrite(Write, eq=False):
    """A write that sets the node of a pod, by a Binding."""

    operation = CREATE
    pods: "Pods"
    options: WriteOptions
    binding: Binding | None = None
    """The admitted Binding."""

    async def draft(self) -> Draft:
        context, call, stored = self.context, self.call, self.pods.stored
        if self.binding is None:
            self.binding = await self.pods.admit_binding(call, self.options)
        binding = self.binding
        kv = context.store.peek(stored.key(call.namespace, binding.metadata.name))
        if kv is None:
            raise errors.not_found("pods", binding.metadata.name)

        def bound() -> bytes:
            return stored.encode(bind(stored.decode_as(Pod, kv), binding, now, labels))

        now, labels = context.clock.now(), self.pods.node_topology_labels(binding)
        value = await run_by_size(bound, len(call.request.body) + len(kv.value))
        puts = () if self.options.dry_run else (Put(kv.key, value, expect=kv.mod_revision),)
        return Draft(puts, partial(_respond, call))

    def give_up(self) -> Exception:
        return errors.conflict("pods", self.binding.metadata.name if self.binding is not None else "")


class _Disruption(Write, eq=False):
    """A write of an eviction: takes one disruption from the pod's budget, or marks the pod as a disruption target."""

    pods: "Pods"
    max_attempts = 20
    """Many evictions may use one budget at the same time."""


class _BudgetUse(_Disruption, eq=False):
    """A write that takes one allowed disruption from the budget of a pod, if it has one that applies."""

    pod: Pod
    dry_run: bool

    async def draft(self) -> Draft:
        found = await self.pods.budget_of(self.pod)
        if found is None or _is_unhealthy_and_may_go(self.pod, found[2]):
            return Draft((), partial(_respond, self.call))
        kv, stored, budget = found
        put = Put(kv.key, stored.encode(self.pods.take_disruption(budget, self.pod)), expect=kv.mod_revision)
        return Draft(() if self.dry_run else (put,), partial(_respond, self.call))


class _TargetMark(_Disruption, eq=False):
    """A write that sets the condition `DisruptionTarget` of a pod to be evicted, which gives the reason."""

    async def draft(self) -> Draft:
        call = self.call
        kv = await find_named(self.context.store, call)
        pod = await self.pods.decode(call, kv)
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
            last_transition_time=times.to_seconds(self.context.clock.now()),
        )
        pod.status.conditions = [*(each for each in pod.status.conditions if each.type != condition.type), condition]
        value = await call.stored.encode_by_size(pod, len(kv.value))
        return Draft((Put(kv.key, value, expect=kv.mod_revision),), partial(_respond, call))


class Pods:
    """Handles the subresources `pods/binding` and `pods/eviction`, and `POST bindings`."""

    def __init__(self, context: HandlerContext, executor: WriteExecutor, deleting: Deleting) -> None:
        self._context = context
        self._executor = executor
        self._deleting = deleting
        self._scheme = context.kinds.scheme
        self.kind = self._scheme.hub_of(Binding)
        self.stored = context.kinds.find_by_type(Pod)

    def bind(self, call: Call, _: CreationTemplate | None = None) -> Write:
        """Return the write for a Binding to a pod, which the URL or, for `POST bindings`, the body names."""
        return BindingWrite(self._context, call, self, write_options(call.request, "CreateOptions"))

    async def admit_binding(self, call: Call, options: WriteOptions) -> Binding:
        """Return a request's Binding after policies and webhooks; raise their refusal; BadRequest for another pod."""
        binding = read_body(call.request, Binding, "Binding", "v1", options.validation).object
        check_type(binding, self.kind)
        if call.request.row is not None:
            rows.insert_row(binding, call.request.row)
        meta = binding.metadata
        if call.name and meta.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Binding object")
        if meta.namespace not in {"", call.namespace}:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta.name, meta.namespace = call.name or meta.name, call.namespace
        await self._context.admission.admit(call, CREATE, binding, None, kind=self.kind)
        return binding

    async def evict(self, call: Call) -> Response:
        """Delete a pod if its PodDisruptionBudget allows a disruption; raise TooManyRequests if not."""
        eviction = self._read_eviction(call)
        options = eviction.delete_options or DeleteOptions()
        dry_run = bool(options.dry_run) or write_options(call.request, "CreateOptions").dry_run
        options.dry_run = ["All"] if dry_run else []
        eviction.metadata.name, eviction.metadata.namespace = call.name, call.namespace
        # Policies and webhooks see the eviction, but not the deletion that follows.
        await self._context.admission.admit(call, CREATE, eviction, None, kind=self._scheme.hub_of(Eviction))
        kv = await find_named(self._context.store, call)
        pod = await self.decode(call, kv)
        # before a budget is touched
        self._context.admission.access.check_write(call.request.user, None, pod, call.subresource)
        check_preconditions(call, pod, options)
        if options.preconditions is not None:
            options.preconditions.resource_version = None  # the condition below changes it
        if not _needs_no_budget(pod):
            await self._executor.execute_one(_BudgetUse(self._context, call, self, pod, dry_run))
        if not dry_run and pod.metadata.deletion_timestamp is None:
            await self._executor.execute_one(_TargetMark(self._context, call, self))
        await self._executor.execute_one(self._deleting.admitted_deletion(call, options))
        return make_response(call, codec.encode(_SUCCESS), 201)

    def node_topology_labels(self, binding: Binding) -> Mapping[str, str]:
        """Return the topology labels of a binding's node, which are added to the pod (`PodTopologyLabels`)."""
        if not self._context.options.pod_topology_labels:
            return {}
        return {**binding.metadata.labels, **self._context.lookups.topology_labels(binding.target.name)}

    def _read_eviction(self, call: Call) -> Eviction:
        eviction = read_body(call.request, Eviction, "Eviction", "policy/v1", FieldValidation.WARN).object
        kind = self._scheme.hub_of(Eviction)
        check_type(eviction, kind)
        if eviction.metadata.name not in {"", call.name}:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        return eviction

    async def decode(self, call: Call, kv: KeyValue) -> Pod:
        return await run_by_size(partial(call.stored.decode_as, Pod, kv), len(kv.value))

    async def budget_of(self, pod: Pod) -> tuple[KeyValue, Stored, PodDisruptionBudget] | None:
        stored = self._context.kinds.find_by_type(PodDisruptionBudget)
        found = []
        for kv in (await self._context.store.range(stored.prefix_of(pod.metadata.namespace))).items:
            budget = stored.decode(kv.value, kv.mod_revision)
            if isinstance(budget, PodDisruptionBudget) and disruption_budgets.selects(budget, pod):
                found.append((kv, stored, budget))
        if len(found) > 1:
            raise errors.internal_error(disruption_budgets.TOO_MANY_BUDGETS)
        return found[0] if found else None

    def take_disruption(self, budget: PodDisruptionBudget, pod: Pod) -> PodDisruptionBudget:
        """Return a budget with one allowed disruption fewer; raise TooManyRequests if it has none left."""
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


async def _respond(call: Call, _: Sequence[int]) -> Response:
    if call.request.omit_body:
        return Response(201, warnings=call.warnings)
    return make_response(call, codec.encode(_SUCCESS), 201)


def _needs_no_budget(pod: Pod) -> bool:
    """Return whether evicting a pod disrupts nothing: it has ended, not started, or is terminating."""
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
