"""Reject pods, and warn about pods, templates and namespaces, by the labels of a namespace."""

from collections.abc import Iterable
from itertools import islice

from mooring.admission.pod_security.checks import NEWEST, Subject, Violation, list_pod_security_rules
from mooring.admission.pod_security.policy import PREFIX, PRIVILEGED, Policy, Standard, parse_policy
from mooring.admission.strategy import Request
from mooring.api import errors
from mooring.api.core_v1 import Namespace, Pod, PodSpec, PodTemplateSpec
from mooring.api.resource_v1 import ADMIN_ACCESS_LABEL

MAX_CHECKED_PODS = 500
"""The maximum number of pods checked when the level of their namespace changes; Kubernetes stops at 3000, or 1 s."""


def check_pod(pod: Pod, old: Pod | None, request: Request) -> None:
    """Raise Forbidden if a pod violates its namespace's `enforce` level; else warn if it violates the `warn` level.
    Updates are checked only if they change images.
    """
    policy = _get_namespace_policy(request)
    if policy is None or (old is not None and not _has_new_images(pod.spec, old.spec)):
        return
    found = _find_violations(policy.enforce, pod, request)
    if found:
        why = f'violates PodSecurity "{policy.enforce}": {_join_violations(found)}'
        raise _build_forbidden_error(pod, why)
    _warn_about_violations(policy.warn, pod, request)


def _build_forbidden_error(pod: Pod, why: str) -> errors.Forbidden:
    return errors.forbidden("pods", pod.metadata.name, why)


def warn_about_template(template: PodTemplateSpec, request: Request) -> None:
    """Warn the client if pods of a workload's template would violate the namespace's `warn` level."""
    policy = _get_namespace_policy(request)
    if policy is not None:
        _warn_about_violations(policy.warn, template, request)


def admit_security_labels(new: Namespace, old: Namespace | None, request: Request) -> None:
    """Raise Invalid for invalid Pod Security labels; warn if existing pods violate a new, stricter `enforce` level."""
    labels = security_labels(new.metadata.labels)
    before = security_labels(old.metadata.labels) if old is not None else {}
    if labels == before:
        return
    policy, was = parse_policy(labels), parse_policy(before)
    if policy.errors and policy.errors != was.errors:
        raise errors.invalid("Namespace", new.metadata.name, list(policy.errors))
    enforce = policy.enforce
    relaxed = enforce.version == was.enforce.version and enforce.strictness <= was.enforce.strictness
    if old is not None and enforce.level != PRIVILEGED and not relaxed:
        _warn_about_pods(new.metadata.name, enforce, request)


def _get_namespace_policy(request: Request) -> Policy | None:
    labels = request.lookups.security_labels(request.namespace)
    return parse_policy(labels) if labels else None


def security_labels(labels: dict[str, str]) -> dict[str, str]:
    """Select the labels of a namespace that admission reads: for Pod Security and for DRA admin access."""
    return {key: value for key, value in labels.items() if key.startswith(PREFIX) or key == ADMIN_ACCESS_LABEL}


def _find_violations(standard: Standard, pod: Subject, request: Request) -> list[Violation]:
    newest = min(NEWEST, request.options.pod_security_minor)
    found = (rule(pod) for rule in list_pod_security_rules(standard.level, standard.resolve_minor(newest)))
    return [violation for violation in found if violation is not None]


def _join_violations(found: Iterable[Violation]) -> str:
    return ", ".join(map(str, found))


def _warn_about_violations(standard: Standard, pod: Subject, request: Request) -> None:
    found = _find_violations(standard, pod, request)
    if found:
        request.warn(f'would violate PodSecurity "{standard}": {_join_violations(found)}')


def _has_new_images(new: PodSpec, old: PodSpec) -> bool:
    if [each.image for each in new.init_containers] != [each.image for each in old.init_containers]:
        return True
    if [each.image for each in new.containers] != [each.image for each in old.containers]:
        return True
    known = {each.name: each.image for each in old.ephemeral_containers}
    return any(known.get(each.name) != each.image for each in new.ephemeral_containers)


def _warn_about_pods(namespace: str, enforce: Standard, request: Request) -> None:
    total, pods = request.lookups.pods(namespace)
    names: dict[str, list[str]] = {}
    for pod in islice(pods, MAX_CHECKED_PODS):
        found = _find_violations(enforce, pod, request)
        if found:
            names.setdefault(", ".join(violation.reason for violation in found), []).append(pod.metadata.name)
    if total > MAX_CHECKED_PODS:
        first = f"the first {MAX_CHECKED_PODS} of {total} existing pods"
        request.warn(f"new PodSecurity enforce level only checked against {first}")
    if names:
        request.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"')
    for text in sorted(f"{_format_pod_names(pods_so)}: {reasons}" for reasons, pods_so in names.items()):
        request.warn(text)


def _format_pod_names(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
