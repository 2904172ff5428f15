"""A naive evaluation of the scheduler's rules, node by node, and random clusters to hold it against the engine.

`Naive` shares nothing with `scheduler/columns` or the plugins: it walks over all nodes and pods for every question.
What tolerations, node selectors and affinity terms match is `mooring.constraints`, which has its own such test.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from mooring.api import label_selector
from mooring.api.core_v1 import Namespace, Node, Pod, Service, Taint, TopologySpreadConstraint
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.label_selector import Selector
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity, parse
from mooring.constraints import node_selector, tolerations
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.pod_affinity import AffinityTerm, compile_affinity_term
from mooring.controllers.workloads.daemon_nodes import pin_spec_to_node
from mooring.scheduler.columns.signatures import pinned_node
from mooring.scheduler.deciding.engine import Engine

T = TypeVar("T", bound=Resource)
OPTIONS = ConstraintOptions()
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
Verdict = tuple[str, str, tuple[str, ...]]
OK: Verdict = ("Success", "", ())


# -- the naive evaluation


@dataclass
class Naive:
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    def on(self, node: Node) -> list[Pod]:
        return [
            pod
            for pod in self.pods.values()
            if pod.spec.node_name == node.metadata.name and pod.status.phase not in ("Succeeded", "Failed")
        ]

    def placed(self) -> Iterable[tuple[Pod, Node]]:
        for node in self.nodes.values():
            for pod in self.on(node):
                yield pod, node

    def explain(self, pod: Pod) -> dict[str, tuple[Verdict, dict[str, int]]]:
        verdicts = {name: self.verdict(pod, node) for name, node in self.nodes.items()}
        feasible = [self.nodes[name] for name, verdict in verdicts.items() if verdict == OK]
        scores = self.scores(pod, feasible) if feasible else {}
        return {name: (verdict, scores.get(name, {})) for name, verdict in verdicts.items()}

    def verdict(self, pod: Pod, node: Node) -> Verdict:
        names = named_nodes(pod)
        if names is not None and node.metadata.name not in names:
            return NEVER, "", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
        for plugin, check in FILTERS.items():
            refusal = check(self, pod, node)
            if refusal:
                code, *reasons = refusal
                return code, plugin, tuple(reasons)
        return OK

    def scores(self, pod: Pod, feasible: list[Node]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {node.metadata.name: {} for node in feasible}
        for plugin, score in SCORES.items():
            for name, points in (score(self, pod, feasible) or {}).items():
                found[name][plugin] = points * WEIGHTS.get(plugin, 1)
        return found


NO, NEVER = "Unschedulable", "UnschedulableAndUnresolvable"
Refusal = tuple[str, ...] | None


def unschedulable(_world: Naive, pod: Pod, node: Node) -> Refusal:
    taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    tolerated = tolerations.any_tolerates(pod.spec.tolerations, taint, OPTIONS)
    return (NEVER, "node(s) were unschedulable") if node.spec.unschedulable and not tolerated else None


def count_untolerated_preferences(node: Node, pod: Pod) -> int:
    preferred = [taint for taint in node.spec.taints if taint.effect == tolerations.PREFER_NO_SCHEDULE]
    return sum(not tolerations.any_tolerates(pod.spec.tolerations, taint, OPTIONS) for taint in preferred)


def tainted(_world: Naive, pod: Pod, node: Node) -> Refusal:
    taint = tolerations.find_untolerated(node.spec.taints, pod.spec.tolerations, OPTIONS)
    return (NEVER, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}") if taint else None


def affine(pod: Pod, node: Node) -> bool:
    return node_selector.required_affinity(pod.spec, OPTIONS).matches(node.metadata.labels, node.metadata.name)


def named_nodes(pod: Pod) -> set[str] | None:
    """Return the nodes that a pod names, when all its terms do."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    names: set[str] = set()
    for term in required.node_selector_terms if required else []:
        named = [field.values for field in term.match_fields if field.operator == "In"]
        if not named:
            return None
        names |= set(named[0])
    return names or None


def not_affine(_world: Naive, pod: Pod, node: Node) -> Refusal:
    return None if affine(pod, node) else (NEVER, "node(s) didn't match Pod's node affinity/selector")


def ports(pod: Pod) -> list[tuple[str, int, str]]:
    containers = [*pod.spec.containers, *(c for c in pod.spec.init_containers if c.restart_policy == "Always")]
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")
        for container in containers
        for port in container.ports
        if port.host_port
    ]


def port_taken(world: Naive, pod: Pod, node: Node) -> Refusal:
    used = [port for other in world.on(node) for port in ports(other)]
    for protocol, number, address in ports(pod):
        for other_protocol, other_number, other_address in used:
            same = (protocol, number) == (other_protocol, other_number)
            if same and (address == other_address or "0.0.0.0" in (address, other_address)):
                return NO, "node(s) didn't have free ports for the requested pod ports"
    return None


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    zero = parse("0")
    return {name: one.get(name, zero) + other.get(name, zero) for name in {**one, **other}}


def most(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    zero = parse("0")
    return {name: max(one.get(name, zero), other.get(name, zero)) for name in {**one, **other}}


def asked(pod: Pod, *, assumed: bool = False) -> dict[str, int]:
    defaults = {"cpu": parse("100m"), "memory": parse("209715200")} if assumed else {}
    level = pod.spec.resources.requests if pod.spec.resources else {}
    if level:
        stated = {name for c in (*pod.spec.containers, *pod.spec.init_containers) for name in c.resources.requests}
        defaults = {name: amount for name, amount in defaults.items() if name not in {*stated, *level}}
    total: dict[str, Quantity] = {}
    for container in pod.spec.containers:
        total = add(total, {**defaults, **container.resources.requests})
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.spec.init_containers:
        own = {**defaults, **container.resources.requests}
        if container.restart_policy == "Always":
            total, sidecars = add(total, own), add(sidecars, own)
            peak = most(peak, sidecars)
        else:
            peak = most(peak, add(own, sidecars))
    total = add({**most(total, peak), **level}, pod.spec.overhead)
    return {name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in total.items()}


def allocatable(node: Node) -> dict[str, int]:
    amounts = node.status.allocatable
    return {name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in amounts.items()}


def used(world: Naive, node: Node, *, assumed: bool = False) -> Counter[str]:
    total: Counter[str] = Counter()
    for pod in world.on(node):
        total.update(asked(pod, assumed=assumed))
    return total


def does_not_fit(world: Naive, pod: Pod, node: Node) -> Refusal:
    there, taken, wanted = allocatable(node), used(world, node), asked(pod)
    reasons = ["Too many pods"] if len(world.on(node)) + 1 > there.get("pods", 0) else []
    hopeless = False
    for name in ("cpu", "memory", "ephemeral-storage", *sorted(wanted.keys() - {"cpu", "memory", "ephemeral-storage"})):
        if wanted.get(name, 0) > max(there.get(name, 0) - taken[name], 0):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or wanted[name] > there.get(name, 0)
    return (NEVER if hopeless else NO, *reasons) if reasons else None


def selector_of(world: Naive, pod: Pod) -> Selector:
    labels: dict[str, str] = {}
    for service in world.services.values():
        wanted = service.spec.selector
        if service.metadata.namespace == pod.metadata.namespace and wanted.items() <= pod.metadata.labels.items():
            labels |= wanted
    return label_selector.from_labels(labels)


def constraints(world: Naive, pod: Pod, action: str) -> list[tuple[TopologySpreadConstraint, Selector]]:
    own = pod.spec.topology_spread_constraints
    if own:
        return [
            (entry, label_selector.from_label_selector(entry.label_selector))
            for entry in own
            if entry.when_unsatisfiable == action
        ]
    selector = selector_of(world, pod)
    if action == "DoNotSchedule" or selector.is_empty():
        return []
    return [
        (TopologySpreadConstraint(topology_key=key, max_skew=skew, when_unsatisfiable=action), selector)
        for key, skew in ((HOST, 3), (ZONE, 5))
    ]


def counted(world: Naive, pod: Pod, node: Node, selector: Selector) -> int:
    if selector.is_empty():
        return 0
    return sum(
        other.metadata.namespace == pod.metadata.namespace
        and other.metadata.deletion_timestamp is None
        and selector.matches(other.metadata.labels)
        for other in world.on(node)
    )


def included(pod: Pod, node: Node, entry: TopologySpreadConstraint) -> bool:
    if entry.node_affinity_policy in (None, "Honor") and not affine(pod, node):
        return False
    if entry.node_taints_policy != "Honor":
        return True
    return tolerations.find_untolerated(node.spec.taints, pod.spec.tolerations, OPTIONS) is None


def skewed(world: Naive, pod: Pod, node: Node) -> Refusal:
    hard = constraints(world, pod, "DoNotSchedule")
    keys = [entry.topology_key for entry, _ in hard]
    for entry, selector in hard:
        key = entry.topology_key
        if key not in node.metadata.labels:
            return NEVER, "node(s) didn't match pod topology spread constraints (missing required label)"
        domains: Counter[str] = Counter()
        for other in world.nodes.values():
            if all(name in other.metadata.labels for name in keys) and included(pod, other, entry):
                domains[other.metadata.labels[key]] += counted(world, pod, other, selector)
        least = min(domains.values(), default=0)
        if len(domains) < (entry.min_domains or 1):
            least = 0
        here = domains[node.metadata.labels[key]] + selector.matches(pod.metadata.labels)
        if here - least > entry.max_skew:
            return NO, "node(s) didn't match pod topology spread constraints"
    return None


def terms(pod: Pod, kind: str) -> list[AffinityTerm]:
    affinity = getattr(pod.spec.affinity, kind, None)
    found = affinity.required_during_scheduling_ignored_during_execution if affinity else []
    return [compile_affinity_term(term, pod.metadata.namespace) for term in found]


def weighted(pod: Pod) -> list[tuple[int, AffinityTerm]]:
    found: list[tuple[int, AffinityTerm]] = []
    for kind, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
        affinity = getattr(pod.spec.affinity, kind, None)
        entries = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
        namespace = pod.metadata.namespace
        found += [(sign * entry.weight, compile_affinity_term(entry.pod_affinity_term, namespace)) for entry in entries]
    return found


def chooses(world: Naive, term: AffinityTerm, pod: Pod) -> bool:
    namespace = pod.metadata.namespace
    return term.matches(namespace, pod.metadata.labels, world.namespaces.get(namespace, {}))


def same_domain(term: AffinityTerm, one: Node, other: Node) -> bool:
    key = term.topology_key
    return key in one.metadata.labels and one.metadata.labels[key] == other.metadata.labels.get(key)


def pod_affinity_refuses(world: Naive, pod: Pod, node: Node) -> Refusal:
    near, far = terms(pod, "pod_affinity"), terms(pod, "pod_anti_affinity")
    chosen = [(other, where) for other, where in world.placed() if all(chooses(world, term, other) for term in near)]
    if near:
        alone = not any(term.topology_key in where.metadata.labels for _, where in chosen for term in near)
        begins = alone and all(chooses(world, term, pod) for term in near)
        for term in near:
            labelled = term.topology_key in node.metadata.labels
            if not labelled or (not begins and not any(same_domain(term, where, node) for _, where in chosen)):
                return NEVER, "node(s) didn't match pod affinity rules"
    for term in far:
        if any(chooses(world, term, other) and same_domain(term, where, node) for other, where in world.placed()):
            return NO, "node(s) didn't match pod anti-affinity rules"
    for other, where in world.placed():
        for term in terms(other, "pod_anti_affinity"):
            if chooses(world, term, pod) and same_domain(term, where, node):
                return NO, "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


FILTERS: dict[str, Callable[[Naive, Pod, Node], Refusal]] = {
    "NodeUnschedulable": unschedulable,
    "TaintToleration": tainted,
    "NodeAffinity": not_affine,
    "NodePorts": port_taken,
    "NodeResourcesFit": does_not_fit,
    "PodTopologySpread": skewed,
    "InterPodAffinity": pod_affinity_refuses,
}
Points = dict[str, int] | None


def by_name(feasible: list[Node], points: Callable[[Node], int]) -> dict[str, int]:
    return {node.metadata.name: points(node) for node in feasible}


def taint_points(_world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    raw = by_name(feasible, lambda n: count_untolerated_preferences(n, pod))
    top = max(raw.values())
    return {name: 100 - 100 * points // top if top else 100 for name, points in raw.items()}


def affinity_points(_world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity or not affinity.preferred_during_scheduling_ignored_during_execution:
        return None
    preferred = node_selector.preferred_affinity(pod.spec, OPTIONS)
    raw = by_name(feasible, lambda node: preferred.score(node.metadata.labels, node.metadata.name))
    top = max(raw.values())
    return {name: 100 * points // top if top else 0 for name, points in raw.items()}


def fit_points(world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    def points(node: Node) -> int:
        there, taken, wanted = allocatable(node), used(world, node, assumed=True), asked(pod, assumed=True)
        shares = []
        for name in ("cpu", "memory"):
            if there.get(name):
                free = there[name] - taken[name] - wanted.get(name, 0)
                shares.append(max(free, 0) * 100 // there[name])
        return sum(shares) // len(shares) if shares else 0

    return by_name(feasible, points)


def balance_points(world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    wanted = asked(pod)
    if not wanted.get("cpu") and not wanted.get("memory"):
        return None

    def balance(node: Node, extra: Mapping[str, int]) -> int:
        there, taken = allocatable(node), used(world, node)
        shares = [
            min((taken[name] + extra.get(name, 0)) / there[name], 1.0) for name in ("cpu", "memory") if there.get(name)
        ]
        deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
        return int((1 - deviation) * 100)

    return by_name(feasible, lambda node: 25 + (100 + balance(node, wanted) - balance(node, {})) // 2)


def image_points(world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    images = [container.image for container in (*pod.spec.init_containers, *pod.spec.containers)]
    images = [image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest" for image in images]
    have = Counter(
        name for node in world.nodes.values() for name in {n for image in node.status.images for n in image.names}
    )
    low, high = 23 * 1024 * 1024, 1000 * 1024 * 1024 * len(images)

    def points(node: Node) -> int:
        sizes = {name: image.size_bytes for image in node.status.images for name in image.names}
        total = sum(int(sizes[image] * (have[image] / len(world.nodes))) for image in images if image in sizes)
        return 100 * (min(max(total, low), high) - low) // (high - low)

    return by_name(feasible, points)


def spread_points(world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    soft = constraints(world, pod, "ScheduleAnyway")
    if not soft:
        return None
    strict = bool(pod.spec.topology_spread_constraints)

    def lacks(node: Node) -> bool:
        return strict and not all(entry.topology_key in node.metadata.labels for entry, _ in soft)

    competing = [node for node in feasible if not lacks(node)]
    raw = dict.fromkeys((node.metadata.name for node in competing), 0.0)
    for entry, selector in soft:
        key = entry.topology_key
        values = {node.metadata.labels.get(key, "") for node in competing}
        weight = math.log((len(competing) if key == HOST else len(values)) + 2)
        domains: Counter[str] = Counter()
        for node in world.nodes.values():
            if not lacks(node) and included(pod, node, entry):
                domains[node.metadata.labels.get(key, "")] += counted(world, pod, node, selector)
        for node in competing:
            if key in node.metadata.labels:
                here = counted(world, pod, node, selector) if key == HOST else domains[node.metadata.labels[key]]
                raw[node.metadata.name] += here * weight + (entry.max_skew - 1)
    rounded = {name: math.floor(points + 0.5) for name, points in raw.items()}
    low, high = min(rounded.values(), default=0), max(rounded.values(), default=0)
    points = {name: 100 * (high + low - value) // high if high else 100 for name, value in rounded.items()}
    return by_name(feasible, lambda node: points.get(node.metadata.name, 0))


def pod_affinity_points(world: Naive, pod: Pod, feasible: list[Node]) -> Points:
    drawn: list[tuple[int, str, str]] = []
    for other, where in world.placed():
        pulls = [(weight, term) for weight, term in weighted(pod) if chooses(world, term, other)]
        pulls += [(1, term) for term in terms(other, "pod_affinity") if chooses(world, term, pod)]
        pulls += [(weight, term) for weight, term in weighted(other) if chooses(world, term, pod)]
        for weight, term in pulls:
            if term.topology_key in where.metadata.labels:
                drawn.append((weight, term.topology_key, where.metadata.labels[term.topology_key]))
    if not drawn:
        return None
    raw = by_name(feasible, lambda node: sum(w for w, key, value in drawn if node.metadata.labels.get(key) == value))
    low, high = min(raw.values()), max(raw.values())
    return {name: int(100 * ((value - low) / (high - low))) if high > low else 0 for name, value in raw.items()}


SCORES: dict[str, Callable[[Naive, Pod, list[Node]], Points]] = {
    "TaintToleration": taint_points,
    "NodeAffinity": affinity_points,
    "NodeResourcesFit": fit_points,
    "PodTopologySpread": spread_points,
    "InterPodAffinity": pod_affinity_points,
    "NodeResourcesBalancedAllocation": balance_points,
    "ImageLocality": image_points,
}


# -- random clusters


class Random:
    """Makes objects that often have to do with each other."""

    def __init__(self, seed: int) -> None:
        self.lot = random.Random(seed)
        self._number = 0

    def maybe(self, chance: float, value: Callable[[], Any]) -> Any:
        return value() if self.lot.random() < chance else None

    def some(self, most: int, value: Callable[[], Any]) -> list[Any]:
        return [value() for _ in range(self.lot.randint(0, most))]

    def node(self, name: str) -> Node:
        pick = self.lot.choice
        labels = {HOST: name} if self.lot.random() < 0.9 else {}
        for key, values in LABELS.items():
            if self.lot.random() < 0.8:
                labels[key] = pick(values)
        amounts = {"cpu": pick(["8"] * 7 + ["4", "0"]), "memory": pick(["4Gi", "16Gi"]), "pods": pick(["6", "20"])}
        if self.lot.random() < 0.3:
            amounts["example.com/gpu"] = pick(["1", "4"])
        tree = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": self.some(pick([0, 0, 2]), self.taint), "unschedulable": self.lot.random() < 0.05},
            "status": {"allocatable": amounts, "capacity": amounts, "images": self.some(2, self.image)},
        }
        return made(tree, Node)

    def taint(self) -> dict[str, Any]:
        pick = self.lot.choice
        key, value = pick([("sla", "900"), ("sla", "950"), ("sla", "x"), ("kernel", "5.10.0"), ("pool", "")])
        return {"key": key, "value": value, "effect": pick(["NoSchedule", "PreferNoSchedule", "NoExecute"])}

    def image(self) -> dict[str, Any]:
        pick = self.lot.choice
        return {"names": [pick(["app:1", "app:2", "db:latest"])], "sizeBytes": pick([50, 300, 900]) * 1024 * 1024}

    def pod(self, node_name: str = "") -> Pod:
        self._number += 1
        pick = self.lot.choice
        init = self.some(1, lambda: {**self.container(), "restartPolicy": pick([None, "Always"])})
        spec: dict[str, Any] = {
            "containers": [self.container() for _ in range(pick([1, 1, 2]))],
            "initContainers": init,
            "tolerations": self.some(3, self.toleration),
            "nodeSelector": self.maybe(0.15, lambda: {"tier": pick(LABELS["tier"])}) or {},
            "affinity": {
                "nodeAffinity": self.maybe(0.3, self.node_affinity),
                "podAffinity": self.maybe(0.3, self.pod_affinity),
                "podAntiAffinity": self.maybe(0.3, self.pod_affinity),
            },
            "topologySpreadConstraints": self.spreads() if self.lot.random() < 0.4 else [],
            "overhead": self.maybe(0.1, lambda: {"cpu": "50m"}) or {},
            "resources": self.maybe(0.1, lambda: {"requests": {"cpu": "700m"}}),
            "nodeName": node_name,
        }
        metadata = {
            "name": f"pod-{self._number}",
            "uid": f"uid-{self._number}",
            "namespace": pick(["default", "prod", "dev"]),
            "labels": {key: pick(values) for key, values in POD_LABELS.items() if self.lot.random() < 0.8},
        }
        if node_name and self.lot.random() < 0.1:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        phase = "Succeeded" if node_name and self.lot.random() < 0.05 else "Running" if node_name else "Pending"
        return made({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)

    def container(self) -> dict[str, Any]:
        pick = self.lot.choice
        requests = {
            "cpu": pick([None, "100m", "500m", "1"]),
            "memory": pick([None, "64Mi", "256Mi", "1Gi"]),
            "example.com/gpu": pick([None] * 20 + ["1"]),
        }
        port = {"containerPort": 80, "hostPort": 8080, "hostIP": pick(["", "10.0.0.1", "10.0.0.2"])}
        return {
            "name": "c",
            "image": pick(["app:1", "app:2", "db"]),
            "resources": {"requests": {name: amount for name, amount in requests.items() if amount}},
            "ports": [port] if self.lot.random() < 0.1 else [],
        }

    def toleration(self) -> dict[str, Any]:
        return self.lot.choice(
            [
                {"key": "sla", "operator": "Gt", "value": "920"},
                {"key": "sla", "operator": "Lt", "value": "920", "effect": "NoSchedule"},
                {"key": "kernel", "operator": "SemverLt", "value": "6.0.0"},
                {"expression": "taint.key == 'sla' && taint.value.startsWith('9')"},
                {"key": "pool", "operator": "Exists"},
                {"operator": "Exists"},
            ]
        )

    def node_affinity(self) -> dict[str, Any]:
        weights = [{"weight": self.lot.randint(1, 100), "preference": self.term()} for _ in range(2)]
        required = self.maybe(0.5, lambda: {"nodeSelectorTerms": [self.term(), self.term()]})
        if self.lot.random() < 0.3:
            required = {"nodeSelectorTerms": [{"matchFields": [self.by_name()]}]}
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": weights if self.lot.random() < 0.6 else [],
        }

    def term(self) -> dict[str, Any]:
        return self.lot.choice(
            [
                {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
                {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]},
                {"matchCELExpressions": ["'tier' in node.labels && node.labels['tier'] != 'gold'"]},
                {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]},
                {"matchFields": [self.by_name()]},
            ]
        )

    def by_name(self) -> dict[str, Any]:
        return {"key": "metadata.name", "operator": "In", "values": [f"node-{self.lot.choice('123')}"]}

    def sibling(self, template: Pod, number: int) -> Pod:
        """Another pod as controllers of StatefulSets and DaemonSets make it: with a label or a node of its own."""
        labels = {**template.metadata.labels, "index": f"{number % 3}"}
        name = f"like-{number}"
        metadata = msgspec.structs.replace(template.metadata, uid=name, name=name, labels=labels)
        spec = template.spec
        if pinned_node(spec):
            pinned = pin_spec_to_node(spec, f"node-{self.lot.choice('123')}")
            spec = msgspec.structs.replace(spec, affinity=pinned.affinity)
        return msgspec.structs.replace(template, metadata=metadata, spec=spec)

    def selector(self) -> dict[str, Any]:
        pick = self.lot.choice
        return pick(
            [
                {},
                {"matchLabels": {"app": pick(POD_LABELS["app"])}},
                {"matchExpressions": [{"key": "rev", "operator": pick(["Exists", "DoesNotExist"])}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
                *([{"matchLabels": {"index": "1"}}] if self.lot.random() < 0.2 else []),
            ]
        )

    def pod_term(self) -> dict[str, Any]:
        pick = self.lot.choice
        return {
            "topologyKey": pick([ZONE, HOST, "rack"]),
            "labelSelector": self.selector(),
            "namespaces": pick([[], [], ["prod", "dev"]]),
            "namespaceSelector": pick([None, None, {}, {"matchLabels": {"env": "prod"}}]),
        }

    def pod_affinity(self) -> dict[str, Any]:
        weighted = [{"weight": self.lot.randint(1, 100), "podAffinityTerm": self.pod_term()}]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": self.some(2, self.pod_term),
            "preferredDuringSchedulingIgnoredDuringExecution": weighted if self.lot.random() < 0.6 else [],
        }

    def spreads(self) -> list[dict[str, Any]]:
        """Up to three; key and action together are unique, as the API wants it."""
        found = {(rule["topologyKey"], rule["whenUnsatisfiable"]): rule for rule in self.some(3, self.spread)}
        return list(found.values())

    def spread(self) -> dict[str, Any]:
        pick = self.lot.choice
        action = pick(["DoNotSchedule", "ScheduleAnyway"])
        return {
            "maxSkew": pick([1, 2, 3]),
            "topologyKey": pick([ZONE, HOST, "rack"]),
            "whenUnsatisfiable": action,
            "labelSelector": self.selector(),
            "minDomains": pick([None, 2, 3]) if action == "DoNotSchedule" else None,
            "nodeAffinityPolicy": pick([None, "Honor", "Ignore"]),
            "nodeTaintsPolicy": pick([None, "Honor", "Ignore"]),
        }


LABELS = {
    ZONE: ["a", "b", "c"],
    "rack": ["1", "2"],
    "tier": ["gold", "silver", "bronze"],
    "kernel": ["5.4.0", "5.15.0", "6.1", "not-a-version"],
}
POD_LABELS = {"app": ["web", "db", "cache"], "rev": ["1", "2"], "index": ["0", "1", "2"]}


SERVED = [{"app": "web"}, {"app": "db"}, {"app": "nobody"}, {"app": "web", "index": "0"}]


def made(tree: dict[str, Any], kind: type[T]) -> T:
    found, _ = from_tree(tree, kind, FieldValidation.STRICT)
    return found


class Twins:
    """Apply every change to both the engine and the naive scheduler."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.engine = Engine()
        self.naive = Naive()

    def change(self) -> None:
        lot = self.random.lot
        kinds = [self.put_node, self.put_pod, self.put_pod, self.put_pod, self.put_namespace, self.put_service]
        lot.choice([*kinds, self.move_pod, self.remove_pod, self.remove_node])()

    def put_node(self) -> None:
        node = self.random.node(f"node-{self.random.lot.randint(0, 7)}")
        self.naive.nodes[node.metadata.name] = node
        self.engine.put(node)

    def remove_node(self) -> None:
        node = self.naive.nodes.pop(f"node-{self.random.lot.randint(0, 7)}", None)
        if node is not None:
            self.engine.remove(node)

    def put_pod(self) -> None:
        pod = self.random.pod(f"node-{self.random.lot.randint(0, 7)}")
        self.naive.pods[pod.metadata.uid] = pod
        self.engine.put(pod)

    def move_pod(self) -> None:
        """Give a pod other labels or another state, or assume it on a node before it is bound there."""
        if not self.naive.pods:
            return
        pod = self.random.lot.choice(list(self.naive.pods.values()))
        labels = {"app": self.random.lot.choice(POD_LABELS["app"])}
        if self.random.lot.random() < 0.5:
            labels = {**pod.metadata.labels, "index": self.random.lot.choice(POD_LABELS["index"])}
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        pod = msgspec.structs.replace(pod, metadata=metadata)
        self.naive.pods[pod.metadata.uid] = pod
        if pod.status.phase == "Running" and self.random.lot.random() < 0.5:
            spec = msgspec.structs.replace(pod.spec, node_name="")
            self.engine.assume(msgspec.structs.replace(pod, spec=spec), pod.spec.node_name)
        self.engine.put(pod)

    def place(self, pod: Pod, node_name: str | None) -> None:
        if node_name is not None:
            self.engine.assume(pod, node_name)
            spec = msgspec.structs.replace(pod.spec, node_name=node_name)
            self.naive.pods[pod.metadata.uid] = msgspec.structs.replace(pod, spec=spec)

    def remove_pod(self) -> None:
        if self.naive.pods:
            pod = self.naive.pods.pop(self.random.lot.choice(list(self.naive.pods)))
            self.engine.remove(pod)

    def put_namespace(self) -> None:
        name = self.random.lot.choice(["default", "prod", "dev"])
        labels = self.random.lot.choice([{}, {"env": "prod"}, {"env": "dev"}])
        self.naive.namespaces[name] = labels
        self.engine.put(made({"metadata": {"name": name, "labels": labels}}, Namespace))

    def put_service(self) -> None:
        service = made(
            {
                "metadata": {"name": "web", "namespace": self.random.lot.choice(["default", "prod"])},
                "spec": {"selector": self.random.lot.choice(SERVED)},
            },
            Service,
        )
        self.naive.services[service.metadata.namespace] = service
        self.engine.put(service)

    def fresh(self) -> Engine:
        engine = Engine()
        for name, labels in self.naive.namespaces.items():
            engine.put(made({"metadata": {"name": name, "labels": labels}}, Namespace))
        for thing in (*self.naive.services.values(), *self.naive.nodes.values(), *self.naive.pods.values()):
            engine.put(thing)
        return engine


def explained(engine: Engine, pod: Pod) -> dict[str, tuple[Verdict, dict[str, int]]]:
    found = {}
    for name, entry in engine.explain(pod).items():
        scores = dict(entry.scores)
        assert not any(scores.pop(plugin) for plugin in entry.scores.keys() - SCORES.keys()), "there are no volumes"
        found[name] = (str(entry.status.code), entry.status.plugin, entry.status.reasons), scores
    return found


def check(twins: Twins, pod: Pod) -> None:
    ours, naive = explained(twins.engine, pod), twins.naive.explain(pod)
    assert {name: (found, naive.get(name)) for name, found in ours.items() if found != naive.get(name)} == {}
    assert ours.keys() == naive.keys()
    chosen = twins.engine.schedule(pod).node
    totals = {name: sum(scores.values()) for name, (verdict, scores) in ours.items() if verdict == OK}
    assert totals[chosen] == max(totals.values()) if chosen else not totals
