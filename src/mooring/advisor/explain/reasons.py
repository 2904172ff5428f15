"""Describe why a plugin rejects nodes, with the compared values.

`describe` takes nodes that a plugin rejected with the same status, and groups them by text, so that five thousand nodes
become a few lines. For an unknown plugin (a user's own), the text is its own message. Texts about volumes and devices
are in ``storage.py`` and ``devices.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mooring.advisor.explain import devices, storage
from mooring.advisor.explain.view import PODS, Shortage, Spread, Unmet, UnmetPodTerm, View, format_amount
from mooring.advisor.explain.wording import Groups, format_requirement, group_by_text, join_names, join_pod_names
from mooring.advisor.expressions import taint_variable
from mooring.advisor.lint.expressions import compile_expression
from mooring.advisor.node_facts import format_taint
from mooring.api.core_v1 import Node, NodeSelectorTerm, Taint, Toleration
from mooring.cel.tracing import trace
from mooring.constraints import node_selector, semver
from mooring.constraints.options import GATES, ConstraintOptions
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.constraints.tolerations import parse_canonical_int64
from mooring.scheduler.facade import NodeInfo
from mooring.scheduler.framework import Status

_OPTIONS = {
    "Lt": "numeric_tolerations",
    "Gt": "numeric_tolerations",
    **dict.fromkeys(semver.OPERATORS, "semver_operators"),
}
"""By toleration operator, the feature gate that enables it."""


# -- taints


def describe_taints(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    known: dict[tuple[tuple[str, str, str, str | None], ...], str] = {}

    def text(info: NodeInfo) -> str:
        found = view.untolerated_taints(info.node)
        key = tuple((each.key, each.value, each.effect, each.time_added) for each in found)
        if key not in known:
            known[key] = "; ".join(format_untolerated(view, taint) for taint in found)
        return known[key]

    return group_by_text(infos, text)


def format_untolerated(view: View, taint: Taint) -> str:
    """Return a text with an untolerated taint, and why tolerations with its key do not match it."""
    text = f"taint {format_taint(taint)} is not tolerated"
    options = view.features.constraints
    misses = [miss for each in view.pod.spec.tolerations if (miss := explain_near_miss(each, taint, options))]
    return f"{text}: {'; '.join(misses)}" if misses else text


def explain_near_miss(toleration: Toleration, taint: Taint, options: ConstraintOptions) -> str:
    """Return why a toleration with the taint's key, or with an expression, does not match; empty for other keys."""
    if toleration.expression:
        if not options.cel:
            return f"`{toleration.expression}` does not count while the gate {GATES['cel']} is off"
        return why_false("taint", toleration.expression, taint_variable(taint))
    if toleration.key != taint.key:
        return ""
    shown = f"`{toleration.operator or 'Equal'} {toleration.value}`".replace(" `", "`")
    if toleration.effect and toleration.effect != taint.effect:
        return f"{shown} is for the effect {toleration.effect}"
    option = _OPTIONS.get(toleration.operator)
    if option and not getattr(options, option):
        return f"{shown} does not count while the gate {GATES[option]} is off"
    match toleration.operator:
        case "Gt" | "Lt":
            if parse_canonical_int64(taint.value) is None:
                return f"{shown} compares numbers, and {taint.value!r} is none"
            return f"{shown} needs {'more' if toleration.operator == 'Gt' else 'less'} than {toleration.value}"
        case "SemverGt" | "SemverLt" | "SemverEq":
            if semver.parse_tolerant_or_none(taint.value) is None:
                return f"{shown} compares versions, and {taint.value!r} is none"
            needed = {"SemverGt": "a version above", "SemverLt": "a version below", "SemverEq": "the version"}
            return f"{shown} needs {needed[toleration.operator]} {toleration.value}"
        case "" | "Equal":
            return f"{shown} tolerates only the value {toleration.value!r}"
    return ""


def why_false(variable: Literal["taint", "node"], expression: str, value: Mapping[str, Any]) -> str:
    """Return a text with the parts of a CEL expression that prevent it from being true for a taint or node."""
    program = compile_expression(variable, expression)
    findings = trace(program, {variable: value}) if program is not None else ()
    if not findings:
        return f"`{expression}` cannot be evaluated"
    if len(findings) == 1 and findings[0].text == expression:
        return str(findings[0])
    shown = expression if len(expression) <= 60 else f"{expression[:59]}…"
    return f"in `{shown}` {' and '.join(map(str, findings))}"


# -- labels


def describe_node_affinity(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups | str:
    if any("scheduler-enforced" in reason for reason in status.reasons):
        return "the scheduler's configuration (addedAffinity) does not allow this node for any pod"
    keys = _label_keys_read(view)
    known: dict[tuple[object, ...], str] = {}

    def text(info: NodeInfo) -> str:
        labels = info.node.metadata.labels
        seen = tuple(labels.get(key) for key in keys) if keys is not None else (info.name,)
        if seen not in known:
            known[seen] = format_unmet_affinity(view, info.node)
        return known[seen]

    return group_by_text(infos, text)


def _label_keys_read(view: View) -> list[str] | None:
    keys = list(view.pod.spec.node_selector)
    for term in view.terms:
        if term.match_fields:
            return None
        keys += [entry.key for entry in term.match_expressions]
        for expression in term.match_cel_expressions:
            single = NodeSelectorTerm(match_cel_expressions=[expression])
            compiled = node_selector.compile_term(single, view.features.constraints)
            read = node_selector.label_keys_read(compiled.labels[0]) if compiled is not None else ()
            if read is None:
                return None
            keys += read
    return keys


def format_unmet_affinity(view: View, node: Node) -> str:
    """Return a text with the conditions of the pod's node selector and node affinity that a node does not meet."""
    parts = [format_unmet(view, unmet, node) for unmet in view.unmet_pairs(node)]
    terms = view.unmet_terms(node)
    for number, term in enumerate(terms, 1):
        head = f"term {number}: " if len(terms) > 1 else ""
        parts.append(head + (" and ".join(format_unmet(view, each, node) for each in term) or "it has no conditions"))
    return "; ".join(parts)


def format_unmet(view: View, unmet: Unmet, node: Node) -> str:
    if unmet.expression:
        if not view.features.constraints.cel:
            return f"`{unmet.expression}` does not count while the gate {GATES['cel']} is off"
        return why_false("node", unmet.expression, {"labels": node.metadata.labels})
    requirement = unmet.requirement
    if requirement is None:
        return ""
    shown = f"`{format_requirement(requirement, from_pair=unmet.term is None)}`"
    if unmet.field_name:
        return f"{shown} does not hold: the node has another name"
    if requirement.operator in semver.OPERATORS and not view.features.constraints.semver_operators:
        return f"{shown} does not count while the gate {GATES['semver_operators']} is off"
    value = node.metadata.labels.get(unmet.key)
    if requirement.operator == "DoesNotExist":
        return f"{shown} does not hold: the label is {value!r}"
    if value is None:
        return f"{shown} does not hold: there is no such label"
    if requirement.operator in semver.OPERATORS and semver.parse_tolerant_or_none(value) is None:
        return f"{shown} does not hold: {value!r} is no version"
    return f"{shown} does not hold: the label is {value!r}"


# -- resources and ports


def describe_resources(view: View, infos: Sequence[NodeInfo], _status: Status) -> str:
    if len(infos) == 1:
        return "; ".join(map(_shortage_text, view.shortages(infos[0])))
    nearest = min(infos, key=lambda info: (relative_shortage(view.shortages(info)), info.name))
    return "; ".join(_format_most_free(each, nearest.name) for each in view.shortages(nearest))


def _format_most_free(each: Shortage, node: str) -> str:
    if each.resource == PODS:
        return "each has as many pods as it can have"
    free = format_amount(each.resource, max(each.free, 0))
    return f"asks for {each.resource} {format_amount(each.resource, each.asked)}, at most {free} is free ({node})"


def relative_shortage(shortages: Sequence[Shortage]) -> float:
    """Return the sum over resources of the missing amount divided by the requested one."""
    return sum(each.missing / each.asked for each in shortages)


def _shortage_text(each: Shortage) -> str:
    if each.resource == PODS:
        return f"has {each.allocatable - each.free} pods, and cannot have more than {each.allocatable}"
    asked = f"asks for {each.resource} {format_amount(each.resource, each.asked)}"
    there, free = format_amount(each.resource, each.allocatable), format_amount(each.resource, max(each.free, 0))
    if each.allocatable < each.asked:
        return f"{asked}, and the node has {there}"
    return f"{asked}, and {free} of {there} is free: {format_amount(each.resource, each.missing)} is missing"


def describe_ports(view: View, infos: Sequence[NodeInfo], _status: Status) -> str:
    held = [each for info in infos for each in view.port_holders(info)]
    taken = list(dict.fromkeys(f"{port.port}/{port.protocol}" for port, _ in held))
    plural = "s" if len(taken) > 1 else ""
    return f"host port{plural} {join_names(taken)} taken by {join_pod_names(pod for _, pod in held)}" if taken else ""


# -- other pods

_FEW = 5
"""The maximum number of topology domains that are described one by one."""


def describe_spread(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    if not view.pod.spec.topology_spread_constraints:
        return []
    return group_by_text(infos, lambda info: "; ".join(map(format_spread, view.broken_spreads(info.node))))


def format_spread(each: Spread) -> str:
    constraint = each.constraint
    if each.domain is None:
        return f"the node has no label {constraint.topology_key}, which a spread constraint asks for"
    text = f"{constraint.topology_key}={each.domain} has {each.count} matching pods"
    if constraint.min_domains and each.domains < constraint.min_domains:
        least = f"there are {each.domains} domains of minDomains {constraint.min_domains}, so the least counts as 0"
    else:
        least = f"the least is {each.least} ({each.least_domain})"
    return f"{text}, {least}: one more would be a skew of {each.skew}, maxSkew is {constraint.max_skew}"


def describe_pod_affinity(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    """Group nodes by the text of their unmet pod-affinity terms; many domains with the same terms share one text."""
    unmet = {info.name: view.unmet_pod_terms(info.node) for info in infos}
    by_terms: dict[tuple[tuple[str, int, str], ...], list[NodeInfo]] = {}
    for info in infos:
        key = tuple((each.kind, each.index, each.term.topology_key) for each in unmet[info.name])
        by_terms.setdefault(key, []).append(info)
    groups: Groups = []
    for members in by_terms.values():
        if len({tuple(each.domain for each in unmet[info.name]) for info in members}) <= _FEW:
            groups += group_by_text(
                members, lambda info: "; ".join(_pod_term_text([each]) for each in unmet[info.name])
            )
        else:
            unmet_by_term = zip(*(unmet[info.name] for info in members), strict=True)
            groups.append(("; ".join(map(_pod_term_text, unmet_by_term)), members))
    return groups


def _pod_term_text(same: Sequence[UnmetPodTerm]) -> str:
    """Return a text saying that a pod-affinity term is not met on one node, or in each of several domains."""
    first, is_one = same[0], len(same) == 1
    key, selector = first.term.topology_key, format_selector_of(first.term)
    if is_one and first.domain is None:
        return f"the node has no label {key}, which pod affinity asks for"
    if first.kind == "affinity":
        return f"no pod with {selector} is in {f'{key}={first.domain}' if is_one else f'the same {key}'}"
    who = join_pod_names(pod for each in same[:_FEW] for pod in each.holders)
    where = f"in {key}={first.domain} there is {who}, " if is_one else f"in each {key} there is a pod "
    if first.kind == "anti-affinity":
        where += f"from which anti-affinity ({selector}) keeps away"
    else:
        where += f"whose anti-affinity ({selector}) keeps this pod away"
    return where if is_one else f"{where}, such as {who}"


def format_selector_of(term: AffinityTerm) -> str:
    return str(term.selector) or "any labels"


Describer = Callable[[View, Sequence[NodeInfo], Status], Groups | str]
"""A function that returns one text for all nodes that a plugin rejects with one status, or groups them by text."""

_DESCRIBERS: Mapping[str, Describer] = {
    "NodeUnschedulable": lambda *_: "cordoned: spec.unschedulable is true",
    "NodeName": lambda view, *_: f"the pod names the node {view.pod.spec.node_name}",
    "TaintToleration": describe_taints,
    "NodeAffinity": describe_node_affinity,
    "NodePorts": describe_ports,
    "NodeResourcesFit": describe_resources,
    "PodTopologySpread": describe_spread,
    "InterPodAffinity": describe_pod_affinity,
    "VolumeRestrictions": storage.describe_restrictions,
    "VolumeBinding": storage.describe_binding,
    "VolumeZone": storage.describe_zone,
    "NodeVolumeLimits": storage.describe_limits,
    "DynamicResources": devices.describe_missing_devices,
}


def describe(view: View, infos: Sequence[NodeInfo], status: Status) -> Groups:
    """Return texts why a plugin rejected nodes with a status, each with its nodes; its own message if unknown."""
    describer = _DESCRIBERS.get(status.plugin)
    found = (describer(view, infos, status) if describer is not None else "") or status.message
    return [(found, list(infos))] if isinstance(found, str) else found
