"""Find RBAC rules with groups, resources or verbs that the other release lacks, or that do not suffice there.

Names that no release has are typos or custom kinds and are ignored, as are the server's own roles. Discovery verbs are
the same in all releases; gates change which verbs and resources servers and kubelets authorize.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import ReleaseObject
from mooring.advisor.trees import as_list, as_mapping

_KINDS = frozenset({"Role", "ClusterRole"})
_BOOTSTRAPPED = "kubernetes.io/bootstrapping"
_VERBS = {
    "impersonate": "ConstrainedImpersonation",
    "impersonate-on": "ConstrainedImpersonation",
    "request-serviceaccounts-token-audience": "ServiceAccountNodeAudienceRestriction",
}
"""RBAC verbs (or prefixes up to a colon) authorized only with a feature gate. `impersonate` alone always is."""
_SUBRESOURCES = {
    ("", "nodes/configz"): "KubeletFineGrainedAuthz",
    ("", "nodes/healthz"): "KubeletFineGrainedAuthz",
    ("", "nodes/pods"): "KubeletFineGrainedAuthz",
    ("resource.k8s.io", "resourceclaims/binding"): "DRAResourceClaimGranularStatusAuthorization",
    ("resource.k8s.io", "resourceclaims/driver"): "DRAResourceClaimGranularStatusAuthorization",
}
"""Virtual subresources that are authorized only with a feature gate."""


_PARTS_OF_PROXY = frozenset({("", "nodes/configz"), ("", "nodes/healthz"), ("", "nodes/pods")})
"""Subresources that kubelets with a feature gate authorize first, before they fall back to `nodes/proxy`."""
_PROXY, _GET = frozenset({"nodes/proxy"}), frozenset({"get"})


class Demand(NamedTuple):
    """A permission (`verbs` on `given`) that is not enough once a gate is on, and the one needed in addition."""

    gate: str
    group: str
    given: frozenset[str]
    verbs: frozenset[str]
    wanted: frozenset[str]
    """The resources for which permissions are required; empty for the same resource."""
    wanted_verbs: frozenset[str]
    refused: str


_WRITE = frozenset({"update", "patch"})
_DEMANDS = (
    Demand(
        "AuthorizePodWebsocketUpgradeCreatePermission",
        "",
        frozenset({"pods/attach", "pods/exec", "pods/portforward"}),
        frozenset({"get"}),
        frozenset(),
        frozenset({"create"}),
        "streams over WebSockets, which kubectl uses",
    ),
    Demand(
        "DRAResourceClaimGranularStatusAuthorization",
        "resource.k8s.io",
        frozenset({"resourceclaims/status"}),
        _WRITE,
        frozenset({"resourceclaims/binding", "resourceclaims/driver"}),
        _WRITE,
        "changes of allocations and of the status of devices",
    ),
)


def check_rights(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    """Yield findings about rules of an RBAC role that match nothing in the target release, or are not enough there."""
    if subject.reference.kind not in _KINDS or subject.group != "rbac.authorization.k8s.io":
        return
    if _BOOTSTRAPPED in as_mapping(subject.metadata.get("labels")):
        return
    rules = [as_mapping(rule) for rule in as_list(subject.tree.get("rules"))]
    for index, rule in enumerate(rules):
        for field, value, what in _find_unmatched(rule, rules, crossing):
            text = f"{crossing.end} has no {what}: the rule gives no right there"
            yield subject.finding(Effect.RIGHTS_TO_NOTHING, text, f"rules[{index}].{field}", value)
        for resource, demand in _find_unmet_demands(rule, rules, crossing):
            wanted = f"{' or '.join(sorted(demand.wanted_verbs))} of {' or '.join(sorted(demand.wanted or {resource}))}"
            text = f"{crossing.end} asks for {wanted} as well, and refuses {demand.refused}, without it"
            yield subject.finding(Effect.RIGHTS_MISSING, text, f"rules[{index}].verbs", resource)


def _find_unmatched(
    rule: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], crossing: Crossing
) -> Iterator[tuple[str, str, str]]:
    for group, resource in _groups_and_resources(rule):
        if (group, resource) in _PARTS_OF_PROXY and any(_rule_grants(each, group, _PROXY, _GET) for each in rules):
            continue
        if (
            _is_known_resource(group, resource, crossing, end=False)
            and _is_known_resource(group, resource, crossing, end=True) is False
        ):
            name = f"{resource}.{group}" if group else resource
            yield "resources", name, f"{resource} in {group or 'the core group'}"
    for verb in _strings_in(rule, "verbs"):
        word, colon, _ = verb.partition(":")
        gate = _VERBS.get(word) if verb != "impersonate" else None
        if gate and crossing.is_gate_on(gate, end=False) and not crossing.is_gate_on(gate, end=True):
            yield "verbs", verb, f"verb {word}{colon}"


def _find_unmet_demands(
    rule: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], crossing: Crossing
) -> Iterator[tuple[str, Demand]]:
    for demand in _DEMANDS:
        if crossing.is_gate_on(demand.gate, end=False) or not crossing.is_gate_on(demand.gate, end=True):
            continue
        for group, resource in _groups_and_resources(rule):
            given = (
                group == demand.group and resource in demand.given and demand.verbs & set(_strings_in(rule, "verbs"))
            )
            wanted = demand.wanted or {resource}
            if given and not any(_rule_grants(each, group, wanted, demand.wanted_verbs) for each in rules):
                yield resource, demand


def _rule_grants(
    rule: Mapping[str, Any], group: str, resources: frozenset[str] | set[str], verbs: frozenset[str]
) -> bool:
    named = set(_strings_in(rule, "resources"))
    every = {"*"} | {f"*/{each.partition('/')[2]}" for each in resources}
    return (
        bool({"*", group} & set(_strings_in(rule, "apiGroups")))
        and bool((every | resources) & named)
        and any(verb == "*" or verb.rpartition(":")[2] in verbs for verb in _strings_in(rule, "verbs"))
    )


def _groups_and_resources(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for group in _strings_in(rule, "apiGroups"):
        for resource in _strings_in(rule, "resources"):
            if "*" not in (group, resource):
                yield group, resource


def _strings_in(rule: Mapping[str, Any], field: str) -> list[str]:
    return [each for each in as_list(rule.get(field)) if isinstance(each, str)]


def _is_known_resource(group: str, resource: str, crossing: Crossing, *, end: bool) -> bool | None:
    if group not in crossing.history.groups:
        return None
    gate = _SUBRESOURCES.get((group, resource))
    if gate is not None:
        return crossing.is_gate_on(gate, end=end)
    plural, _, sub = resource.partition("/")
    versions = crossing.history.versions(group, plural)
    if plural == "*" or sub == "*":
        return True
    if not sub:
        return any(crossing.knows(each, end=end) for each in versions)
    return any(crossing.has_subresource(each, sub, end=end) for each in versions)
