"""Check the API versions, annotations, webhooks and CEL expressions of objects, for ``auditor.py``."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

from mooring.advisor.audit import admission_checks
from mooring.advisor.audit.outcomes import last_applied_version
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import ReleaseObject
from mooring.advisor.trees import as_list, as_mapping
from mooring.api import codec
from mooring.api.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingWebhookConfiguration,
)
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.history import Served
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import Resource


def check_versions(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about API versions of an object (own, stored, of clients) that the target lacks or deprecates."""
    served = subject.served
    if served is None:
        yield from _check_removal(subject, crossing)
        return
    if not subject.reference.stored:
        yield from _check_manifest(subject, served, crossing)
        return
    yield from _check_storage(subject, served, crossing)
    yield from _check_clients(subject, crossing)


def _check_removal(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    removal = crossing.removal_of(subject.raw.api_version, subject.raw.kind)
    if removal is not None:
        release, use = removal
        text = f"{subject.raw.api_version} {subject.raw.kind} was removed in {release}" + (
            f"; use {use}" if use else ""
        )
        yield subject.finding(Effect.NOT_SERVED, text)


def _check_manifest(subject: ReleaseObject, served: Served, crossing: Crossing) -> Iterator[Finding]:
    if crossing.serves(served, end=True):
        if crossing.is_newly_deprecated(served):
            yield subject.finding(
                Effect.DEPRECATED, f"{_name_of(served)} is deprecated{_replacement_hint(served, crossing)}"
            )
        return
    if not crossing.knows(served, end=True):
        until = served.releases.until if crossing.goes_up else None
        when = f"was removed in {until}" if until else f"does not exist in {crossing.end}"
        yield subject.finding(Effect.NOT_SERVED, f"{_name_of(served)} {when}{_replacement_hint(served, crossing)}")
    elif crossing.serves(served, end=False):
        text = (
            f"{_name_of(served)} is served in {crossing.end} only with --runtime-config"
            f"{_replacement_hint(served, crossing)}"
        )
        yield subject.finding(Effect.NOT_SERVED, text)
    else:
        where = "both releases" if crossing.knows(served, end=False) else crossing.end
        text = f"{_name_of(served)} is served only with --runtime-config={served.api_version}=true in {where}"
        yield subject.finding(Effect.NEEDS_GATE, text)


def _check_storage(subject: ReleaseObject, served: Served, crossing: Crossing) -> Iterator[Finding]:
    versions = crossing.history.versions(served.group, served.plural)
    known = [each for each in versions if crossing.knows(each, end=True)]
    if not any(crossing.serves(each, end=True) for each in versions):
        text = f"{crossing.end} does not serve {served.kind} of {served.group or 'core'} in any version"
        if known:
            text += f" unless --runtime-config={known[-1].api_version}=true is set"
        if _is_made_by_server(subject):
            yield subject.finding(Effect.HARMLESS, f"{text}; the server made it for itself, and leaves it in etcd")
            return
        text += "; it stays in etcd, and no client can read or delete it: delete it before"
        yield subject.finding(Effect.UNREACHABLE, text)
        return
    stored = served.storage_version(crossing.start)
    storing = next((each for each in versions if each.version == stored), None)
    if storing is not None and not crossing.goes_up and not crossing.knows(storing, end=True):
        text = (
            f"{crossing.start} stores it as {storing.api_version}, which {crossing.end} cannot read: lists of "
            f"{served.plural} fail as a whole; let a server with --emulated-version={crossing.end} write it again first"
        )
        yield subject.finding(Effect.UNREADABLE, text)


def _is_made_by_server(subject: ReleaseObject) -> bool:
    labels = as_mapping(subject.metadata.get("labels"))
    return "ipaddress.kubernetes.io/managed-by" in labels or (
        (subject.reference.kind, subject.reference.name) == ("ServiceCIDR", "kubernetes")
    )


def _check_clients(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    seen = {subject.raw.api_version}
    managers = ((version, manager) for manager, version in subject.managers)
    for version, who in ((last_applied_version(subject.tree), "kubectl apply"), *managers):
        if version in seen or not version:
            continue
        seen.add(version)
        used = crossing.history.kind(*GroupVersion.parse(version), subject.raw.kind)
        lost = used is not None and crossing.knows(used, end=False) and not crossing.knows(used, end=True)
        if used is not None and lost:
            text = (
                f"{who} writes it as {version}, which {crossing.end} does not serve{_replacement_hint(used, crossing)}"
            )
            yield subject.finding(Effect.CLIENT, text)


def _replacement_hint(served: Served, crossing: Crossing) -> str:
    others = [each for each in crossing.history.versions(served.group, served.plural) if each is not served]
    usable = [each.api_version for each in others if crossing.serves(each, end=True)]
    if served.replacement in usable:
        return f"; use {served.replacement}"
    return f"; use {usable[0]}" if usable else ""


def _name_of(served: Served) -> str:
    return f"{served.api_version} {served.kind}"


class DeprecatedAnnotation(NamedTuple):
    """A deprecated annotation key, or a prefix of keys, with the release and what to use instead."""

    key: str
    since: str
    use: str
    does_nothing: bool = False
    """Whether it has no effect since that release, rather than being deprecated."""


_POD = (
    DeprecatedAnnotation("container.apparmor.security.beta.kubernetes.io/", "1.30", "securityContext.appArmorProfile"),
    DeprecatedAnnotation(
        "container.seccomp.security.alpha.kubernetes.io/", "1.27", "securityContext.seccompProfile", True
    ),
    DeprecatedAnnotation("seccomp.security.alpha.kubernetes.io/pod", "1.27", "securityContext.seccompProfile", True),
    DeprecatedAnnotation("scheduler.alpha.kubernetes.io/critical-pod", "1.16", "spec.priorityClassName", True),
    DeprecatedAnnotation("security.alpha.kubernetes.io/sysctls", "1.11", "securityContext.sysctls", True),
    DeprecatedAnnotation("security.alpha.kubernetes.io/unsafe-sysctls", "1.11", "securityContext.sysctls", True),
)
_CLASS = DeprecatedAnnotation("volume.beta.kubernetes.io/storage-class", "1.8", "spec.storageClassName")
_BY_KIND = {
    "Ingress": (DeprecatedAnnotation("kubernetes.io/ingress.class", "1.18", "spec.ingressClassName"),),
    "PersistentVolume": (
        _CLASS,
        DeprecatedAnnotation("volume.beta.kubernetes.io/mount-options", "1.31", "spec.mountOptions"),
    ),
    "PersistentVolumeClaim": (_CLASS,),
    "Pod": _POD,
    "Service": (
        DeprecatedAnnotation(
            "service.kubernetes.io/topology-aware-hints", "1.27", "the annotation service.kubernetes.io/topology-mode"
        ),
    ),
}


def check_annotations(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    """Yield a finding for each deprecated annotation of an object and of its pod template."""
    if subject.served is None:
        return
    known = _BY_KIND.get(subject.reference.kind, ())
    yield from _find_annotations(subject, subject.tree, "metadata.annotations", known, crossing)
    if subject.template_path:
        template: Any = subject.tree
        for step in subject.template_path.split("."):
            template = as_mapping(template).get(step)
        yield from _find_annotations(subject, template, f"{subject.template_path}.metadata.annotations", _POD, crossing)


def _find_annotations(
    subject: ReleaseObject, tree: Any, path: str, known: tuple[DeprecatedAnnotation, ...], crossing: Crossing
) -> Iterator[Finding]:
    annotations = as_mapping(as_mapping(as_mapping(tree).get("metadata")).get("annotations"))
    for key in annotations if known else ():
        found = next((each for each in known if _matches_key(each, key)), None)
        if found is None or not crossing.has_begun(found.since):
            continue
        if f"'{found.use.rpartition('.')[2]}'" in str(as_mapping(tree).get("spec")):
            continue  # the object has the field that replaces the annotation
        what = "does nothing from" if found.does_nothing else "is deprecated from"
        text = f"the annotation {what} {found.since} on; use {found.use}"
        severity = "" if crossing.begins(found.since) else "info"
        yield subject.finding(Effect.DEPRECATED, text, f"{path}[{key}]", str(annotations[key])[:60], severity=severity)


def _matches_key(deprecated: DeprecatedAnnotation, key: str) -> bool:
    return key.startswith(deprecated.key) if deprecated.key.endswith("/") else key == deprecated.key


_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
_VITAL = frozenset({("", "pods"), ("", "nodes"), ("coordination.k8s.io", "leases"), ("", "*"), ("*", "*")})
"""The resources that a control plane must be able to write while it is restarted and nodes are drained."""


def check_bystanders(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about webhooks and APIServices that can block the upgrade, and about unsupported kubelets."""
    kind, group = subject.reference.kind, subject.group
    if kind in _WEBHOOKS and group == "admissionregistration.k8s.io":
        yield from _check_webhooks(subject, crossing)
    elif kind == "APIService" and group == "apiregistration.k8s.io":
        yield from _check_api_service(subject)
    elif kind == "Node" and not group:
        version = str(as_mapping(as_mapping(subject.tree.get("status")).get("nodeInfo")).get("kubeletVersion") or "")
        if wrong := crossing.kubelet_skew(version):
            yield subject.finding(Effect.SKEW, wrong, "status.nodeInfo.kubeletVersion", version)


def _check_webhooks(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    for index, each in enumerate(as_list(subject.tree.get("webhooks"))):
        webhook = as_mapping(each)
        rules = [as_mapping(rule) for rule in as_list(webhook.get("rules"))]
        if (
            subject.reference.stored
            and _can_block(webhook)
            and any(_VITAL & set(_groups_and_resources(rule)) for rule in rules)
        ):
            text = (
                "it is asked about pods, nodes or leases everywhere, and what it does not answer is refused: where its"
                " own pods are down, nothing starts; let it spare kube-system and its own namespace, or set"
                " failurePolicy to Ignore"
            )
            field = f"webhooks[{index}].failurePolicy"
            yield subject.finding(Effect.IN_THE_WAY, text, field, str(webhook.get("name")))
        for position, rule in enumerate(rules):
            yield from _check_webhook_versions(
                subject, crossing, rule, f"webhooks[{index}].rules[{position}].apiVersions"
            )


def _can_block(webhook: Mapping[str, Any]) -> bool:
    spares = webhook.get("namespaceSelector") or webhook.get("objectSelector") or webhook.get("matchConditions")
    return (
        webhook.get("failurePolicy", "Fail") == "Fail"
        and not spares
        and "service" in as_mapping(webhook.get("clientConfig"))
    )


def _groups_and_resources(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return product(map(str, as_list(rule.get("apiGroups"))), map(str, as_list(rule.get("resources"))))


def _check_webhook_versions(
    subject: ReleaseObject, crossing: Crossing, rule: Mapping[str, Any], field: str
) -> Iterator[Finding]:
    for group, resource in _groups_and_resources(rule):
        versions = {each.version: each for each in crossing.history.versions(group, resource.partition("/")[0])}
        named = [versions[name] for name in map(str, as_list(rule.get("apiVersions"))) if name in versions]
        here = any(crossing.serves(each, end=False) for each in named)
        there = any(crossing.serves(each, end=True) for each in versions.values())
        if here and not there:
            text = f"{crossing.end} does not serve {resource} of {group or 'core'}: the webhook is not asked any more"
            yield subject.finding(Effect.IN_THE_WAY, text, field, resource)


def _check_api_service(subject: ReleaseObject) -> Iterator[Finding]:
    conditions = [as_mapping(each) for each in as_list(as_mapping(subject.tree.get("status")).get("conditions"))]
    available = next((each for each in conditions if each.get("type") == "Available"), None)
    if available is not None and available.get("status") != "True":
        why = available.get("reason") or "unknown"
        text = (
            f"it is not available ({why}): namespaces cannot be deleted and discovery is incomplete while that is so;"
            " mend it or delete it before"
        )
        yield subject.finding(Effect.IN_THE_WAY, text, "status.conditions", "Available")


class _KindWithExpressions(NamedTuple):
    """A kind whose objects contain CEL expressions, and the field that contains them."""

    type: type[Resource]
    word: str
    """The name of the field with expressions; objects without it have none."""
    stored: str
    """What happens to writes if a stored object of the kind calls a CEL function that the server lacks."""


_POLICY = "all that the policy is asked about is refused, unless its failurePolicy is Ignore"
_WEBHOOK = "all that the webhook would be asked about is refused, unless its failurePolicy is Ignore"
_KINDS = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _KindWithExpressions(
        CustomResourceDefinition, "x-kubernetes-validations", "every write of its objects is refused"
    ),
    **{
        ("admissionregistration.k8s.io", kind.__name__): _KindWithExpressions(kind, field, effect)
        for kind, field, effect in (
            (ValidatingAdmissionPolicy, "expression", _POLICY),
            (MutatingAdmissionPolicy, "expression", _POLICY),
            (ValidatingWebhookConfiguration, "matchConditions", _WEBHOOK),
            (MutatingWebhookConfiguration, "matchConditions", _WEBHOOK),
        )
    },
}


def check_expressions(subject: ReleaseObject, crossing: Crossing, now: datetime) -> Iterator[Finding]:
    """Yield findings about CEL expressions of an object that one of the two releases does not support."""
    found = _KINDS.get((subject.group, subject.reference.kind))
    if found is None:
        return
    if found.type is CustomResourceDefinition:
        yield from _check_custom_stored_versions(subject)
    if f"'{found.word}'" not in str(subject.tree):
        return
    try:
        results = codec.decode_tree(subject.tree, found.type, FieldValidation.IGNORE).object
    except DecodeError:
        return
    there = admission_checks.try_create(results, crossing.expression_options(end=True), now)
    if not there.refused:
        return
    here = admission_checks.try_create(results, crossing.expression_options(end=False), now)
    for field, refusal in there.subtract(here).refused.items():
        after = f"until it is changed, {found.stored}" if subject.reference.stored else "it cannot be created"
        why = (refusal.partition("compilation failed: ")[2] or refusal.partition(": ")[2]).partition("\n")[0]
        text = f"{crossing.end} does not understand it ({why}): {after}"
        yield subject.finding(Effect.RULE_REFUSED, text, field)


def _check_custom_stored_versions(subject: ReleaseObject) -> Iterator[Finding]:
    versions = [as_mapping(each) for each in as_list(as_mapping(subject.tree.get("spec")).get("versions"))]
    storage = next((each.get("name") for each in versions if each.get("storage")), None)
    names = {each.get("name") for each in versions}
    for stored in as_list(as_mapping(subject.tree.get("status")).get("storedVersions")):
        if stored == storage:
            continue
        text = f"objects may still be stored as {stored}, and the definition stores {storage}"
        if stored not in names:
            text += f"; it has no version {stored} any more, so that they cannot be read"
        text += ": write them again, then take it out of status.storedVersions"
        yield subject.finding(Effect.MIGRATE_FIRST, text, "status.storedVersions", str(stored))
