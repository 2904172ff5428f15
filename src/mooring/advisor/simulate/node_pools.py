"""Node pools: where new nodes come from, why a pool cannot serve a pod, and an autoscaler in virtual time.

    read_pools(b"...")            pools of a file: Nodes as templates
    pools_of_cluster(snapshot)    Karpenter NodePools, and the groups that nodes' labels name
    explain_pools(pools, pod)     why each pool can or cannot make a node for a pod

The autoscaler's rules are simplified: it looks at pending pods every ten seconds, takes the cheapest pool whose empty
node fits (of equal price, the first), packs pods onto new nodes in their order, and orders no more while nodes are on
their way. It never removes nodes.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import read_nodes
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.api.core_v1 import Taint as NodeTaint
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
"""Labels by which providers name a node's pool."""
_ANNOTATION = "pool.mooring.dev/"
_SCAN_SECONDS = 10.0
_READY_SECONDS = 90.0
_MOST_NODES = 1000
_HOSTNAME = "kubernetes.io/hostname"
_OWN_LABELS = frozenset({_HOSTNAME})


class NodePool(msgspec.Struct, frozen=True):
    """A source of equal nodes."""

    name: str
    template: Node
    maximum: int = _MOST_NODES
    price: float = 0.0
    ready_seconds: float = _READY_SECONDS


class PoolVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a new node of a pool would take a pod, and why not."""

    pool: str
    fits: bool
    reasons: tuple[str, ...] = ()


def read_pools(text: bytes, source: str) -> tuple[NodePool, ...]:
    """Read pools from Node manifests; annotations `pool.mooring.dev/max`, `price` and `ready` say the rest."""
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
        pools.append(NodePool(node.metadata.name, _blank(node), maximum, price, ready))
    return tuple(pools)


def pools_of_cluster(snapshot: Snapshot) -> tuple[NodePool, ...]:
    """Find the pools of a cluster. The largest node of a group is its template, with what Karpenter's NodePool adds."""
    karpenter = {
        each.name: each.tree
        for each in snapshot.raw()
        if each.kind == "NodePool" and "karpenter.sh" in each.api_version
    }
    groups: dict[str, Node] = {}
    for node in snapshot.all(Node):
        name = next((node.metadata.labels[key] for key in GROUP_LABELS if key in node.metadata.labels), "")
        if name and (name not in groups or _cores(node) > _cores(groups[name])):
            groups[name] = node
    found = []
    for name, node in sorted(groups.items()):
        template = _blank(node)
        if name in karpenter:
            template = _with_karpenter(template, karpenter[name])
        found.append(NodePool(name, template))
    return tuple(found)


def explain_pools(snapshot: Snapshot, pools: Iterable[NodePool], pod: Pod) -> list[PoolVerdict]:
    """Ask the scheduler's engine about an empty node of each pool; those that fit, then the nearest, come first."""
    found = [_verdict(snapshot, pool, pod) for pool in pools]
    return sorted(found, key=lambda each: (not each.fits, len(each.reasons)))


def _verdict(snapshot: Snapshot, pool: NodePool, pod: Pod) -> PoolVerdict:
    engine = _empty_engine(snapshot)
    engine.put(_instance(pool, 0))
    explained = engine.explain(structs.replace(pod, spec=structs.replace(pod.spec, node_name="")))
    status = next(iter(explained.values())).status
    return PoolVerdict(pool.name, status.is_success, tuple(status.reasons))


def _empty_engine(snapshot: Snapshot) -> Engine:
    from mooring.advisor.snapshot import engine  # noqa: PLC0415 - a cycle otherwise

    nothing = (*snapshot.all(Node), *snapshot.all(Pod))
    return engine(snapshot.replace(remove=nothing))


class Autoscaler:
    """Add nodes from pools for pods that fit on no node."""

    def __init__(self, world: "World", snapshot: Snapshot, pools: Sequence[NodePool]) -> None:
        self._world, self._snapshot = world, snapshot
        self._pools = sorted(pools, key=lambda pool: pool.price)
        self._made: dict[str, int] = {}
        self._arrivals: list[tuple[float, int, Node]] = []
        self._scanned_revision = -1
        self.added: list[tuple[float, str, str]] = []
        """Time, node and pool of every node that was added."""

    def next_due(self) -> float | None:
        """Return when the next node arrives, or when pending pods are looked at."""
        if self._arrivals:
            return self._arrivals[0][0]
        has_pending = len(self._world.pods) > self._world.running
        if self._pools and has_pending and self._scanned_revision != self._world.revision:
            return self._world.clock.monotonic() + _SCAN_SECONDS
        return None

    def run(self) -> None:
        """Let nodes arrive whose time has come; order more where none is on its way."""
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
            number, pending = self._pack(pool, pending, left)
            for _ in range(number):
                self._made[pool.name] = self._made.get(pool.name, 0) + 1
                node = _instance(pool, self._made[pool.name])
                heapq.heappush(self._arrivals, (now + pool.ready_seconds, len(self.added), node))
                self.added.append((now + pool.ready_seconds, node.metadata.name, pool.name))

    def _pack(self, pool: NodePool, pods: list[Pod], most: int) -> tuple[int, list[Pod]]:
        engine = _empty_engine(self._snapshot)
        number, left = 0, []
        for pod in pods:
            node = engine.schedule(pod).node if number else None
            if node is None and number < most:
                fresh = _instance(pool, number)
                engine.put(fresh)
                node = engine.schedule(pod).node
                if node is None:
                    engine.remove(fresh)
                else:
                    number += 1
            if node is None:
                left.append(pod)
            else:
                engine.assume(pod, node)
        return number, left


def _instance(pool: NodePool, number: int) -> Node:
    name = f"{pool.name}-new-{number}"
    meta = pool.template.metadata
    meta = structs.replace(meta, name=name, uid="", labels={**meta.labels, _HOSTNAME: name})
    return structs.replace(pool.template, metadata=meta)


def _blank(node: Node) -> Node:
    taints = [taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    labels = {key: value for key, value in node.metadata.labels.items() if key not in _OWN_LABELS}
    meta = structs.replace(node.metadata, labels=labels, uid="", resource_version="")
    return structs.replace(node, metadata=meta, spec=structs.replace(node.spec, taints=taints, unschedulable=False))


def _with_karpenter(node: Node, pool: dict[str, Any]) -> Node:
    template = pool.get("spec", {}).get("template", {})
    labels = {**node.metadata.labels, **template.get("metadata", {}).get("labels", {})}
    for each in template.get("spec", {}).get("requirements", []):
        if each.get("operator") == "In" and len(each.get("values", [])) == 1:
            labels[each["key"]] = each["values"][0]
    given: Iterator[dict[str, Any]] = iter(template.get("spec", {}).get("taints", []))
    taints = [NodeTaint(key=each["key"], value=each.get("value", ""), effect=each["effect"]) for each in given]
    known = {(taint.key, taint.effect) for taint in taints}
    taints += [taint for taint in node.spec.taints if (taint.key, taint.effect) not in known]
    meta = structs.replace(node.metadata, labels=labels)
    return structs.replace(node, metadata=meta, spec=structs.replace(node.spec, taints=taints))


def _cores(node: Node) -> float:
    found = node.status.allocatable.get("cpu")
    return found.as_approximate_float() if found is not None else 0.0
