"""Find nodes that can be removed: every pod of theirs fits elsewhere, and no budget or rule forbids to move it.

    consolidate(snapshot, Settings(), Prices())

Nodes are tried one after the other, and stay removed when all of their pods found a node. That is done in three orders,
and the one that saves most is kept. The result is then played: the nodes are drained and removed in a simulation, and
a node whose removal leaves a pod pending there is kept after all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from mooring.advisor.simulate.changes import Drain, RemoveNodes, Scenario, Step
from mooring.advisor.simulate.evictions import is_drainable
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.pods import SimulatedPod
from mooring.advisor.simulate.results import API_VERSION
from mooring.advisor.simulate.running import Progress, Running
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.simulate.utilisation import usage_of
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.base.natural_sort import natural_key
from mooring.constraints.requests import CPU

_DO_NOT_EVICT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
Report = Callable[[Progress], None]


class Removal(msgspec.Struct, frozen=True, rename="camel"):
    """A node that can go, what it saves by the hour (or in cores without prices), and where its pods go."""

    node: str
    saves: float
    moves: dict[str, str]
    """The new node of each pod."""


class Obstacle(msgspec.Struct, frozen=True, rename="camel"):
    """A node that has to stay, the pod that keeps it, and what would let it go."""

    node: str
    pod: str
    reason: str
    remedy: str = ""


class Consolidation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of `mooring simulate --consolidate`."""

    api_version: str = API_VERSION
    kind: str = "Consolidation"
    cluster: str
    nodes: int
    removed: tuple[Removal, ...]
    kept: tuple[Obstacle, ...]
    unit: str
    """What savings are counted in: `price` or `cores`."""
    is_complete: bool = True

    @property
    def saves(self) -> float:
        return sum(each.saves for each in self.removed)


def consolidate(snapshot: Snapshot, settings: Settings, prices: Prices, report: Report | None = None) -> Consolidation:
    """Find the nodes that can go. Raises ScenarioError where pods or nodes may not be read."""
    running = Running(snapshot, Scenario(), settings, report)
    running.run()
    search = _Search(running, prices)
    best: list[Removal] = []
    obstacles: dict[str, Obstacle] = {}
    is_complete = True
    try:
        for order in search.orders():
            found = search.remove_in_order(order)
            if sum(each.saves for each in found) > sum(each.saves for each in best):
                best, obstacles = found, dict(search.obstacles)
            elif not best:
                obstacles = dict(search.obstacles)
            search.restore()
        best = _played(snapshot, settings, best, len(running.world.pods) - running.world.running)
    except KeyboardInterrupt:
        is_complete = False
    gone = {each.node for each in best}
    return Consolidation(
        cluster=snapshot.origin,
        nodes=len(search.nodes),
        removed=tuple(best),
        kept=tuple(each for name, each in obstacles.items() if name not in gone),
        unit="price" if prices else "cores",
        is_complete=is_complete,
    )


def _played(snapshot: Snapshot, settings: Settings, removals: list[Removal], pending: int) -> list[Removal]:
    while removals:
        names = tuple(each.node for each in removals)
        running = Running(snapshot, Scenario(steps=(Step((Drain(names),)), Step((RemoveNodes(names),)))), settings)
        running.run()
        drained = running.world.drains.refused
        if len(running.world.pods) - running.world.running <= pending and not drained:
            break
        removals = removals[:-1]
    return removals


@dataclass(slots=True)
class _Removed:
    """A node that is out of the engine, with all that is needed to put it back."""

    node: Node
    pods: list[Pod]
    """As they were on the node."""
    placed: dict[str, Pod] = field(default_factory=dict)
    """Those that are on other nodes now, by key."""


class _Search:
    """Take nodes out of the engine and put them back."""

    def __init__(self, running: Running, prices: Prices) -> None:
        self._world, self._prices = running.world, prices
        self._engine = running.world.engine
        self.nodes = [info.node for info in self._engine.cluster.node_infos()]
        self._usage = usage_of(self._engine.cluster)
        self._removed: list[_Removed] = []
        self._bound: dict[str, Pod] = {}
        self._on: dict[str, set[str]] = {}
        self.obstacles: dict[str, Obstacle] = {}
        self.restore()

    def restore(self) -> None:
        """Put every node and pod back to where it was."""
        for change in reversed(self._removed):
            self._put_back(change)
        self._removed.clear()
        self._on = {node.metadata.name: set() for node in self.nodes}
        for pod in self._world.pods.values():
            if pod.node:
                self._bound[pod.key] = _on_node(pod.pod, pod.node)
                self._on[pod.node].add(pod.key)

    def orders(self) -> list[list[Node]]:
        """Return the orders to try: most saved first, fewest pods first, and least used first."""
        by_name = sorted(self.nodes, key=lambda node: natural_key(node.metadata.name))
        return [
            sorted(by_name, key=lambda node: -self._saving(node)),
            sorted(by_name, key=lambda node: len(self._on[node.metadata.name])),
            sorted(by_name, key=lambda node: max(self._usage.on(node.metadata.name).values(), default=0.0)),
        ]

    def remove_in_order(self, order: Sequence[Node]) -> list[Removal]:
        """Remove each node whose pods all fit elsewhere; note what keeps the others."""
        self.obstacles = {}
        return [removal for node in order if (removal := self._try_removal(node)) is not None]

    def _saving(self, node: Node) -> float:
        if self._prices:
            return self._prices.of(node)
        cores = node.status.allocatable.get(CPU)
        return cores.as_approximate_float() if cores is not None else 0.0

    def _try_removal(self, node: Node) -> Removal | None:
        name = node.metadata.name
        here = [self._world.pods[key] for key in self._on[name]]
        movable = sorted((pod for pod in here if is_drainable(pod)), key=lambda pod: -(pod.pod.spec.priority or 0))
        change = _Removed(node, [self._bound[pod.key] for pod in here])
        obstacle = self._rule_against(name, movable)
        if obstacle is None:
            self._engine.put(structs.replace(node, spec=structs.replace(node.spec, unschedulable=True)))
            obstacle = self._move(name, movable, change)
            if obstacle is not None:
                self._put_back(change)
        if obstacle is not None:
            self.obstacles[name] = obstacle
            return None
        for pod in here:
            if pod.key not in change.placed:
                self._engine.remove(self._bound[pod.key])
        self._engine.remove(node)
        self._removed.append(change)
        self._on[name] = set()
        for key, placed in change.placed.items():
            self._bound[key] = placed
            self._on[placed.spec.node_name].add(key)
        return Removal(name, self._saving(node), {pod.name: change.placed[pod.key].spec.node_name for pod in movable})

    def _move(self, node: str, pods: Sequence[SimulatedPod], change: _Removed) -> Obstacle | None:
        for pod in pods:
            self._engine.remove(self._bound[pod.key])
            outcome = self._engine.schedule(_on_node(pod.pod, ""))
            if outcome.node is None:
                return Obstacle(node, pod.name, outcome.message, _fit_remedy(outcome.message))
            change.placed[pod.key] = _on_node(pod.pod, outcome.node)
            self._engine.put(change.placed[pod.key])
        return None

    def _rule_against(self, node: str, pods: Sequence[SimulatedPod]) -> Obstacle | None:
        for pod in pods:
            if pod.owner is None:
                reason = "no controller makes the pod again"
                return Obstacle(node, pod.name, reason, "run it by a Deployment or a Job, or delete it")
            for key, value in _DO_NOT_EVICT.items():
                if pod.pod.metadata.annotations.get(key) == value:
                    return Obstacle(node, pod.name, f"its annotation {key} is {value}", f"remove the annotation {key}")
            if refusal := self._world.budgets.eviction_problem(pod):
                return Obstacle(node, pod.name, refusal, "more replicas, or a budget that allows one disruption")
        return None

    def _put_back(self, change: _Removed) -> None:
        for pod in change.placed.values():
            self._engine.remove(pod)
        self._engine.put(change.node)
        for pod in change.pods:
            self._engine.put(pod)


def _on_node(pod: Pod, node: str) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def _fit_remedy(message: str) -> str:
    if "Insufficient" in message:
        return "smaller requests, or keep the node"
    return "relax the constraint that the message names"


def lines(found: Consolidation) -> Iterator[str]:
    """Write the answer for a terminal."""
    saved = f"{found.saves:,.2f} an hour" if found.unit == "price" else f"{found.saves:,.0f} cores"
    yield f"{found.cluster}: {len(found.removed)} of {found.nodes} nodes can go, which saves {saved}"
    for each in found.removed:
        yield f"  {each.node}: {len(each.moves)} pods move"
    if found.kept:
        yield ""
        yield "Nodes that stay"
    for kept in found.kept:
        remedy = f" ({kept.remedy})" if kept.remedy else ""
        yield f"  {kept.node}: {kept.pod}: {kept.reason}{remedy}"
