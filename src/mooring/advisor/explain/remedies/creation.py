"""Remedies for pods that do not exist or do not run: quotas, limits, missing references, policies, paused workloads.

The table `_BY_CAUSE` lists the remedies of a cause by its code. They do not concern nodes, so nothing is searched:
``rehearsal.py`` verifies each.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from mooring.advisor.explain.causes.creation import claims_to_create
from mooring.advisor.explain.causes.running import IMAGE_CAUSES
from mooring.advisor.explain.images import containers_of
from mooring.advisor.explain.patches import kubectl_command
from mooring.advisor.explain.remedies import waiting
from mooring.advisor.explain.remedies.context import Context
from mooring.advisor.explain.remedies.remedy import BOUND, LARGE, MODEST, SMALL
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.search import Candidate
from mooring.advisor.explain.storage import claim_sources
from mooring.advisor.explain.subject import Subject, set_fields, set_fields_in
from mooring.advisor.node_facts import find_similar
from mooring.advisor.policies import policies_of
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.namespace_rules import NamespaceRules
from mooring.api import core_v1
from mooring.api.admissionregistration_v1 import (
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from mooring.api.apps_v1 import Deployment, DeploymentSpec, DeploymentStrategy, ReplicaSet, StatefulSet
from mooring.api.base import copy_of
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.node_v1 import RuntimeClass
from mooring.api.quantity import Quantity, parse
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass

_REPLICATED = Deployment | ReplicaSet | StatefulSet | core_v1.ReplicationController
_ALLOWED_CAPABILITY = "NET_BIND_SERVICE"
_USUAL = {"cpu": "100m", "memory": "128Mi"}
"""The requests suggested for containers without any, if a quota requires them."""


def creation_remedies(snapshot: Snapshot, subject: Subject, cause: Cause, missing: int) -> list[Candidate]:
    """Return candidate changes that may remove a cause, so that missing pods are created or run."""
    found = _BY_CAUSE.get(cause.code)
    return list(found(Context(snapshot, subject, cause, missing))) if found is not None else []


# -- quotas and limits


def _raise_quota(context: Context) -> Iterator[Candidate]:
    claims_left = claims_to_create(context.snapshot, context.subject.source, context.pod)
    refused = [each for each in claims_left if f"claim {each.metadata.name} " in context.cause.text]
    asked = NamespaceRules().compute_usage(refused[0] if refused else context.pod)
    for quota in context.snapshot.all(core_v1.ResourceQuota):
        if quota.metadata.namespace != context.namespace or f"quota {quota.metadata.name} " not in context.cause.text:
            continue
        after, words = copy_of(quota), []
        used = quota.status.used
        for name, hard in quota.spec.hard.items():
            need = asked.get(name)
            if need is None:
                continue
            wanted = _add_times(used.get(name, parse("0")), need, context.missing)
            if wanted > hard:
                after.spec.hard[name] = after.status.hard[name] = wanted
                words.append(f"{name} from {hard} to {wanted}")
        if words:
            summary = f"raise quota {quota.metadata.name}: {' and '.join(words)}"
            yield from context.modify_object(summary, MODEST, quota, after)
    source = context.subject.asked
    if isinstance(source, _REPLICATED) and source.spec.replicas and source.spec.replicas > context.missing:
        yield from context.scale_to(source.spec.replicas - context.missing)


def _add_times(used: Quantity, need: Quantity, times: int) -> Quantity:
    return sum([need] * min(times, 1000), start=used)


def _add_requests(context: Context) -> Iterator[Candidate]:
    text = context.cause.text

    def edit(spec: core_v1.PodSpec) -> bool:
        for container in spec.containers:
            for name, usual in _USUAL.items():
                if f"requests.{name}" in text or f" {name}" in text:
                    container.resources.requests.setdefault(name, container.resources.limits.get(name, parse(usual)))
                if f"limits.{name}" in text:
                    container.resources.limits.setdefault(name, container.resources.requests.get(name, parse(usual)))
        return True

    words = [word for name in _USUAL for word in (f"requests.{name}", f"limits.{name}") if word in text]
    shown = " and ".join(words) or "requests"
    yield from context.edit_pod(f"give each container {shown} (100m cpu, 128Mi memory where it has none)", SMALL, edit)


def _stay_in_limit_range(context: Context) -> Iterator[Candidate]:
    limits = [
        item
        for each in context.snapshot.all(core_v1.LimitRange)
        if each.metadata.namespace == context.namespace
        for item in each.spec.limits
    ]
    words: list[str] = []

    def edit(spec: core_v1.PodSpec) -> bool:
        words.clear()
        for item in limits:
            if item.type == "Pod":
                _keep_sum_in_bounds(spec, item, words)
            for container in (*spec.containers, *spec.init_containers) if item.type == "Container" else ():
                _keep_in_bounds(container, item, words)
        return bool(words)

    for claim in claims_to_create(context.snapshot, context.subject.source, context.pod):
        yield from _widen_limit_range(context, claim)
    if limits and edit(copy_of(context.pod.spec)):
        yield from context.edit_pod(f"stay within the LimitRange: {' and '.join(words)}", SMALL, edit)


def _widen_limit_range(context: Context, claim: core_v1.PersistentVolumeClaim) -> Iterator[Candidate]:
    """Suggest to widen each LimitRange that refuses a claim: a StatefulSet's claim templates cannot be changed."""
    asked = claim.spec.resources.requests.get("storage")
    for each in context.snapshot.all(core_v1.LimitRange):
        after, words = copy_of(each), []
        for item in after.spec.limits if asked is not None and each.metadata.namespace == context.namespace else ():
            for word, bounds, beyond in (("max", item.max, operator.gt), ("min", item.min, operator.lt)):
                bound = bounds.get("storage") if item.type == "PersistentVolumeClaim" else None
                if asked is not None and bound is not None and beyond(asked, bound):
                    bounds["storage"] = asked
                    words.append(f"{word} storage of claims from {bound} to {asked}")
        if words:
            yield from context.modify_object(
                f"let LimitRange {each.metadata.name} allow it: {' and '.join(words)}", MODEST, each, after
            )


def _keep_sum_in_bounds(spec: core_v1.PodSpec, item: Any, words: list[str]) -> None:
    """Lower the largest request among a pod's containers until their sum is within a LimitRange for pods."""
    for kind in ("limits", "requests"):
        for name, most in item.max.items():
            holders = [each for each in spec.containers if name in getattr(each.resources, kind)]
            total = sum((getattr(each.resources, kind)[name] for each in holders), start=parse("0"))
            if total <= most or not holders:
                continue
            largest = max(holders, key=lambda each: getattr(each.resources, kind)[name])
            amounts = getattr(largest.resources, kind)
            left = amounts[name] - (total - most)
            if left > parse("0"):
                words.append(f"{kind[:-1]} of {name} of container {largest.name} from {amounts[name]} to {left}")
                amounts[name] = left


def _keep_in_bounds(container: Any, item: Any, words: list[str]) -> None:
    resources = container.resources
    for kind, amounts in (("limit", resources.limits), ("request", resources.requests)):
        for bounds, beyond in ((item.max, operator.gt), (item.min, operator.lt)):
            for name, bound in bounds.items():
                if name in amounts and beyond(amounts[name], bound):
                    words.append(f"{kind} of {name} of container {container.name} from {amounts[name]} to {bound}")
                    amounts[name] = bound
    for name, default in item.default.items():
        asked = resources.requests.get(name)
        if asked is not None and asked > default and resources.limits.get(name, default) == default:
            resources.limits[name] = asked
            words.append(f"limit of {name} of container {container.name} to its request {asked}")
    for name, most in item.max.items():
        if name not in resources.limits and name not in item.default:
            resources.limits[name] = most
            words.append(f"limit of {name} of container {container.name} to {most}")
    for name, ratio in item.max_limit_request_ratio.items():
        limit, request = resources.limits.get(name), resources.requests.get(name)
        if (
            limit is not None
            and request is not None
            and limit > _add_times(parse("0"), request, int(float(str(ratio))))
        ):
            resources.requests[name] = limit
            words.append(f"request of {name} of container {container.name} to its limit {limit}")


def _drop_privileges(spec: core_v1.PodSpec) -> bool:
    """Change a pod's spec so that the Pod Security level `restricted` admits it; return True, as every edit does."""
    spec.host_network = spec.host_pid = spec.host_ipc = False
    spec.volumes = [each for each in spec.volumes if each.host_path is None]
    mounted = {each.name for each in spec.volumes}
    whole = spec.security_context or core_v1.PodSecurityContext()
    whole.run_as_non_root = True
    whole.seccomp_profile = core_v1.SeccompProfile(type="RuntimeDefault")
    whole.run_as_user = whole.run_as_user or None
    spec.security_context = whole
    for container in containers_of(spec):
        context = container.security_context or core_v1.SecurityContext()
        context.privileged = None
        context.allow_privilege_escalation = False
        context.run_as_non_root = None if context.run_as_non_root is False else context.run_as_non_root
        context.run_as_user = context.run_as_user or None
        context.seccomp_profile = None
        context.proc_mount = None
        added = context.capabilities.add if context.capabilities is not None else []
        context.capabilities = core_v1.Capabilities(
            drop=["ALL"], add=[each for each in added if each == _ALLOWED_CAPABILITY]
        )
        container.security_context = context
        container.volume_mounts = [each for each in container.volume_mounts if each.name in mounted]
        for port in container.ports:
            port.host_port = 0
    return True


# -- references


def _correct_names(
    context: Context,
    known: Iterable[str],
    label: str,
    field: str,
    holders: Callable[[core_v1.PodSpec], Iterable[Any]] = lambda spec: [spec],
    **others: Any,
) -> Iterator[Candidate]:
    """Suggest the correct spelling of each misspelled name in a field of the pod's spec, or of parts of the spec.

    `others` are further fields to set along with the name.
    """
    names = list(known)
    for name in dict.fromkeys(getattr(each, field) or "" for each in holders(context.pod.spec)):
        if meant := find_similar(name, names):
            find = partial(_objects_with_name, holders, field, name)
            edit = set_fields_in(find, **{field: meant}, **others)
            yield from context.edit_pod(f"correct {label} {name} to {meant}", BOUND, edit)


def _objects_with_name(
    holders: Callable[[core_v1.PodSpec], Iterable[Any]], field: str, name: str, spec: core_v1.PodSpec
) -> list[Any]:
    return [each for each in holders(spec) if getattr(each, field) in (name, "")]  # empty: the server sets it


def _existing_names(context: Context, kind: type[Resource]) -> list[str]:
    every = (each.metadata for each in context.snapshot.all(kind))
    return [each.name for each in every if each.namespace in ("", context.namespace)]


def _fix_priority_class(context: Context) -> Iterator[Candidate]:
    name = context.pod.spec.priority_class_name
    known = [each for each in _existing_names(context, PriorityClass) if not each.startswith("system-")]
    cleared: dict[str, Any] = {"priority": None, "preemption_policy": None}
    yield from _correct_names(context, known, "priorityClassName", "priority_class_name", **cleared)
    yield from context.edit_pod(f"drop priorityClassName {name}", MODEST, set_fields(priority_class_name="", **cleared))
    new = PriorityClass(metadata=ObjectMeta(name=name), value=1000)
    yield from context.create_object(f"create PriorityClass {name} (value 1000)", new)


def _fix_runtime_class(context: Context) -> Iterator[Candidate]:
    yield from _correct_names(context, _existing_names(context, RuntimeClass), "runtimeClassName", "runtime_class_name")
    summary = f"drop runtimeClassName {context.pod.spec.runtime_class_name or ''}"
    caveat = "the containers then run with the default runtime of the node"
    yield from context.edit_pod(summary, MODEST, set_fields(runtime_class_name=None), caveat)


def _drop_node_name(context: Context) -> Iterator[Candidate]:
    wanted = context.pod.spec.node_name
    edit = set_fields_in(lambda spec: [spec] if spec.node_name == wanted else [], node_name="")
    yield from context.edit_pod(f"let the scheduler choose: drop spec.nodeName {wanted}", BOUND, edit)


def _correct_claim_name(context: Context) -> Iterator[Candidate]:
    known = _existing_names(context, core_v1.PersistentVolumeClaim)
    yield from _correct_names(context, known, "claimName", "claim_name", claim_sources)


def _correct_device_claim_name(context: Context) -> Iterator[Candidate]:
    for kind, field in (
        (ResourceClaim, "resource_claim_name"),
        (ResourceClaimTemplate, "resource_claim_template_name"),
    ):
        known = _existing_names(context, kind)
        yield from _correct_names(context, known, kind.__name__, field, lambda spec: spec.resource_claims)


def _fix_service_account(context: Context) -> Iterator[Candidate]:
    name, known = context.pod.spec.service_account_name, _existing_names(context, core_v1.ServiceAccount)
    meant = find_similar(name, known)
    old: dict[str, Any] = {"service_account": meant} if context.pod.spec.service_account else {}  # its deprecated name
    yield from _correct_names(context, known, "serviceAccountName", "service_account_name", **old)
    new = core_v1.ServiceAccount(metadata=ObjectMeta(name=name, namespace=context.namespace))
    yield from context.create_object(f"create ServiceAccount {context.namespace}/{name}", new)


# -- policies and webhooks


def _warn_instead_of_deny(context: Context) -> Iterator[Candidate]:
    verdict = context.snapshot.derive(policies_of).verdict(context.pod)
    for denial in verdict.denials[:1]:
        binding = context.snapshot.find(ValidatingAdmissionPolicyBinding, "", denial.binding)
        if binding is not None and "Deny" in binding.spec.validation_actions:
            after = copy_of(binding)
            kept = [each for each in binding.spec.validation_actions if each not in ("Deny", "Warn")]
            after.spec.validation_actions = [*kept, "Warn"]
            yield from context.modify_object(
                f"let the policy binding {denial.binding} warn instead of deny",
                LARGE,
                binding,
                after,
                "the policy then refuses nothing; better change the pod as the policy asks",
            )


def _ignore_webhook_failures(context: Context) -> Iterator[Candidate]:
    configurations: tuple[MutatingWebhookConfiguration | ValidatingWebhookConfiguration, ...] = (
        *context.snapshot.all(MutatingWebhookConfiguration),
        *context.snapshot.all(ValidatingWebhookConfiguration),
    )
    for configuration in configurations:
        after = copy_of(configuration)
        meant = [each for each in after.webhooks if f"webhook {each.name} " in context.cause.text]
        for each in meant:
            each.failure_policy = "Ignore"
        if meant:
            yield from context.modify_object(
                f"let webhook {meant[0].name} be skipped while it does not answer (failurePolicy: Ignore)",
                LARGE,
                configuration,
                after,
                "what the webhook enforces is not enforced then; better bring it back",
            )


# -- workloads that create nothing


def _resume_deployment(context: Context) -> Iterator[Candidate]:
    meta = context.subject.source.metadata
    command = kubectl_command("rollout", "resume", f"deployment/{meta.name}", namespace=meta.namespace)
    yield from context.edit_workload(f"resume deployment {meta.name}", BOUND, set_fields(paused=False), command)


def _unsuspend_job(context: Context) -> Iterator[Candidate]:
    source = context.subject.source
    if isinstance(source, Job | CronJob):
        summary = f"resume {source.kind.lower()} {source.metadata.name}"
        yield from context.edit_workload(summary, BOUND, set_fields(suspend=False))


# -- neighbours


def _relax_anti_affinity(context: Context) -> Iterator[Candidate]:
    """Suggest to scale down to one pod per domain, or to make the required anti-affinity a preference."""
    source = context.subject.source
    yield from context.scale_down()
    if not isinstance(source, Deployment):
        return

    def edit(spec: DeploymentSpec) -> bool:
        affinity = spec.template.spec.affinity
        holder = affinity.pod_anti_affinity if affinity is not None else None
        if holder is None:
            return False
        holder.preferred_during_scheduling_ignored_during_execution += [
            core_v1.WeightedPodAffinityTerm(weight=100, pod_affinity_term=term)
            for term in holder.required_during_scheduling_ignored_during_execution
        ]
        holder.required_during_scheduling_ignored_during_execution = []
        spec.strategy = DeploymentStrategy(type="Recreate")
        return True

    summary = "make the anti-affinity a preference, and replace all pods at once (strategy: Recreate)"
    yield from context.edit_workload(summary, LARGE, edit)


def _avoid_host_ports(context: Context) -> Iterator[Candidate]:
    """Suggest to scale down to the nodes with a free host port, or to remove the host port."""
    scaled = list(context.scale_down())
    if not scaled:
        return
    yield from scaled

    def ports(spec: core_v1.PodSpec) -> list[core_v1.ContainerPort]:
        every = [port for each in containers_of(spec) for port in each.ports if port.host_port]
        return [] if spec.host_network else every

    caveat = "the pods are then reached by a Service, not by the address of their node"
    yield from context.edit_pod("drop the host port", LARGE - 1, set_fields_in(ports, host_port=0), caveat)


_BY_CAUSE: Mapping[str, Callable[[Context], Iterator[Candidate]]] = {
    "QuotaExceeded": _raise_quota,
    "QuotaNeedsRequests": _add_requests,
    "LimitRange": _stay_in_limit_range,
    "PodSecurity": lambda context: context.edit_pod(
        "meet the Pod Security level: run without privileges (see the patch)",
        SMALL,
        _drop_privileges,
        "the program in the container has to run without these privileges",
    ),
    "MissingPriorityClass": _fix_priority_class,
    "MissingServiceAccount": _fix_service_account,
    "MissingRuntimeClass": _fix_runtime_class,
    "MissingClaim": _correct_claim_name,
    "MissingResourceClaim": _correct_device_claim_name,
    "MissingResourceClaimTemplate": _correct_device_claim_name,
    "PolicyDenied": _warn_instead_of_deny,
    "WebhookDown": _ignore_webhook_failures,
    "Paused": _resume_deployment,
    "Suspended": _unsuspend_job,
    "NoParallelism": lambda context: context.edit_workload(
        f"let job {context.subject.source.metadata.name} run one pod at a time", BOUND, set_fields(parallelism=1)
    ),
    "NoReplicas": lambda context: context.scale_to(1),
    "AntiAffinity": _relax_anti_affinity,
    "NoDevices": Context.scale_down,
    "HostPortTaken": _avoid_host_ports,
    "NodeGone": _drop_node_name,
    **dict.fromkeys(IMAGE_CAUSES, waiting.image_remedies),
    "CrashLoopBackOff": waiting.undo_rollout,
    "CreateContainerConfigError": waiting.undo_rollout,
    "NotProvisioned": waiting.provisioning_remedies,
    "ClaimInUse": waiting.claim_in_use_remedies,
}
