"""Causes for pods without a node: no node fits, or no scheduler tries them (scheduling gates, a missing scheduler).

The nodes are filtered step by step: the nodes that the pod selects; of these, the ones where its volumes can be used;
then the healthy ones, with its devices, with enough resources, and allowed by other pods. The filter that leaves no
node is the cause, and is described for the nodes that the filters before it have left.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from mooring.advisor.explain import devices, storage
from mooring.advisor.explain.causes.running import pressure_texts, why_not_ready
from mooring.advisor.explain.reasons import describe, explain_near_miss, format_selector_of, format_unmet
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.view import PODS, Unmet, View, format_amount
from mooring.advisor.explain.wording import did_you_mean, format_requirement, join_names, join_pod_names
from mooring.advisor.node_facts import STATE_TAINTS, NodeFacts, find_similar, format_taint
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import NodeSelectorRequirement, Pod, Taint
from mooring.api.label_selector import parse_lax_int64
from mooring.constraints import semver
from mooring.constraints.tolerations import any_tolerates
from mooring.scheduler.facade import Diagnosis, NodeInfo, PodEvaluation

_GATE_OWNERS = {
    "kueue.x-k8s.io": "Kueue removes when its queue admits the workload",
    "constraints.mooring.dev": "Mooring's bridge removes when it has lowered the constraints",
    "karpenter.sh": "Karpenter removes",
    "batch.volcano.sh": "Volcano removes",
    "scheduling.x-k8s.io": "the coscheduling plugins remove",
    "yunikorn.apache.org": "YuniKorn removes",
}
_SCHEDULER_NAME = re.compile(r"--scheduler-name[= ](\S+)")
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MOST_VALUES = 4
_MANY = 2000
"""A cause describes at most this many candidate nodes one by one."""
Describe = Callable[["Placement", Sequence[NodeInfo]], Cause | None]


# -- pods that no scheduler tries


def scheduling_gate_cause(pod: Pod) -> Cause:
    """Return the cause for a pod with scheduling gates; it names the controllers that remove the gates."""
    names = [gate.name for gate in pod.spec.scheduling_gates]
    domains = dict.fromkeys(name.partition("/")[0] for name in names if "/" in name)
    owners = [_owner_of_gate(domain) for domain in domains]
    whose = f", which {' and '.join(owners)}" if owners else ""
    word = "gate" if len(names) == 1 else "gates"
    return Cause("SchedulingGated", f"the pod waits for its scheduling {word} {', '.join(names)}{whose}")


def _owner_of_gate(domain: str) -> str:
    known = next((owner for suffix, owner in _GATE_OWNERS.items() if domain.endswith(suffix)), "")
    return known or f"the controller of {domain} removes"


def other_scheduler_cause(snapshot: Snapshot, pod: Pod, profiles: Iterable[str]) -> Cause:
    """Return the cause for a pod that names another scheduler, with whether that scheduler seems to run."""
    name = pod.spec.scheduler_name
    if snapshot.why_unread("pods"):
        seen = "whether it runs cannot be read"
    else:
        running = [each for each in snapshot.all(Pod) if _is_scheduler(each, name)]
        ready = [each for each in running if each.status.phase == "Running"]
        if ready:
            seen = f"it seems to be pod {ready[0].metadata.namespace}/{ready[0].metadata.name}; see its log"
        elif running:
            seen = f"its pod {running[0].metadata.namespace}/{running[0].metadata.name} does not run"
        else:
            meant = find_similar(name, profiles)
            seen = f"no such scheduler runs in this cluster{did_you_mean(meant)}"
    return Cause("OtherScheduler", f"the pod waits for the scheduler {name}: {seen}")


def _is_scheduler(pod: Pod, name: str) -> bool:
    """Return whether a pod looks like a scheduler of that name: by an argument, its workload or its image."""
    for container in pod.spec.containers:
        words = " ".join((*container.command, *container.args))
        found = _SCHEDULER_NAME.search(words)
        if found is not None:
            return found[1].strip("'\"") == name
    names = (pod.metadata.name, *pod.metadata.labels.values(), *(each.image for each in pod.spec.containers))
    wanted = name if "scheduler" in name else f"{name}-scheduler"
    return any(wanted in each for each in names)


# -- pods that no node fits


def missing_object_cause(view: View) -> Cause | None:
    """Return the cause if a claim, StorageClass, device class or driver is missing, so that no node can fit."""
    return storage.claim_cause(view) or devices.missing_device_object_cause(view)


@dataclass(frozen=True, slots=True)
class Placement:
    """The filter results of all nodes for one pod, from which `cause` finds why no node fits."""

    view: View
    judgement: PodEvaluation
    diagnosis: Diagnosis
    facts: NodeFacts
    now: datetime

    def cause(self) -> Cause:
        """Return the cause: the filter plugin that rejects every node that passed the plugins before it."""
        cluster = self.view.engine.cluster
        if not len(cluster):
            return Cause("NoNodes", "there are no nodes")
        early = missing_object_cause(self.view)
        if early is not None:
            return early
        if self.judgement.refusal is not None:
            return Cause(self.judgement.refusal.plugin or "Rejected", self.judgement.refusal.message)
        all_nodes = {info.row: info for info in cluster.node_infos()}
        rows = np.fromiter(all_nodes, np.intp, len(all_nodes))
        narrowing = ""
        for plugin, passing in self._passing_nodes_by_filter(rows):
            if not passing.any():
                return self._plugin_cause(
                    plugin, [all_nodes[row] for row in rows[:_MANY].tolist()], len(rows), narrowing
                )
            narrowing = narrowing if passing.all() else plugin
            rows = rows[passing]
        return Cause("Unschedulable", f"none of {len(all_nodes)} nodes fits")

    def describe_rejection_in_domain(self, key: str, domain: str) -> str:
        """Return in parentheses why the first node of a topology domain rejects the pod; empty if none does."""
        infos = [each for each in self.view.engine.cluster.node_infos() if each.node.metadata.labels.get(key) == domain]
        why = self.describe_rejection(infos[0]) if infos else ""
        return f" ({infos[0].name}: {why})" if why else ""

    def describe_rejection(self, info: NodeInfo) -> str:
        """Return why the first plugin that rejects a node does so; empty if none does."""
        status = self.diagnosis.status_on(info.row)
        return describe(self.view, [info], status)[0][0] if status is not None and status.plugin else ""

    def _passing_nodes_by_filter(
        self, rows: "np.typing.NDArray[np.intp]"
    ) -> Iterator[tuple[str, "np.typing.NDArray[np.bool_]"]]:
        slots = {slot.name: slot for slot in self.judgement.filters if slot.refuses and slot.status.is_success}
        left = rows
        names = [*_DESCRIBERS, *(name for name in slots if name not in _DESCRIBERS)]
        for name in names:
            passing = slots[name].ok[left] if name in slots else np.ones(len(left), np.bool_)
            if name == "NodeAffinity":
                passing = passing & self.judgement.considered[left]
            yield name, passing
            left = left[passing]

    def _plugin_cause(self, plugin: str, infos: list[NodeInfo], count: int, narrowing: str) -> Cause:
        describer = _DESCRIBERS.get(plugin)
        found = describer(self, infos) if describer is not None else None
        if found is None:
            status = self.diagnosis.status_on(infos[0].row)
            groups = describe(self.view, infos, status) if status is not None and status.plugin == plugin else []
            if not groups:
                statuses, _ = self.view.engine.find_rejections_on(self.view.pod, infos[0].name)
                own = [each for each in statuses if each.plugin == plugin] or statuses
                groups = describe(self.view, infos[:1], own[0]) if own else [(f"{plugin} rejects it", infos)]
            found = Cause(plugin, groups[0][0])
        return self._with_count_of_nodes(found, count, plugin, narrowing)

    def _with_count_of_nodes(self, found: Cause, count: int, plugin: str, narrowing: str) -> Cause:
        total = len(self.view.engine.cluster)
        if count == total or plugin in ("NodeName", "NodeAffinity"):
            return found
        pairs = [f"{key}={value}" for key, value in self.view.pod.spec.node_selector.items()]
        selects = bool(pairs or self.view.terms) and plugin in ("TaintToleration", "NodeUnschedulable")
        which = "where its volume can be used" if narrowing in ("VolumeBinding", "VolumeZone") else "left for it"
        if selects:
            which = f"that match {' and '.join(pairs)}" if pairs else "that it selects"
        nodes = f"the only node {which.replace('match', 'matches', 1)}" if count == 1 else f"the {count} nodes {which}"
        return Cause(found.code, f"{found.text} (among {nodes}, of {total})".replace("among the only", "the only"))


# -- labels


def _node_affinity_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    view, terms = self.view, self.view.terms
    wanted = [*view.pairs, *_conditions_of_first_term(view)]
    for each in wanted if len(terms) == 1 else view.pairs:
        if each.requirement is not None and (cause := _requirement_cause(self, each, each.requirement)) is not None:
            return cause
    if len(terms) == 1:
        for entry in terms[0].match_fields:
            return Cause("NoSuchNode", f"the pod is made for the node {', '.join(entry.values)}, which does not exist")
    nearest = min(infos, key=lambda info: (_count_unmet(view, info), info.name))
    unmet = [*view.unmet_pairs(nearest.node), *min(view.unmet_terms(nearest.node), key=len, default=[])]
    why = "; ".join(format_unmet(view, each, nearest.node) for each in unmet)
    if len(unmet) == 1 and unmet[0].expression:
        return Cause("NoMatchingNode", f"the expression `{unmet[0].expression}` is true on no node: {why}")
    if len(terms) > 1:
        head = f"no node meets any of the {len(terms)} terms of the required node affinity"
    else:
        together = " at the same time" if len(wanted) > 1 else ""
        head = f"no node meets {' and '.join(map(_format_condition, wanted))}{together}"
    return Cause("NoMatchingNode", f"{head}; nearest is {nearest.name}: {why}")


def _conditions_of_first_term(view: View) -> list[Unmet]:
    return [
        *(Unmet(0, each.key, each) for term in view.terms[:1] for each in term.match_expressions),
        *(Unmet(0, "", expression=each) for term in view.terms[:1] for each in term.match_cel_expressions),
    ]


def _format_condition(unmet: Unmet) -> str:
    if unmet.requirement is None:
        return f"`{unmet.expression}`"
    return f"`{format_requirement(unmet.requirement, from_pair=unmet.term is None)}`"


def _count_unmet(view: View, info: NodeInfo) -> int:
    return len(view.unmet_pairs(info.node)) + min(map(len, view.unmet_terms(info.node)), default=0)


def _requirement_cause(self: Placement, unmet: Unmet, entry: NodeSelectorRequirement) -> Cause | None:
    """Return the cause if no node meets one requirement of the pod: a label, its value, or a numeric bound."""
    facts, key, shown = self.facts, entry.key, format_requirement(entry, from_pair=unmet.term is None)
    values = facts.labels.get(key, {})
    if entry.operator in ("DoesNotExist", "NotIn"):
        return None
    if not values:
        meant = facts.similar_label(key)
        hint = f"; did you mean `{meant}`? {facts.nodes_with(meant)} nodes have it" if meant else ""
        return Cause("NoSuchLabel", f"no node has the label `{key}` that the pod selects ({shown}){hint}")
    if entry.operator == "In" and not any(value in values for value in entry.values):
        hint = did_you_mean(next(filter(None, (facts.similar_value(key, value) for value in entry.values)), ""))
        there = ", ".join(f"{value or '(empty)'} on {use.nodes}" for value, use in list(values.items())[:_MOST_VALUES])
        more = ", …" if len(values) > _MOST_VALUES else ""
        return Cause("NoSuchLabelValue", f"no node has {shown}{hint} (`{key}` is {there}{more})")
    if entry.operator in ("Gt", "Lt"):
        numbers = [number for value in values if (number := parse_lax_int64(value)) is not None]
        bound = parse_lax_int64(entry.values[0]) if entry.values else None
        if bound is None or any(number > bound if entry.operator == "Gt" else number < bound for number in numbers):
            return None
        if not numbers:
            text = f"`{shown}` holds on no node: `{key}` is a number on none, such as {next(iter(values))!r}"
            return Cause("NotANumber", text)
        most = f"the highest is {max(numbers)}" if entry.operator == "Gt" else f"the lowest is {min(numbers)}"
        return Cause("BoundNotMet", f"`{shown}` holds on no node: {most}")
    if entry.operator.startswith("Semver"):
        info = next(iter(self.view.engine.cluster.node_infos()))
        if all(self.view.unmet_terms(each.node) for each in self.view.engine.cluster.node_infos()):
            if not self.view.features.constraints.semver_operators:
                return Cause("GateOff", format_unmet(self.view, unmet, info.node))
            versions = {value: semver.parse_tolerant_or_none(value) for value in values}
            there = join_names([repr(value) for value in values])
            if not any(versions.values()):
                return Cause("NotAVersion", f"`{shown}` holds on no node: `{key}` is a version on none: it is {there}")
            text = f"`{shown}` holds on no node: the label is {there}{_pre_release_hint(versions, entry.values[0])}"
            return Cause("BoundNotMet", text)
    return None


def _pre_release_hint(versions: Mapping[str, semver.Version | None], bound: str) -> str:
    """Return a hint if a node's label is a pre-release of the required version, and so older; otherwise empty."""
    wanted = semver.parse_tolerant_or_none(bound)
    for value, version in versions.items():
        if wanted is None or version is None or not version < wanted:
            continue
        if version.precedence[:3] == wanted.precedence[:3]:
            return f"; {value!r} is a pre-release of {bound}, which is older than {bound} itself"
    return ""


# -- taints and the state of nodes


def _cordon_cause(_self: Placement, infos: Sequence[NodeInfo]) -> Cause:
    names = join_names([info.name for info in infos])
    which = f"node {names} is" if len(infos) == 1 else f"nodes {names} are"
    return Cause("NodesCordoned", f"{which} cordoned (kubectl cordon): no new pods may start there")


def _taint_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    view = self.view
    found: Counter[str] = Counter()
    examples: dict[str, tuple[Taint, NodeInfo]] = {}
    for info in infos:
        for taint in view.untolerated_taints(info.node):
            found[format_taint(taint)] += 1
            examples.setdefault(format_taint(taint), (taint, info))
    otherwise_fit = [
        info
        for info in infos
        if all(taint.key.startswith(STATE_TAINTS) for taint in view.untolerated_taints(info.node))
    ]
    if otherwise_fit:
        state = [(taint, info) for info in otherwise_fit for taint in view.untolerated_taints(info.node)]
        return _node_state_cause(self, otherwise_fit, state)
    own = [(taint, info) for taint, info in examples.values() if not taint.key.startswith(STATE_TAINTS)]
    if not own:
        return None
    shown = join_names([format_taint(taint) for taint, _ in own])
    text = f"every node has a taint that the pod does not tolerate: {shown}"
    if len(own) == 1:
        text = f"the pod does not tolerate the taint {shown}"
    return Cause("UntoleratedTaint", text + _toleration_hint(self, [taint for taint, _ in own]))


def _node_state_cause(self: Placement, infos: Sequence[NodeInfo], state: list[tuple[Taint, NodeInfo]]) -> Cause:
    unready = [text for info in infos if (text := why_not_ready(info.node, self.now))]
    pressed = [text for info in infos for text in pressure_texts(info.node)]
    for code, texts, rest in (("NodeNotReady", unready, "are not ready"), ("NodePressure", pressed, "are in trouble")):
        if texts:
            return Cause(code, texts[0] + (f", and {len(texts) - 1} more {rest}" if len(texts) > 1 else ""))
    taint, info = state[0]
    if taint.key == _UNSCHEDULABLE:
        return _cordon_cause(self, infos)
    word = "not ready" if taint.key in _UNREADY else "in trouble"
    others = f", like {len(infos) - 1} more" if len(infos) > 1 else ""
    return Cause("NodeNotReady", f"node {info.name} is {word} (taint {format_taint(taint)}){others}")


def _toleration_hint(self: Placement, taints: Sequence[Taint]) -> str:
    """Return a hint if a toleration nearly matches a taint: with another spelling, value, effect, or bound."""
    view, options = self.view, self.view.features.constraints
    for taint in taints:
        misses = [miss for each in view.pod.spec.tolerations if (miss := explain_near_miss(each, taint, options))]
        if misses:
            return f": {'; '.join(misses)}"
    keys = {taint.key for taint in taints}
    for each in view.pod.spec.tolerations:
        meant = self.facts.similar_taint(each.key)
        if each.key and meant in keys and not any(any_tolerates([each], taint, options) for taint in taints):
            return f"; it tolerates `{each.key}`: did you mean `{meant}`?"
    return ""


# -- room


def _resource_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    view = self.view
    columns = view.engine.cluster.resources
    asked = {PODS: 1, **{name: number for name, number in view.signature.requests.items() if number}}
    rows = [info.row for info in infos]
    absent, large, short = [], [], []
    for resource, wanted in asked.items():
        amounts = [columns.amounts(resource, row) for row in rows]
        most = max(there for there, _ in amounts)
        free = [there - used for there, used in amounts]
        if most == 0:
            meant = did_you_mean(self.facts.similar_resource(resource))
            absent.append(f"no node has the resource {resource}{meant}")
        elif most < wanted:
            name = min(info.name for info, (there, _) in zip(infos, amounts, strict=True) if there == most)
            asks, has = f"the pod asks for {_format_amount(resource, wanted)}", _format_amount(resource, most)
            other = _why_not_on_largest(self, infos, resource, wanted)
            if len(infos) == 1:
                large.append(f"node {name} is not that large, even empty: {asks}, the node has {has}{other}")
            else:
                large.append(f"no node is that large, even empty: {asks}, the largest has {has} ({name}){other}")
        elif max(free) < wanted:
            name = min(info.name for info, left in zip(infos, free, strict=True) if left == max(free))
            short.append((resource, wanted, max(free), sum(each for each in free if each > 0), name))
    if absent:
        return Cause("NoSuchResource", "; ".join(absent))
    if large:
        return Cause("NoNodeLargeEnough", "; ".join(large))
    if short:
        return _shortage_cause(short, len(infos))
    together = " and ".join(_format_amount(name, number) for name, number in asked.items() if name != PODS)
    return Cause("Fragmented", f"no single node has {together} free together, though some have each")


def _why_not_on_largest(self: Placement, infos: Sequence[NodeInfo], resource: str, wanted: int) -> str:
    """Return a hint why the largest node of all, which is not in `infos`, rejects the pod; empty if it is too small."""
    name = self.facts.largest[resource][1]
    info = self.view.engine.cluster.node(name) if len(infos) < len(self.view.engine.cluster) else None
    if info is None or self.view.engine.cluster.resources.amounts(resource, info.row)[0] < wanted:
        return ""
    why = self.describe_rejection(info)
    return f"; node {name} is, and against it: {why}" if why else ""


def _shortage_cause(short: list[tuple[str, int, int, int, str]], nodes: int) -> Cause:
    parts = []
    is_fragmented = False
    for resource, wanted, free, total, name in short:
        if resource == PODS:
            parts.append("every node runs as many pods as it may")
        elif total >= wanted and nodes > 1:
            is_fragmented = True
            parts.append(
                f"enough {resource} in sum, on no single node: the pod asks for {_format_amount(resource, wanted)},"
                f" {_format_amount(resource, total)} are free in total,"
                f" at most {_format_amount(resource, max(free, 0))} on one ({name})"
            )
        else:
            parts.append(
                f"not enough {resource}: the pod asks for {_format_amount(resource, wanted)},"
                f" at most {_format_amount(resource, max(free, 0))} is free ({name})"
            )
    return Cause("Fragmented" if is_fragmented else "NotEnoughResources", "; ".join(parts))


def _format_amount(resource: str, number: int) -> str:
    if resource == PODS:
        return f"{number} pods"
    return f"{format_amount(resource, number)} {resource}"


def _port_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    held = [(port, pod) for info in infos for port, pod in self.view.port_holders(info)]
    if not held:
        return None
    ports = join_names([f"{port.port}/{port.protocol}" for port, _ in held])
    holders = list({id(pod): pod for _, pod in held}.values())
    siblings = all(self.view.is_sibling(pod) for pod in holders)
    whom = f"a pod of this workload, and there are {len(infos)}" if siblings else join_pod_names(holders)
    where = "every node" if len(infos) > 1 else f"node {infos[0].name}"
    return Cause("HostPortTaken", f"host port {ports} is taken on {where}, by {whom}")


# -- neighbours


def _pod_affinity_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    view = self.view
    apart = [view.unmet_pod_terms(info.node) for info in infos]
    kinds = {each.kind for found in apart for each in found}
    first = next((each for found in apart for each in found), None)
    if first is None:
        return None
    key, selector = first.term.topology_key, format_selector_of(first.term)
    if all(any(each.domain is None for each in found) for found in apart):
        meant = did_you_mean(self.facts.similar_label(key))
        return Cause("NoTopologyLabel", f"no node has the label `{key}` that pod affinity needs{meant}")
    if "affinity" in kinds and all(any(each.kind == "affinity" for each in found) for found in apart):
        where = sorted(view.domains_with_pods(first.index))
        there = f"such pods are only in {join_names(where)}" if where else "no such pod runs"
        if (peer := view.misspelled_peer(first.index)) is not None:
            there += did_you_mean(f"{peer[0]}={peer[2]}")
        elif elsewhere := view.namespaces_with_peers(first.index):
            there += (
                f" in namespace {join_names(sorted(first.term.namespaces))}, but in {join_names(sorted(elsewhere))}"
            )
        return Cause("NoAffinityPeer", f"no node left is in the same {key} as a pod with {selector}: {there}")
    holders = [pod for found in apart for each in found for pod in each.holders]
    domains = {each.domain for found in apart for each in found if each.domain is not None}
    if "anti-affinity" in kinds and kinds <= {"anti-affinity", "existing"}:
        siblings = all(view.is_sibling(pod) for pod in holders)
        whose = "of this workload" if siblings else f"with {selector} ({join_pod_names(holders)})"
        count = f"there are {len(domains)}, one too few" if siblings else f"that is so in all {len(domains)}"
        return Cause("AntiAffinity", f"anti-affinity: every {key} already has a pod {whose}, {count}")
    if kinds == {"existing"}:
        return Cause(
            "AntiAffinityOfOthers",
            f"the anti-affinity of pods that run keeps this one out of every {key}:"
            f" {join_pod_names(holders)} ({selector})",
        )
    return None


def _spread_cause(self: Placement, infos: Sequence[NodeInfo]) -> Cause | None:
    broken = [each for info in infos for each in self.view.broken_spreads(info.node)]
    if not broken:
        return None
    if all(each.domain is None for each in broken):
        key = broken[0].constraint.topology_key
        meant = did_you_mean(self.facts.similar_label(key))
        return Cause("NoTopologyLabel", f"no node has the label `{key}` that a spread constraint needs{meant}")
    first = next(each for each in broken if each.domain is not None)
    key, skew = first.constraint.topology_key, first.constraint.max_skew
    if first.constraint.min_domains and first.domains < first.constraint.min_domains:
        return Cause(
            "TooFewDomains",
            f"spread over {key}: there are {first.domains} domains, minDomains asks for {first.constraint.min_domains}",
        )
    counts = {each.domain: each.count for each in broken if each.constraint.topology_key == key and each.domain}
    there = ", ".join(f"{domain} has {number}" for domain, number in sorted(counts.items())[:_MOST_VALUES])
    text = f"spread over {key} with maxSkew {skew}: {there}, and {first.least_domain} only {first.least},"
    text += f" where no node fits{self.describe_rejection_in_domain(key, first.least_domain)}"
    old = self.view.old_pods_counted(first.index)
    if old:
        text += f"; {old} of them are old pods of the rollout, which the constraint counts too"
    return Cause("SpreadSkew", text)


_DESCRIBERS: Mapping[str, Describe | None] = {
    "NodeName": None,
    "NodeAffinity": _node_affinity_cause,
    "VolumeBinding": lambda self, _: storage.binding_cause(self.view),
    "VolumeZone": lambda self, infos: storage.zone_cause(self.view, infos),
    "NodeDeclaredFeatures": None,
    "NodeUnschedulable": _cordon_cause,
    "TaintToleration": _taint_cause,
    "VolumeRestrictions": lambda self, infos: storage.restrictions_cause(self.view, infos),
    "DynamicResources": lambda self, infos: devices.missing_devices_cause(self.view, infos),
    "NodePorts": _port_cause,
    "NodeResourcesFit": _resource_cause,
    "NodeVolumeLimits": None,
    "InterPodAffinity": _pod_affinity_cause,
    "PodTopologySpread": _spread_cause,
}
"""By filter plugin, what describes the cause; the plugins are in the order in which the nodes are filtered."""
