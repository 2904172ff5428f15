"""Node pools: find where new nodes come from, explain why a pool cannot serve a pod, and simulate an autoscaler.

    read_pools(b"...")                   pools of a file: Nodes as templates
    pools_of_cluster(snapshot)           Karpenter NodePools, and the groups named by nodes' labels
    explain_pools(snapshot, pools, pod)  why each pool can or cannot create a node for a pod

The autoscaler's rules are simplified: every ten seconds it takes the pending pods, chooses the pool of the highest
weight, then of the lowest price, whose empty node fits, and packs pods onto new nodes in their order. It orders no more
nodes while some are being created, and never removes nodes.
"""

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import read_nodes
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.quantity import parse
from mooring.base import durations
from mooring.scheduler.facade import Engine

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

GROUP_LABELS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_ANNOTATION = "pool.mooring.dev/"
_SCAN_SECONDS = 10.0
_READY_SECONDS = 90.0
_MOST_NODES = 1000
_HOSTNAME = "kubernetes.io/hostname"
_CHOSEN_LABELS = frozenset({"topology.kubernetes.io/zone", "karpenter.sh/capacity-type"})
"""Labels whose value Karpenter chooses when it launches an instance."""
_GROUP_SIZE = re.compile(r"\bname:\s*(\S+).*?\bmaxSize[=:]\s*(\d+)", re.IGNORECASE | re.DOTALL)
"""The size of a node group in cluster-autoscaler's status, in the text format of old releases and the YAML
of new ones.
"""


class NodePool(msgspec.Struct, frozen=True):
    """A source of new nodes, with its template, limits and price."""

    name: str
    templates: tuple[Node, ...]
    """The templates of new nodes, which differ in zone and capacity type; the first that fits is used."""
    maximum: int = _MOST_NODES
    price: float = 0.0
    ready_seconds: float = _READY_SECONDS
    weight: int = 0
    problem: str = ""
    """Why the pool creates no nodes now; empty if it does."""


class _Requirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Taint(msgspec.Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class _NodeClassRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _InstanceSpec(msgspec.Struct, frozen=True, rename="camel"):
    requirements: tuple[_Requirement, ...] = ()
    taints: tuple[_Taint, ...] = ()
    node_class_ref: _NodeClassRef = _NodeClassRef()


class _InstanceMeta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _PoolTemplate(msgspec.Struct, frozen=True):
    metadata: _InstanceMeta = _InstanceMeta()
    spec: _InstanceSpec = _InstanceSpec()


class _PoolSpec(msgspec.Struct, frozen=True):
    """The fields of a Karpenter NodePool that Mooring reads."""

    template: _PoolTemplate = _PoolTemplate()
    limits: dict[str, str | int] = {}
    weight: int = 0


class PoolVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one pool: whether a new node of it could take a pod, and why not."""

    pool: str
    fits: bool
    reasons: tuple[str, ...] = ()


def read_pools(text: bytes, source: str) -> tuple[NodePool, ...]:
    """Read pools from Node manifests; annotations `pool.mooring.dev/max`, `price` and `ready` have the other fields."""
    pools = []
    for node in read_nodes(text, source):
        given = {
            key.removeprefix(_ANNOTATION): value
            for key, value in node.metadata.annotations.items()
            if key.startswith(_ANNOTATION)
        }
        try:
            ready = durations.parse_seconds(given["ready"]) if "ready" in given else _READY_SECONDS
            maximum, price = int(given.get("max", _MOST_NODES)), float(given.get("price", 0))
        except ValueError as problem:
            raise ScenarioError(f"{source}: the pool {node.metadata.name}: {problem}") from problem
        pools.append(NodePool(node.metadata.name, (_blank(node),), maximum, price, ready))
    return tuple(pools)


def pools_of_cluster(snapshot: Snapshot) -> tuple[NodePool, ...]:
    """Find the pools of a cluster: groups of nodes, whose largest node is the template, and Karpenter's NodePools."""
    groups: dict[str, list[Node]] = {}
    for node in snapshot.all(Node):
        if name := next((node.metadata.labels[key] for key in GROUP_LABELS if key in node.metadata.labels), ""):
            groups.setdefault(name, []).append(node)
    sizes = _autoscaler_sizes(snapshot)
    found = {}
    for name, nodes in groups.items():
        largest = next((size for group, size in sizes.items() if name in group), _MOST_NODES + len(nodes))
        template = _blank(max(nodes, key=_cores))
        found[name] = NodePool(name, (template,), max(largest - len(nodes), 0))
    for each in snapshot.raw():
        if each.kind == "NodePool" and each.api_version.startswith("karpenter.sh/"):
            found[each.name] = _karpenter_pool(snapshot, each.name, each.tree, groups.get(each.name, []))
    return tuple(found[name] for name in sorted(found))


def _autoscaler_sizes(snapshot: Snapshot) -> dict[str, int]:
    """Return the maximum size of each node group that cluster-autoscaler reports in its status ConfigMap."""
    for each in snapshot.raw():
        if each.kind == "ConfigMap" and each.name == "cluster-autoscaler-status":
            status = str((each.tree.get("data") or {}).get("status", ""))
            return {name: int(size) for name, size in _GROUP_SIZE.findall(status)}
    return {}


def _karpenter_pool(snapshot: Snapshot, name: str, tree: dict[str, Any], own: Sequence[Node]) -> NodePool:
    """Read a Karpenter NodePool.

    Its own nodes, or others that meet its requirements, serve as templates of instances.
    """
    try:
        spec = msgspec.convert(tree.get("spec") or {}, _PoolSpec)
    except msgspec.ValidationError as error:
        return NodePool(name, (), problem=f"its NodePool cannot be read: {error}")
    wanted = spec.template.spec
    candidates = own or [node for node in snapshot.all(Node) if _meets(node, wanted.requirements)]
    problem = _node_class_problem(snapshot, wanted.node_class_ref)
    if not candidates:
        unknown = "no node of the cluster shows what its instances look like: name a template with --pool FILE"
        return NodePool(name, (), problem=problem or unknown)
    node = _blank(max(candidates, key=_cores))
    node_class = _node_class(snapshot, wanted.node_class_ref)
    kubelet = (node_class.get("spec") or {}).get("kubelet") or {} if node_class else {}
    if isinstance(pods := kubelet.get("maxPods"), int):
        allocatable = {**node.status.allocatable, "pods": parse(str(pods))}
        node = structs.replace(node, status=structs.replace(node.status, allocatable=allocatable))
    maximum = _within_limits(spec.limits, node, own)
    if not maximum:
        limits = ", ".join(f"{key}: {value}" for key, value in spec.limits.items())
        problem = problem or f"its limits ({limits}) leave no room for another node"
    templates = tuple(_with_karpenter(node, name, spec.template))
    return NodePool(name, templates, maximum, weight=spec.weight, problem=problem)


def _meets(node: Node, requirements: Sequence["_Requirement"]) -> bool:
    """Return whether an instance like a node meets requirements, apart from zone and capacity type, which are chosen
    later.
    """
    labels = node.metadata.labels
    for each in requirements:
        value = labels.get(each.key)
        if each.key in _CHOSEN_LABELS:
            continue
        if (each.operator == "In" and value not in each.values) or (each.operator == "NotIn" and value in each.values):
            return False
    return True


def _node_class(snapshot: Snapshot, reference: "_NodeClassRef") -> dict[str, Any] | None:
    found = (each for each in snapshot.raw() if each.kind == reference.kind and each.name == reference.name)
    return next((each.tree for each in found), None)


def _node_class_problem(snapshot: Snapshot, reference: "_NodeClassRef") -> str:
    """Return why Karpenter launches no instance with a NodeClass; empty if it does."""
    if not reference.name:
        return ""
    found = _node_class(snapshot, reference)
    if found is None:
        return f"its {reference.kind} {reference.name} does not exist"
    for each in (found.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") == "False":
            return (
                f"its {reference.kind} {reference.name} is not ready: {each.get('message') or each.get('reason', '')}"
            )
    return ""


def _within_limits(limits: dict[str, Any], template: Node, own: Sequence[Node]) -> int:
    """Return how many more nodes like the template the limits of a NodePool allow."""
    left = _MOST_NODES
    for resource, limit in limits.items():
        size = template.status.allocatable.get(resource)
        if size is not None and size.sign() > 0:
            used = sum(
                node.status.allocatable[resource].as_approximate_float()
                for node in own
                if resource in node.status.allocatable
            )
            left = min(left, int((parse(str(limit)).as_approximate_float() - used) / size.as_approximate_float()))
    return max(left, 0)


def explain_pools(snapshot: Snapshot, pools: Iterable[NodePool], pod: Pod) -> list[PoolVerdict]:
    """Evaluate a pod on an empty node of each pool.

    Return the pools that fit first, then the others by the number of reasons.
    """
    found = [_verdict(snapshot, pool, pod) for pool in pools]
    return sorted(found, key=lambda each: (not each.fits, len(each.reasons)))


def _verdict(snapshot: Snapshot, pool: NodePool, pod: Pod) -> PoolVerdict:
    if pool.problem:
        return PoolVerdict(pool.name, fits=False, reasons=(pool.problem,))
    engine = _empty_engine(snapshot)
    for number, template in enumerate(pool.templates):
        engine.put(_instance(pool.name, template, number))
    explained = engine.explain(structs.replace(pod, spec=structs.replace(pod.spec, node_name="")))
    statuses = sorted((each.status for each in explained.values()), key=lambda each: len(each.reasons))
    nearest = next((each for each in statuses if each.is_success), statuses[0])
    return PoolVerdict(pool.name, nearest.is_success, tuple(nearest.reasons))


def _empty_engine(snapshot: Snapshot) -> Engine:
    from mooring.advisor.snapshot import engine  # noqa: PLC0415 - a cycle otherwise

    nothing = (*snapshot.all(Node), *snapshot.all(Pod))
    return engine(snapshot.replace(remove=nothing))


class Autoscaler:
    """Adds nodes from pools for pods that fit on no node."""

    def __init__(self, world: "World", snapshot: Snapshot, pools: Sequence[NodePool]) -> None:
        self._world, self._snapshot = world, snapshot
        self._pools = sorted((each for each in pools if not each.problem), key=lambda pool: (-pool.weight, pool.price))
        self._made: dict[str, int] = {}
        self._arrivals: list[tuple[float, int, Node]] = []
        self._scanned_revision = -1
        self.added: list[tuple[float, str, str]] = []
        """Time, node and pool of every added node."""

    def next_due(self) -> float | None:
        """Return when the next node is ready, or when pending pods are checked next."""
        if self._arrivals:
            return self._arrivals[0][0]
        has_pending = len(self._world.pods) > self._world.running
        if self._pools and has_pending and self._scanned_revision != self._world.revision:
            return self._world.clock.monotonic() + _SCAN_SECONDS
        return None

    def run(self) -> None:
        """Add the nodes that are ready by now; order more if none is being created."""
        now = self._world.clock.monotonic()
        while self._arrivals and self._arrivals[0][0] <= now:
            _, _, node = heapq.heappop(self._arrivals)
            self._world.put_node(node)
            self._scanned_revision = self._world.revision  # pods are placed there first
        if self._pools and not self._arrivals and self._scanned_revision != self._world.revision:
            self._order(now)
            self._scanned_revision = self._world.revision

    def _order(self, now: float) -> None:
        pending = [pod.pod for pod in self._world.pods.values() if not pod.node and pod.message]
        for pool in self._pools:
            left = pool.maximum - self._made.get(pool.name, 0)
            if not pending or left <= 0:
                continue
            templates, pending = self._pack(pool, pending, left)
            for template in templates:
                self._made[pool.name] = self._made.get(pool.name, 0) + 1
                node = _instance(pool.name, template, self._made[pool.name])
                heapq.heappush(self._arrivals, (now + pool.ready_seconds, len(self.added), node))
                self.added.append((now + pool.ready_seconds, node.metadata.name, pool.name))

    def _pack(self, pool: NodePool, pods: list[Pod], most: int) -> tuple[list[Node], list[Pod]]:
        """Return the templates of the nodes to add, and the pods that still fit nowhere."""
        engine = _empty_engine(self._snapshot)
        used: list[Node] = []
        left = []
        for pod in pods:
            node = engine.schedule(pod).node if used else None
            for template in pool.templates if node is None and len(used) < most else ():
                fresh = _instance(pool.name, template, len(used))
                engine.put(fresh)
                node = engine.schedule(pod).node
                if node is not None:
                    used.append(template)
                    break
                engine.remove(fresh)
            if node is None:
                left.append(pod)
            else:
                engine.assume(pod, node)
        return used, left


def _instance(pool: str, template: Node, number: int) -> Node:
    name = f"{pool}-new-{number}"
    meta = structs.replace(template.metadata, name=name, uid="", labels={**template.metadata.labels, _HOSTNAME: name})
    return structs.replace(template, metadata=meta)


def _blank(node: Node) -> Node:
    taints = [taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOSTNAME}
    meta = structs.replace(node.metadata, labels=labels, uid="", resource_version="")
    return structs.replace(node, metadata=meta, spec=structs.replace(node.spec, taints=taints, unschedulable=False))


def _with_karpenter(node: Node, pool: str, template: "_PoolTemplate") -> Iterator[Node]:
    """Yield a node with the labels and taints of a NodePool, for each zone and capacity type that it may choose."""
    required = {each.key: each.values for each in template.spec.requirements if each.operator == "In" and each.values}
    given = [NodeTaint(key=each.key, value=each.value, effect=each.effect) for each in template.spec.taints]
    known = {(taint.key, taint.effect) for taint in given}
    taints = [*given, *(taint for taint in node.spec.taints if (taint.key, taint.effect) not in known)]
    spec = structs.replace(node.spec, taints=taints)
    choices = {key: values for key, values in required.items() if key in _CHOSEN_LABELS}
    fixed = {key: values[0] for key, values in required.items() if len(values) == 1}
    labels = {**node.metadata.labels, GROUP_LABELS[0]: pool, **template.metadata.labels, **fixed}
    for chosen in product(*choices.values()):
        meta = structs.replace(node.metadata, labels={**labels, **dict(zip(choices, chosen, strict=True))})
        yield structs.replace(node, metadata=meta, spec=spec)


def _cores(node: Node) -> float:
    found = node.status.allocatable.get("cpu")
    return found.as_approximate_float() if found is not None else 0.0
