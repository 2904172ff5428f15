"""Describe rejections because of other pods: topology spread, affinity and anti-affinity."""

from collections.abc import Sequence

from mooring.advisor.explain.reasons.groups import Groups, by_text, pods_named
from mooring.advisor.explain.view import Spread, UnmetPodTerm, View
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.scheduler.facade import NodeInfo
from mooring.scheduler.framework import Status

_FEW = 5
"""The maximum number of topology domains that are described one by one."""


def spread(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    if not view.pod.spec.topology_spread_constraints:
        return []
    return by_text(infos, lambda info: "; ".join(map(spread_text, view.broken_spreads(info.node))))


def spread_text(each: Spread) -> str:
    constraint = each.constraint
    if each.domain is None:
        return f"the node has no label {constraint.topology_key}, which a spread constraint asks for"
    text = f"{constraint.topology_key}={each.domain} has {each.count} matching pods"
    if constraint.min_domains and each.domains < constraint.min_domains:
        least = f"there are {each.domains} domains of minDomains {constraint.min_domains}, so the least counts as 0"
    else:
        least = f"the least is {each.least} ({each.least_domain})"
    return f"{text}, {least}: one more would be a skew of {each.skew}, maxSkew is {constraint.max_skew}"


def affinity(view: View, infos: Sequence[NodeInfo], _status: Status) -> Groups:
    """Describe the affinity terms that do not hold; domain by domain if there are few."""
    by_terms: dict[tuple[tuple[str, int, str], ...], list[tuple[NodeInfo, list[UnmetPodTerm]]]] = {}
    for info in infos:
        found = view.unmet_pod_terms(info.node)
        key = tuple((each.kind, each.index, each.term.topology_key) for each in found)
        by_terms.setdefault(key, []).append((info, found))
    groups: Groups = []
    for members in by_terms.values():
        domains = {tuple(each.domain for each in found) for _, found in members}
        if len(domains) <= _FEW:
            texts: dict[str, list[NodeInfo]] = {}
            for info, found in members:
                texts.setdefault("; ".join(map(pod_term_text, found)), []).append(info)
            groups += texts.items()
        else:
            parts = zip(*(found for _, found in members), strict=True)
            groups.append(("; ".join(map(_join_identical_terms, parts)), [info for info, _ in members]))
    return groups


def _join_identical_terms(same: Sequence[UnmetPodTerm]) -> str:
    first = same[0]
    key, selector = first.term.topology_key, term_text(first.term)
    if first.kind == "affinity":
        return f"no pod with {selector} is in the same {key}"
    who = pods_named(pod for each in same[:_FEW] for pod in each.holders)
    if first.kind == "anti-affinity":
        return f"in each {key} there is a pod from which anti-affinity ({selector}) keeps away, such as {who}"
    return f"in each {key} there is a pod whose anti-affinity ({selector}) keeps this pod away, such as {who}"


def pod_term_text(each: UnmetPodTerm) -> str:
    term = each.term
    if each.domain is None:
        return f"the node has no label {term.topology_key}, which pod affinity asks for"
    where = f"{term.topology_key}={each.domain}"
    if each.kind == "affinity":
        return f"no pod with {term_text(term)} is in {where}"
    if each.kind == "anti-affinity":
        return (
            f"in {where} there is {pods_named(each.holders)}, from which anti-affinity ({term_text(term)}) keeps away"
        )
    return (
        f"in {where} there is {pods_named(each.holders)}, whose anti-affinity ({term_text(term)}) keeps this pod away"
    )


def term_text(term: AffinityTerm) -> str:
    return str(term.selector) or "any labels"
