"""Create ResourceClaims from the templates that pods name, and release claims that no pod uses.

A generated claim is owned by its pod. Finished pods are removed from `reservedFor`; without users the claim is
deallocated. A claim that the server rejects is reported in an event and a condition of the pod, with backoff
(``workloads/pod_control.py``). Keys: `pod namespace/name` and `claim namespace/name`.
"""

from typing import Any

from msgspec import structs

from mooring.api import times
from mooring.api.core_v1 import Pod, PodCondition, PodResourceClaim
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from mooring.api.states import controller_of, has_ended
from mooring.client import Client, Informer, key_of
from mooring.controllers.conditions import find_condition
from mooring.controllers.controller import Context, Controller, index_by_owner
from mooring.controllers.taint_eviction import claim_keys
from mooring.controllers.workloads.ownership import build_controller_reference
from mooring.controllers.workloads.pod_control import TemplateRejections

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
CREATED = "mooring.dev/ResourceClaimsCreated"
"""A pod condition: False while the server rejects claims of its templates."""
FAILED = "FailedResourceClaimCreation"


class ResourceClaimController(Controller):
    """The controller of ResourceClaims; reconciles pods and claims."""

    name = "resourceclaim"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("resource_claim")
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._serves = self.client.knows(ResourceClaim) and self.client.knows(ResourceClaimTemplate)
        if not self._serves:
            return  # not served before 1.32
        self._by_claim = self._pods.index("resource claim", claim_keys)
        self._by_template = self._pods.index("resource claim template", _template_keys)
        self._claims: Informer[ResourceClaim] = context.informers.of(ResourceClaim)
        self._by_owner = index_by_owner(self._claims)
        self._templates: Informer[ResourceClaimTemplate] = context.informers.of(ResourceClaimTemplate)
        self.follow(self._pods, self._enqueue_pod_and_claims, deleted=True)
        self.follow(self._claims, lambda claim: self.queue.add(f"claim {key_of(claim)}"))
        self._template_rejections = TemplateRejections(context, self.name)
        self._templates.add_handler(added=self._enqueue_pods_of_template, deleted=self._template_rejections.forget)

    def _enqueue_pod_and_claims(self, pod: Pod) -> None:
        if pod.spec.resource_claims:
            self.queue.add(f"pod {key_of(pod)}")
            for key in claim_keys(pod):
                self.queue.add(f"claim {key}")

    def _enqueue_pods_of_template(self, template: ResourceClaimTemplate) -> None:
        for pod in self._by_template.get(key_of(template)):
            self._enqueue_pod_and_claims(pod)

    async def reconcile(self, key: str) -> float | None:
        what, _, where = key.partition(" ")
        if what == "pod":
            pod = self._pods.by_key(where)
            if pod is not None and pod.metadata.deletion_timestamp is None and not has_ended(pod):
                return await self._ensure_claims(pod)
        else:
            claim = self._claims.by_key(where)
            if claim is not None:
                await self._release_unused(claim)
        return None

    async def _ensure_claims(self, pod: Pod) -> float | None:
        known = {entry.name for entry in pod.status.resource_claim_statuses}
        made, refused = [], None
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name and entry.name not in known:
                try:
                    name = await self._ensure_claim(pod, entry)
                except _ClaimRejectedError as error:
                    refused = error
                    continue
                if name:
                    made.append({"name": entry.name, "resourceClaimName": name})
        status: dict[str, Any] = {"resourceClaimStatuses": made} if made else {}
        condition = self._build_condition(pod, refused)
        if condition is not None:
            status["conditions"] = [condition]
        if status:
            await self.patch_status(pod, status)
        return refused.wait if refused is not None else None

    def _build_condition(self, pod: Pod, refused: "_ClaimRejectedError | None") -> PodCondition | None:
        before = find_condition(pod.status.conditions, CREATED)
        if refused is None and before is None:
            return None
        status, reason = ("True", "Created") if refused is None else ("False", FAILED)
        message = str(refused or "")
        if before is not None and (before.status, before.message) == (status, message):
            return None
        now = times.to_seconds(self.clock.now())
        return PodCondition(type=CREATED, status=status, reason=reason, message=message, last_transition_time=now)

    async def _ensure_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """Find or create a pod's claim of a template; return its name, or None without the template.

        Raise `_ClaimRejectedError` if the server rejects the template's claims, now or recently (backoff).
        """
        for claim in self._by_owner.get(pod.metadata.uid):
            if claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name:
                return claim.metadata.name
        template = self._templates.get(entry.resource_claim_template_name or "", pod.metadata.namespace)
        if template is None:
            note = f'resourceclaimtemplate "{entry.resource_claim_template_name}" not found'
            self._recorder.event(pod, "Warning", FAILED, f"PodResourceClaim {entry.name}: {note}")
            return None
        held = self._template_rejections.find_backoff(template, template.spec)
        if held is not None:
            raise _ClaimRejectedError(_describe_claim_rejection(pod, entry, held[0]), held[1])
        try:
            created = await self.client.create(_build_claim(self.client, pod, entry, template))
        except StatusError as error:
            note = _describe_claim_rejection(pod, entry, error)
            self._recorder.event(pod, "Warning", FAILED, note)
            wait = self._template_rejections.record_rejection(template, template.spec, error)
            if wait is None:
                raise
            raise _ClaimRejectedError(note, wait) from error
        self._template_rejections.forget(template)
        return created.metadata.name

    async def _release_unused(self, claim: ResourceClaim) -> None:
        meta, status = claim.metadata, claim.status
        users = [user for user in status.reserved_for if await self._is_user_alive(meta.namespace, user)]
        if len(users) < len(status.reserved_for):
            allocation = status.allocation if users else None
            status = structs.replace(status, reserved_for=users, allocation=allocation)
            claim = await self.client.update_status(structs.replace(claim, status=status))
        elif not users and status.allocation is not None and meta.deletion_timestamp is not None:
            status = structs.replace(status, allocation=None)
            claim = await self.client.update_status(structs.replace(claim, status=status))
        if claim.status.allocation is None and FINALIZER in claim.metadata.finalizers:
            await self.remove_finalizer(claim, FINALIZER)
        if meta.deletion_timestamp is None and self._has_owner_pod_ended(claim):
            await self.delete(claim)

    async def _is_user_alive(self, namespace: str, user: ResourceClaimConsumerReference) -> bool:
        """Return whether a user in `reservedFor` is no pod, or a pod in cache or server that has not ended."""
        if user.resource != "pods" or user.api_group:
            return True  # not a pod
        pod = self._pods.get(user.name, namespace)
        if pod is None or pod.metadata.uid != user.uid:
            pod = await self.client.find(Pod, user.name, namespace)
        return pod is not None and pod.metadata.uid == user.uid and not has_ended(pod)

    def _has_owner_pod_ended(self, claim: ResourceClaim) -> bool:
        if POD_CLAIM_NAME not in claim.metadata.annotations:
            return False
        owner = controller_of(claim.metadata)
        pod = self._pods.get(owner.name, claim.metadata.namespace) if owner is not None else None
        return pod is not None and pod.metadata.uid == (owner and owner.uid) and has_ended(pod)


def _template_keys(pod: Pod) -> list[str]:
    return [
        f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
        for entry in pod.spec.resource_claims
        if entry.resource_claim_template_name
    ]


class _ClaimRejectedError(Exception):
    """The server rejects the claims of a template; `wait` is the seconds until the next attempt."""

    def __init__(self, note: str, wait: float) -> None:
        super().__init__(note)
        self.wait = wait


def _describe_claim_rejection(pod: Pod, entry: PodResourceClaim, error: StatusError) -> str:
    prefix = f"{pod.metadata.name}-{entry.name}-"
    details = error.status.details
    name = details.name if details is not None and details.name.startswith(prefix) else prefix
    return f"PodResourceClaim {entry.name}: create ResourceClaim {prefix}: {str(error).replace(name, prefix)}"


def _build_claim(client: Client, pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    wanted = template.spec.metadata
    metadata = ObjectMeta(
        generate_name=f"{pod.metadata.name}-{entry.name}-",
        namespace=pod.metadata.namespace,
        labels=wanted.labels,
        annotations=wanted.annotations | {POD_CLAIM_NAME: entry.name},
        owner_references=[build_controller_reference(client, pod)],
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
