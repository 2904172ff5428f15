"""What stands beside the objects and can stop the change: webhooks, APIServices, kubelets. Called by ``auditor.py``."""

from collections.abc import Iterator, Mapping
from typing import Any

from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, items, mapping

_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
_VITAL = frozenset({("", "pods"), ("", "nodes"), ("coordination.k8s.io", "leases"), ("", "*"), ("*", "*")})
"""What a control plane must be able to write while it is restarted and nodes are drained."""


def findings(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about webhooks, APIServices and kubelets."""
    kind, group = subject.reference.kind, subject.group
    if kind in _WEBHOOKS and group == "admissionregistration.k8s.io":
        yield from _webhooks(subject, crossing)
    elif kind == "APIService" and group == "apiregistration.k8s.io":
        yield from _api_service(subject)
    elif kind == "Node" and not group:
        yield from _node(subject, crossing)


def _webhooks(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    for index, each in enumerate(items(subject.tree.get("webhooks"))):
        webhook = mapping(each)
        rules = [mapping(rule) for rule in items(webhook.get("rules"))]
        if subject.reference.stored and _is_strict(webhook) and any(_VITAL & set(_pairs(rule)) for rule in rules):
            text = (
                "it is asked about pods, nodes or leases everywhere, and what it does not answer is refused: where its"
                " own pods are down, nothing starts; let it spare kube-system and its own namespace, or set"
                " failurePolicy to Ignore"
            )
            yield _in_the_way(subject, f"webhooks[{index}].failurePolicy", str(webhook.get("name")), text)
        for position, rule in enumerate(rules):
            yield from _versions(subject, crossing, rule, f"webhooks[{index}].rules[{position}].apiVersions")


def _is_strict(webhook: Mapping[str, Any]) -> bool:
    spares = webhook.get("namespaceSelector") or webhook.get("objectSelector") or webhook.get("matchConditions")
    return (
        webhook.get("failurePolicy", "Fail") == "Fail"
        and not spares
        and "service" in mapping(webhook.get("clientConfig"))
    )


def _pairs(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for group in items(rule.get("apiGroups")):
        for resource in items(rule.get("resources")):
            yield str(group), str(resource)


def _versions(subject: Subject, crossing: Crossing, rule: Mapping[str, Any], field: str) -> Iterator[Finding]:
    for group, resource in _pairs(rule):
        versions = {each.version: each for each in crossing.history.versions(group, resource.partition("/")[0])}
        named = [versions[name] for name in map(str, items(rule.get("apiVersions"))) if name in versions]
        here = any(crossing.serves(each, end=False) for each in named)
        there = any(crossing.serves(each, end=True) for each in versions.values())
        if here and not there:
            text = f"{crossing.end} does not serve {resource} of {group or 'core'}: the webhook is not asked any more"
            yield _in_the_way(subject, field, resource, text)


def _api_service(subject: Subject) -> Iterator[Finding]:
    conditions = [mapping(each) for each in items(mapping(subject.tree.get("status")).get("conditions"))]
    available = next((each for each in conditions if each.get("type") == "Available"), None)
    if available is not None and available.get("status") != "True":
        why = available.get("reason") or "unknown"
        text = (
            f"it is not available ({why}): namespaces cannot be deleted and discovery is incomplete while that is so;"
            " mend it or delete it before"
        )
        yield _in_the_way(subject, "status.conditions", "Available", text)


def _node(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    info = mapping(mapping(subject.tree.get("status")).get("nodeInfo"))
    version = str(info.get("kubeletVersion") or "")
    wrong = crossing.kubelet_skew(version)
    if wrong:
        yield Finding(
            object=subject.reference,
            field="status.nodeInfo.kubeletVersion",
            value=version,
            effect=Effect.SKEW,
            message=wrong,
        )


def _in_the_way(subject: Subject, field: str, value: str, text: str) -> Finding:
    return Finding(object=subject.reference, field=field, value=value, effect=Effect.IN_THE_WAY, message=text)
