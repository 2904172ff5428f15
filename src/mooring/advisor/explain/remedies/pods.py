"""Remedies for rejections because of other pods: topology spread, affinity and anti-affinity."""

from collections.abc import Callable, Iterator
from functools import partial

from mooring.advisor.explain.reasons import format_selector_of
from mooring.advisor.explain.remedies import remedy
from mooring.advisor.explain.subject import set_fields
from mooring.advisor.explain.view import Spread, UnmetPodTerm, View
from mooring.advisor.node_facts import find_similar
from mooring.api.core_v1 import PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm
from mooring.scheduler.facade import NodeInfo
from mooring.scheduler.framework import Status


def spread_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    broken = view.broken_spreads(info.node)
    if not broken:
        return
    unlabelled = [each for each in broken if each.domain is None]
    if unlabelled:
        key = unlabelled[0].constraint.topology_key
        if meant := find_similar(key, info.node.metadata.labels):
            edit = _edit_constraints(unlabelled[:1], lambda own, _: setattr(own, "topology_key", meant))
            yield remedy.Remedy("correct topologyKey", remedy.BOUND, f"correct topologyKey {key} to {meant}", edit)
        wanted: dict[str, str | None] = {
            each.constraint.topology_key: each.least_domain or info.name for each in unlabelled
        }
        yield from remedy.label_node(view, info.node, wanted, caveat="if the node really is there")
        return
    old = [each for each in broken if view.old_pods_counted(each.index)]
    if old and view.features.spread_label_keys:
        text = (
            f"spread over {_join_topology_keys(old)} counting only pods of the new template"
            " (matchLabelKeys: pod-template-hash)"
        )
        edit = _edit_constraints(old, lambda own, _: own.match_label_keys.append("pod-template-hash"))
        yield remedy.Remedy("count the new revision", remedy.BOUND, text, edit)
    words = [f"raise maxSkew of {each.constraint.topology_key} to {each.skew}" for each in broken]
    edit = _edit_constraints(broken, lambda own, each: setattr(own, "max_skew", each.skew))
    yield remedy.Remedy("raise maxSkew", remedy.SMALL * len(broken), " and ".join(words), edit)
    few = [each for each in broken if each.constraint.min_domains and each.domains < each.constraint.min_domains]
    if few:
        words = [f"lower minDomains of {each.constraint.topology_key} to {each.domains}" for each in few]
        edit = _edit_constraints(few, lambda own, each: setattr(own, "min_domains", max(each.domains, 1)))
        yield remedy.Remedy("lower minDomains", remedy.SMALL * len(few), " and ".join(words), edit)
    text = f"spread over {_join_topology_keys(broken)} as far as possible only (whenUnsatisfiable: ScheduleAnyway)"
    edit = _edit_constraints(broken, lambda own, _: setattr(own, "when_unsatisfiable", "ScheduleAnyway"))
    yield remedy.Remedy("spread softly", remedy.MODEST * len(broken), text, edit)


def _join_topology_keys(constraints: list[Spread]) -> str:
    return " and ".join(each.constraint.topology_key for each in constraints)


def _edit_constraints(broken: list[Spread], change: Callable[[TopologySpreadConstraint, Spread], None]) -> remedy.Edit:
    def edit(spec: PodSpec) -> bool:
        if any(each.index >= len(spec.topology_spread_constraints) for each in broken):
            return False
        for each in broken:
            change(spec.topology_spread_constraints[each.index], each)
        return True

    return edit


def pod_affinity_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    apart = view.unmet_pod_terms(info.node)
    yield from _correct_terms(view, info, apart)
    unlabelled: dict[str, str | None] = {
        each.term.topology_key: min(view.domains_with_pods(each.index), default=info.name)
        for each in apart
        if each.domain is None
    }
    yield from remedy.label_node(view, info.node, unlabelled, caveat="if the node really is there")
    own = [each for each in apart if each.kind != "existing"]
    if own and len(own) == len(apart):
        terms = " and ".join(f"the {each.kind} to pods with {format_selector_of(each.term)}" for each in own)
        soften, drop = partial(_remove_terms, apart=own, softly=True), partial(_remove_terms, apart=own, softly=False)
        yield remedy.Remedy("soften affinity", remedy.MODEST * len(own), f"make {terms} a preference", soften)
        yield remedy.Remedy("drop affinity", remedy.LARGE * len(own), f"drop {terms}", drop)
    if apart and all(each.kind != "affinity" for each in apart):
        yield remedy.add_node(view, info.node)
    held = [pod for each in apart for pod in each.holders]
    if held and all(each.holders for each in apart):
        yield from remedy.delete_pods(view, held, ", which anti-affinity keeps apart from this one")


def _correct_terms(view: View, info: NodeInfo, apart: list[UnmetPodTerm]) -> Iterator[remedy.Remedy]:
    """Suggest the correct spelling of a topology key, label or namespace in a required pod-affinity term."""
    for each in apart:
        key = each.term.topology_key
        if each.domain is None and (meant := find_similar(key, info.node.metadata.labels)):
            edit = _edit_pod_terms(each, set_fields(topology_key=meant))
            yield remedy.Remedy("correct topologyKey", remedy.BOUND, f"correct topologyKey {key} to {meant}", edit)
        elif each.kind == "affinity" and (found := view.misspelled_peer(each.index)) is not None:
            label, old, new, node = found
            summary = f"correct the affinity to pods with {label}={old} to {label}={new}"
            edit = _edit_pod_terms(each, partial(_set_selected_label, label, new))
            yield remedy.Remedy("correct peer", remedy.BOUND, summary, edit, node=node)
        elif each.kind == "affinity":
            for namespace, node in sorted(view.namespaces_with_peers(each.index).items())[:1]:
                edit = _edit_pod_terms(each, set_fields(namespaces=[namespace], namespace_selector=None))
                summary = f"look for pods with {format_selector_of(each.term)} in namespace {namespace}"
                yield remedy.Remedy("correct namespace", remedy.BOUND, summary, edit, node=node)


def _set_selected_label(label: str, value: str, term: PodAffinityTerm) -> bool:
    if term.label_selector is not None:
        term.label_selector.match_labels[label] = value
    return True


def _edit_pod_terms(apart: UnmetPodTerm, change: Callable[[PodAffinityTerm], bool]) -> remedy.Edit:
    def edit(spec: PodSpec) -> bool:
        affinity = spec.affinity
        holder = affinity and (affinity.pod_affinity if apart.kind == "affinity" else affinity.pod_anti_affinity)
        terms = holder.required_during_scheduling_ignored_during_execution if holder else []
        return apart.index < len(terms) and change(terms[apart.index])

    return edit


def _remove_terms(spec: PodSpec, apart: list[UnmetPodTerm], *, softly: bool) -> bool:
    """Remove required terms from a pod's affinity; with `softly`, add them as preferred terms."""
    if spec.affinity is None:
        return False
    for kind, holder in (("affinity", spec.affinity.pod_affinity), ("anti-affinity", spec.affinity.pod_anti_affinity)):
        indices = {each.index for each in apart if each.kind == kind}
        if not indices:
            continue
        if holder is None or max(indices) >= len(holder.required_during_scheduling_ignored_during_execution):
            return False
        required = holder.required_during_scheduling_ignored_during_execution
        if softly:
            holder.preferred_during_scheduling_ignored_during_execution += [
                WeightedPodAffinityTerm(weight=100, pod_affinity_term=required[index]) for index in sorted(indices)
            ]
        holder.required_during_scheduling_ignored_during_execution = [
            term for index, term in enumerate(required) if index not in indices
        ]
    return True
