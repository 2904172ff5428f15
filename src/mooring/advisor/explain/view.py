"""Find the fields of a pod and of nodes that make plugins reject nodes, with the rules of `mooring.constraints`.

The engine reports *that* a plugin rejects a node; this module finds *which* condition does not hold. Lookups over all
pods are cached in a `View`. ``reasons.py`` describes the results, ``remedies/`` derives changes from them.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mooring.advisor.explain.subject import Subject
from mooring.advisor.node_facts import find_similar
from mooring.api import core_v1, label_selector
from mooring.api.label_selector import NOTHING, Selector, SelectorError
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity, parse
from mooring.base.natural_sort import natural_key
from mooring.constraints import node_selector, tolerations
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.constraints.requests import CPU
from mooring.scheduler import facade
from mooring.scheduler.framework import SchedulerFeatures

T = TypeVar("T", bound=Resource)
PODS = "pods"
_BINARY = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES = ("memory", "ephemeral-storage", "storage")


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has too little free, in the scheduler's units."""

    resource: str
    asked: int
    free: int
    allocatable: int

    @property
    def missing(self) -> int:
        return self.asked - self.free


@dataclass(frozen=True, slots=True)
class Unmet:
    """A condition of a node selector or node affinity that a node does not meet."""

    term: int | None
    """The index of the term of the required node affinity; None for the `nodeSelector`."""
    key: str
    """The label key; empty for an expression or the node's name."""
    requirement: core_v1.NodeSelectorRequirement | None = None
    field_name: str = ""
    """The field, for a condition on a field instead of a label."""
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """A spread constraint that the pod would violate on a node."""

    index: int
    """The index among the pod's constraints."""
    constraint: core_v1.TopologySpreadConstraint
    domain: str | None
    """The node's value of the topology label; None if it has none."""
    count: int = 0
    least: int = 0
    least_domain: str = ""
    domains: int = 0
    own: int = 0
    """1 if the constraint selects the pod itself, otherwise 0."""

    @property
    def skew(self) -> int:
        return self.count + self.own - self.least


@dataclass(frozen=True, slots=True)
class UnmetPodTerm:
    """A pod-affinity term that a node does not meet."""

    kind: str
    """`affinity` or `anti-affinity` of the pod, or `existing`: the anti-affinity of a placed pod."""
    index: int
    term: AffinityTerm
    domain: str | None
    holders: tuple[core_v1.Pod, ...] = ()


@dataclass(eq=False)
class View:
    """A pod and the scheduler's state of the cluster, to find out why plugins reject nodes."""

    engine: facade.ExplainEngine
    subject: Subject
    features: SchedulerFeatures

    @property
    def pod(self) -> core_v1.Pod:
        return self.subject.pod

    @cached_property
    def signature(self) -> facade.PodSignature:
        return self.engine.cluster.signatures.signature_of(self.pod)

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    def info(self, node: str) -> facade.NodeInfo:
        found = self.engine.cluster.node(node)
        if found is None:
            raise KeyError(node)
        return found

    def objects(self, kind: type[T]) -> Mapping[str, T]:
        return self.engine.cluster.objects(kind)

    def object(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return self.objects(kind).get(facade.object_key(namespace, name))

    def similar_name(self, kind: type[Resource], name: str, namespace: str = "") -> str:
        """Return the name of an existing object that a misspelled name probably means; empty if there is none."""
        existing = [each.metadata for each in self.objects(kind).values()]
        return find_similar(name, [each.name for each in existing if each.namespace == namespace])

    def first_equivalent_node(self, node: core_v1.Node) -> core_v1.Node:
        """Return the node with the lowest name among those that are identical to this one except for the name."""
        return self._first_by_likeness.get(_scheduling_properties(node), node)

    @cached_property
    def _first_by_likeness(self) -> dict[Hashable, core_v1.Node]:
        infos = sorted(self.engine.cluster.node_infos(), key=lambda info: natural_key(info.name), reverse=True)
        return {_scheduling_properties(info.node): info.node for info in infos}

    # -- taints

    def untolerated_taints(self, node: core_v1.Node) -> list[core_v1.Taint]:
        """Return the NoSchedule and NoExecute taints of a node that the pod does not tolerate."""
        excluding = (taint for taint in node.spec.taints if taint.effect in tolerations.DO_NOT_SCHEDULE)
        return [taint for taint in excluding if self._toleration_index.first_match(taint) is None]

    @cached_property
    def taint_numbers(self) -> Mapping[tuple[str, str], set[int]]:
        """The numeric values of untolerated taints on all nodes, by key and effect."""
        found: dict[tuple[str, str], set[int]] = defaultdict(set)
        for info in self.engine.cluster.node_infos():
            for taint in self.untolerated_taints(info.node) if info.node.spec.taints else ():
                number = tolerations.parse_canonical_int64(taint.value)
                if number is not None:
                    found[taint.key, taint.effect].add(number)
        return found

    @cached_property
    def _toleration_index(self) -> tolerations.TolerationIndex[core_v1.Toleration]:
        return tolerations.index_tolerations(self.pod.spec.tolerations, self.features.constraints)

    # -- node affinity

    @cached_property
    def terms(self) -> list[core_v1.NodeSelectorTerm]:
        """The terms of the pod's required node affinity."""
        return node_selector.required_terms(self.pod.spec)

    @cached_property
    def pairs(self) -> list[Unmet]:
        """The key-value pairs of the pod's `nodeSelector`, as conditions."""
        return [
            Unmet(None, key, core_v1.NodeSelectorRequirement(key=key, operator="In", values=[value]))
            for key, value in self.pod.spec.node_selector.items()
        ]

    def unmet_pairs(self, node: core_v1.Node) -> list[Unmet]:
        """Return the key-value pairs of the pod's `nodeSelector` that a node's labels lack."""
        wanted, labels = self.pod.spec.node_selector, node.metadata.labels
        return [each for each in self.pairs if labels.get(each.key) != wanted[each.key]]

    def unmet_terms(self, node: core_v1.Node) -> list[list[Unmet]]:
        """Return the conditions that do not hold on a node, by affinity term; empty if one of the terms holds."""
        found = [list(self._unmet_conditions(index, term, node)) for index, term in enumerate(self.terms)]
        return [] if any(not unmet and has_conditions(self.terms[i]) for i, unmet in enumerate(found)) else found

    def _unmet_conditions(self, index: int, term: core_v1.NodeSelectorTerm, node: core_v1.Node) -> Iterator[Unmet]:
        options, labels = self.features.constraints, node.metadata.labels
        for entry in term.match_expressions:
            condition = node_selector.compile_requirement(entry, options)
            if condition is None or not condition.matches(labels):
                yield Unmet(index, entry.key, entry)
        for entry in term.match_fields:
            holds = node_selector.compile_term(core_v1.NodeSelectorTerm(match_fields=[entry]), options)
            if holds is None or not holds.matches(labels, node.metadata.name):
                yield Unmet(index, "", entry, field_name=entry.key)
        for expression in term.match_cel_expressions:
            compiled = node_selector.compile_term(core_v1.NodeSelectorTerm(match_cel_expressions=[expression]), options)
            if compiled is None or not compiled.matches(labels, node.metadata.name):
                yield Unmet(index, "", expression=expression)

    # -- resources and ports

    def shortages(self, info: facade.NodeInfo) -> list[Shortage]:
        """Return the resources that the pod requests and of which a node has too little free."""
        columns, row = self.engine.cluster.resources, info.row
        asked = {PODS: 1, **{name: amount for name, amount in self.signature.requests.items() if amount}}
        found = []
        for resource, amount in asked.items():
            allocatable, used = columns.amounts(resource, row)
            free = allocatable - used
            if free < amount:
                found.append(Shortage(resource, amount, free, allocatable))
        return found

    def port_holders(self, info: facade.NodeInfo) -> list[tuple[facade.HostPort, core_v1.Pod]]:
        """Return the pod's host ports that are taken on a node, each with a pod that uses it."""
        return [
            (port, other)
            for port in self.signature.ports
            for other in info.pods
            if any(_ports_conflict(port, taken) for taken in facade.host_ports(other.spec))
        ]

    # -- spread

    @cached_property
    def _hard_spread(self) -> list[tuple[int, core_v1.TopologySpreadConstraint, Selector]]:
        own = enumerate(self.pod.spec.topology_spread_constraints)
        return [(i, each, self._spread_selector(each)) for i, each in own if each.when_unsatisfiable == "DoNotSchedule"]

    def _spread_selector(self, constraint: core_v1.TopologySpreadConstraint) -> Selector:
        selector = parse_selector(constraint.label_selector)
        if self.features.spread_label_keys:
            labels = self.pod.metadata.labels
            merged = {entry.key for entry in selector.requirements}
            added = {key: labels[key] for key in constraint.match_label_keys if key in labels and key not in merged}
            selector = selector.plus(label_selector.from_labels(added).requirements) if added else selector
        return NOTHING if selector.is_empty() else selector

    @cached_property
    def _spread_counts(self) -> list[Counter[str]]:
        keys = [constraint.topology_key for _, constraint, _ in self._hard_spread]
        required = node_selector.required_affinity(self.pod.spec, self.features.constraints)
        found = [Counter[str]() for _ in keys]
        for info in self.engine.cluster.node_infos():
            labels = info.node.metadata.labels
            if not all(key in labels for key in keys):
                continue
            is_wanted = required.matches(labels, info.name)
            for counts, (_, constraint, selector) in zip(found, self._hard_spread, strict=True):
                if not is_wanted and constraint.node_affinity_policy in (None, "Honor"):
                    continue
                if constraint.node_taints_policy == "Honor" and self.untolerated_taints(info.node):
                    continue
                counts[labels[constraint.topology_key]] += sum(
                    pod.metadata.namespace == self.namespace
                    and pod.metadata.deletion_timestamp is None
                    and selector.matches(pod.metadata.labels)
                    for pod in info.pods
                )
        return found

    def broken_spreads(self, node: core_v1.Node) -> list[Spread]:
        """Return the spread constraints (DoNotSchedule) that the pod would break on a node."""
        found = []
        for counts, (index, constraint, _) in zip(self._spread_counts, self._hard_spread, strict=True):
            domain = node.metadata.labels.get(constraint.topology_key)
            least_domain = min(counts, key=lambda each: (counts[each], each), default="")
            least = counts[least_domain] if counts else 0
            if len(counts) < (constraint.min_domains or 1):
                least, least_domain = 0, ""
            own = int(parse_selector(constraint.label_selector).matches(self.pod.metadata.labels))
            entry = Spread(
                index, constraint, domain, counts[domain] if domain else 0, least, least_domain, len(counts), own
            )
            if domain is None or entry.skew > constraint.max_skew:
                found.append(entry)
        return found

    # -- pod affinity

    @cached_property
    def _terms(self) -> facade.PodTerms:
        return facade.pod_terms(self.pod.spec, self.namespace)

    @cached_property
    def _selected_pods_by_domain(self) -> tuple[list[dict[str, list[core_v1.Pod]]], list[dict[str, list[core_v1.Pod]]]]:
        terms = self._terms
        near: list[dict[str, list[core_v1.Pod]]] = [defaultdict(list) for _ in terms.affinity]
        far: list[dict[str, list[core_v1.Pod]]] = [defaultdict(list) for _ in terms.anti_affinity]
        if not near and not far:
            return near, far
        for info in self.engine.cluster.node_infos():
            labels = info.node.metadata.labels
            for pod in info.pods:
                if near and all(self._selects_pod(each, pod) for each in terms.affinity):
                    for term, found in zip(terms.affinity, near, strict=True):
                        if term.topology_key in labels:
                            found[labels[term.topology_key]].append(pod)
                for term, found in zip(terms.anti_affinity, far, strict=True):
                    if term.topology_key in labels and self._selects_pod(term, pod):
                        found[labels[term.topology_key]].append(pod)
        return near, far

    def domains_with_pods(self, index: int) -> list[str]:
        """Return the topology domains with pods that the required affinity term with this index selects."""
        near = self._selected_pods_by_domain[0]
        return list(near[index]) if index < len(near) else []

    def misspelled_peer(self, index: int) -> tuple[str, str, str, str] | None:
        """Return a misspelled label of a required affinity term: key, value, value meant, a node with such a pod."""
        affinity = self.pod.spec.affinity and self.pod.spec.affinity.pod_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else []
        selector = required[index].label_selector if index < len(required) else None
        if selector is None or self.domains_with_pods(index):
            return None
        for key, value in selector.match_labels.items():
            here = {placed.pod.metadata.labels.get(key, ""): placed.pod.spec.node_name
                    for placed in self.engine.cluster.placed_pods()
                    if placed.pod.metadata.namespace == self.namespace}  # fmt: skip
            if meant := find_similar(value, here):
                return key, value, meant, here[meant]
        return None

    def namespaces_with_peers(self, index: int) -> dict[str, str]:
        """Return the namespaces with pods that the selector of a fruitless affinity term matches, each with a node."""
        if self.domains_with_pods(index) or index >= len(self._terms.affinity):
            return {}
        selector = self._terms.affinity[index].selector
        placed = (each.pod for each in self.engine.cluster.placed_pods())
        return {
            each.metadata.namespace: each.spec.node_name for each in placed if selector.matches(each.metadata.labels)
        }

    def is_sibling(self, pod: core_v1.Pod) -> bool:
        """Return whether a pod belongs to the same workload as the examined pod."""
        return full_name(pod) in self._sibling_names

    @cached_property
    def _sibling_names(self) -> frozenset[str]:
        return frozenset(map(full_name, self.subject.siblings))

    def old_pods_counted(self, index: int) -> int:
        """Return how many placed pods of older templates of the workload a spread constraint counts."""
        own = self.pod.metadata.labels.get("pod-template-hash")
        constraint = self.pod.spec.topology_spread_constraints[index]
        if own is None or "pod-template-hash" in constraint.match_label_keys:
            return 0
        selector = parse_selector(constraint.label_selector)
        return sum(
            bool(pod.spec.node_name)
            and pod.metadata.labels.get("pod-template-hash") != own
            and selector.matches(pod.metadata.labels)
            for pod in self.subject.siblings
        )

    @cached_property
    def _anti_affinity_by_domain(self) -> dict[tuple[str, str], list[tuple[AffinityTerm, core_v1.Pod]]]:
        found: dict[tuple[str, str], list[tuple[AffinityTerm, core_v1.Pod]]] = defaultdict(list)
        for info in self.engine.cluster.node_infos():
            labels = info.node.metadata.labels
            for placed in info.placed.values():
                for term in placed.signature.terms.anti_affinity:
                    if term.topology_key in labels and self._selects_pod(term, self.pod):
                        found[term.topology_key, labels[term.topology_key]].append((term, placed.pod))
        return found

    def _selects_pod(self, term: AffinityTerm, pod: core_v1.Pod) -> bool:
        namespace = pod.metadata.namespace
        return term.matches(namespace, pod.metadata.labels, self.engine.cluster.namespaces.get(namespace, {}))

    def unmet_pod_terms(self, node: core_v1.Node) -> list[UnmetPodTerm]:
        """Return the pod-affinity terms that a node does not meet."""
        terms, labels = self._terms, node.metadata.labels
        near, far = self._selected_pods_by_domain
        found = []
        begins = not any(near) and all(self._selects_pod(term, self.pod) for term in terms.affinity)
        for index, (term, chosen) in enumerate(zip(terms.affinity, near, strict=True)):
            domain = labels.get(term.topology_key)
            if domain is None or (not begins and domain not in chosen):
                found.append(UnmetPodTerm("affinity", index, term, domain))
        for index, (term, chosen) in enumerate(zip(terms.anti_affinity, far, strict=True)):
            domain = labels.get(term.topology_key)
            if domain is not None and domain in chosen:
                found.append(UnmetPodTerm("anti-affinity", index, term, domain, tuple(chosen[domain])))
        for key, domain in labels.items() if self._anti_affinity_by_domain else ():
            holders: dict[int, tuple[AffinityTerm, list[core_v1.Pod]]] = {}
            for term, pod in self._anti_affinity_by_domain.get((key, domain), ()):
                holders.setdefault(id(term), (term, []))[1].append(pod)
            found += [UnmetPodTerm("existing", 0, term, domain, tuple(pods)) for term, pods in holders.values()]
        return found


def has_conditions(term: core_v1.NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields or term.match_cel_expressions)


def _ports_conflict(one: facade.HostPort, other: facade.HostPort) -> bool:
    addresses = {one.address, other.address}
    same = (one.protocol, one.port) == (other.protocol, other.port)
    return same and (len(addresses) == 1 or facade.ANY_ADDRESS in addresses)


def parse_selector(source: Any) -> Selector:
    try:
        return label_selector.from_label_selector(source)
    except SelectorError:
        return NOTHING


def full_name(obj: Resource) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}" if obj.metadata.namespace else obj.metadata.name


def _scheduling_properties(node: core_v1.Node) -> Hashable:
    labels = sorted((key, value) for key, value in node.metadata.labels.items() if key != "kubernetes.io/hostname")
    taints = sorted((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    allocatable = sorted((name, str(value)) for name, value in node.status.allocatable.items())
    return tuple(labels), tuple(taints), tuple(allocatable)


def format_amount(resource: str, number: int) -> str:
    """Format an amount as an exact quantity, as short as possible: `1500m`, `2`, `3Gi`."""
    if resource == CPU:
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if number and number % size == 0:
                return f"{number // size}{suffix}"
    return str(number)


def to_quantity(resource: str, number: int) -> Quantity:
    return parse(format_amount(resource, number))
