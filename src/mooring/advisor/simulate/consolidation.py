"""Find nodes that can be removed: all of their pods fit elsewhere, and no budget or rule prevents moving them.

    consolidate(snapshot, Settings(), Prices())

Nodes are tried one after the other, and stay removed if all of their pods found a node. This is done in three orders,
and the one that saves most is improved by local search: a node that had to stay is tried first, and the others after
it. The result is then simulated: the nodes are drained and removed, and nodes whose removal blocks or leaves a pod
pending are kept. Other attempts are simulated too if they may save more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate.applying import with_unschedulable
from mooring.advisor.simulate.changes import Drain, RemoveNodes, Scenario, Step
from mooring.advisor.simulate.evictions import is_drainable
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.outcome import departure_of
from mooring.advisor.simulate.pods import SimulatedPod, with_node
from mooring.advisor.simulate.reports import markdown_table
from mooring.advisor.simulate.running import ReportProgress, SimulationRun
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
_BUDGET_REMEDY = "more replicas, or a budget that allows one disruption"
_MAX_PLAYED = 8
"""The maximum number of attempts that are simulated, in the order of what they save."""
_MAX_MOVES = 100_000
"""The maximum number of pods that local search may move; then it returns the best result so far."""


class Removal(msgspec.Struct, frozen=True, rename="camel"):
    """A node that can be removed: the price saved by the hour (without prices: cores), and the new node of each pod."""

    node: str
    saves: float
    moves: dict[str, str]


class Obstacle(msgspec.Struct, frozen=True, rename="camel"):
    """A node that cannot be removed: the pod that cannot move, the reason, and a remedy."""

    node: str
    pod: str
    reason: str
    remedy: str = ""
    is_rule: bool = False
    """Whether a budget or an annotation keeps the pod, rather than a lack of resources."""


class Consolidation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of `mooring simulate --consolidate`."""

    api_version: str = API_VERSION
    kind: str = "Consolidation"
    cluster: str
    nodes: int
    removed: tuple[Removal, ...]
    kept: tuple[Obstacle, ...]
    unit: str
    """The unit of savings: `price` or `cores`."""
    is_complete: bool = True

    @property
    def saves(self) -> float:
        return sum(each.saves for each in self.removed)


def consolidate(
    snapshot: Snapshot, settings: Settings, prices: Prices, report: ReportProgress | None = None
) -> Consolidation:
    """Find the removable nodes. Raise ScenarioError if the user may not read pods or nodes."""
    running = SimulationRun(snapshot, Scenario(), settings, report)
    running.run()
    search = _Search(running, prices, report)
    is_complete = True
    best = _Attempt([], {})
    try:
        _improve_by_local_search(
            search, max((search.try_order(order) for order in search.removal_orders()), key=_total_saving)
        )
        for found in sorted(search.attempts, key=_total_saving, reverse=True)[:_MAX_PLAYED]:
            if not best.obstacles or _total_saving(found) > _total_saving(best):
                best = max(_simulate_removals(snapshot, settings, found), best, key=_total_saving)
    except KeyboardInterrupt:
        is_complete = False
    gone = {each.node for each in best.removals}
    return Consolidation(
        cluster=snapshot.origin,
        nodes=len(search.nodes),
        removed=tuple(best.removals),
        kept=tuple(each for name, each in best.obstacles.items() if name not in gone),
        unit="price" if prices else "cores",
        is_complete=is_complete,
    )


class _Attempt(NamedTuple):
    """The result of trying to remove nodes in one order: the removable nodes, and the obstacles of the others."""

    removals: list[Removal]
    obstacles: dict[str, Obstacle]


def _total_saving(attempt: _Attempt) -> float:
    return sum(each.saves for each in attempt.removals)


def _improve_by_local_search(search: "_Search", best: _Attempt) -> None:
    """Attempt other orders, each beginning with a node that was kept, as long as one of them saves more."""
    nodes = {node.metadata.name: node for node in search.nodes}
    improved = True
    while improved:
        improved = False
        for name in [name for name, each in best.obstacles.items() if not each.is_rule]:
            if search.moves > _MAX_MOVES:
                return
            first = [name, *(each.node for each in best.removals)]
            order = [nodes[each] for each in dict.fromkeys([*first, *nodes])]
            found = search.try_order(order)
            if _total_saving(found) > _total_saving(best):
                best, improved = found, True
                break


def _simulate_removals(snapshot: Snapshot, settings: Settings, attempt: _Attempt) -> _Attempt:
    """Simulate all removals together; make a node whose drain is blocked, or leaves a pod pending, an obstacle."""
    removals, obstacles = attempt.removals, dict(attempt.obstacles)
    while removals:
        names = tuple(each.node for each in removals)
        steps = (Step((Drain(names),)), Step((RemoveNodes(names),)))
        running = SimulationRun(snapshot, Scenario(steps=steps), settings)
        running.run()
        world = running.world
        pods = {pod.name: pod for pod in world.pods.values()}
        found: dict[str, Obstacle] = {}
        for departure in (*world.record.evictions, *world.record.preemptions):
            left = departure_of(departure, world)
            if left.replacement and not left.replacement_node:
                node = left.node if left.node in names else names[-1]
                reason = f"with the other nodes gone: {world.message_of(pods[left.replacement])}"
                found[node] = Obstacle(node, left.pod, reason, _remedy_for(reason))
        for pod, message in world.drains.refused.values():
            found[pod.node] = Obstacle(pod.node, pod.name, message, _BUDGET_REMEDY)
        if not found:
            break
        obstacles |= found
        removals = [each for each in removals if each.node not in found]
    return _Attempt(removals, obstacles)


@dataclass(slots=True)
class _RemovedNode:
    """A node removed from the engine, with the state needed to restore it."""

    node: Node
    pods: list[Pod]
    """The pods as they were on the node."""
    placed: dict[str, Pod] = field(default_factory=dict)
    """The pods that are on other nodes now, by key."""


class _Search:
    """The search for removable nodes: removes nodes from the scheduler's engine, and restores them."""

    def __init__(self, running: SimulationRun, prices: Prices, report: ReportProgress | None) -> None:
        self._world, self._prices, self._report = running.world, prices, report
        self._engine = running.world.engine
        self.nodes = [info.node for info in self._engine.cluster.node_infos()]
        self._usage = usage_of(self._engine.cluster)
        self._removed: list[_RemovedNode] = []
        self._bound: dict[str, Pod] = {}
        self._on: dict[str, dict[str, None]] = {}
        """The keys of the pods on each node, in order."""
        self.moves = 0
        self.attempts: list[_Attempt] = []
        self._restore_all()

    def _restore_all(self) -> None:
        """Put all removed nodes back, and all pods on the nodes where they were at the start."""
        for change in reversed(self._removed):
            self._restore_node(change)
        self._removed.clear()
        self._on = {node.metadata.name: {} for node in self.nodes}
        for pod in self._world.pods.values():
            if pod.node:
                self._bound[pod.key] = with_node(pod.pod, pod.node)
                self._on[pod.node][pod.key] = None

    def removal_orders(self) -> list[list[Node]]:
        """Return the orders in which to try nodes: highest saving first, fewest pods first, and least used first."""
        by_name = sorted(self.nodes, key=lambda node: natural_key(node.metadata.name))
        return [
            sorted(by_name, key=lambda node: -self._saving_of(node)),
            sorted(by_name, key=lambda node: len(self._on[node.metadata.name])),
            sorted(by_name, key=lambda node: max(self._usage.use_of_node(node.metadata.name).values(), default=0.0)),
        ]

    def try_order(self, order: Sequence[Node]) -> _Attempt:
        """Try to remove each node in this order; return those whose pods all fit elsewhere, and restore all nodes."""
        found = _Attempt([], {})
        try:
            for node in order:
                if self._report is not None:
                    self._report(self._world.progress(f"trying to remove {node.metadata.name}"))
                outcome = self._try_removal(node)
                if isinstance(outcome, Removal):
                    found.removals.append(outcome)
                else:
                    found.obstacles[outcome.node] = outcome
        finally:
            self._restore_all()
        self.attempts.append(found)
        return found

    def _saving_of(self, node: Node) -> float:
        if self._prices:
            return self._prices.price_of(node)
        cores = node.status.allocatable.get(CPU)
        return cores.as_approximate_float() if cores is not None else 0.0

    def _try_removal(self, node: Node) -> Removal | Obstacle:
        name = node.metadata.name
        here = [self._world.pods[key] for key in self._on[name]]
        movable = sorted((pod for pod in here if is_drainable(pod)), key=lambda pod: -(pod.pod.spec.priority or 0))
        change = _RemovedNode(node, [self._bound[pod.key] for pod in here])
        obstacle = self._find_rule_against(name, movable)
        if obstacle is None:
            self._engine.put(with_unschedulable(node, unschedulable=True))
            obstacle = self._move_pods(name, movable, change)
            if obstacle is not None:
                self._restore_node(change)
        if obstacle is not None:
            return obstacle
        for pod in here:
            if pod.key not in change.placed:
                self._engine.remove(self._bound[pod.key])
        self._engine.remove(node)
        self._removed.append(change)
        self._on[name] = {}
        for key, placed in change.placed.items():
            self._bound[key] = placed
            self._on[placed.spec.node_name][key] = None
        return Removal(
            name, self._saving_of(node), {pod.name: change.placed[pod.key].spec.node_name for pod in movable}
        )

    def _move_pods(self, node: str, pods: Sequence[SimulatedPod], change: _RemovedNode) -> Obstacle | None:
        for pod in pods:
            self.moves += 1
            self._engine.remove(self._bound[pod.key])
            outcome = self._engine.schedule(with_node(pod.pod, ""))
            if outcome.node is None:
                return Obstacle(node, pod.name, outcome.message, _remedy_for(outcome.message))
            change.placed[pod.key] = with_node(pod.pod, outcome.node)
            self._engine.put(change.placed[pod.key])
        return None

    def _find_rule_against(self, node: str, pods: Sequence[SimulatedPod]) -> Obstacle | None:
        for pod in pods:
            if pod.owner is None:
                reason = "no controller makes the pod again"
                return Obstacle(node, pod.name, reason, "run it by a Deployment or a Job, or delete it", is_rule=True)
            for key, value in _DO_NOT_EVICT.items():
                if pod.pod.metadata.annotations.get(key) == value:
                    reason = f"its annotation {key} is {value}"
                    return Obstacle(node, pod.name, reason, f"remove the annotation {key}", is_rule=True)
            if refusal := self._world.budgets.eviction_problem(pod):
                return Obstacle(node, pod.name, refusal, _BUDGET_REMEDY, is_rule=True)
        return None

    def _restore_node(self, change: _RemovedNode) -> None:
        for pod in change.placed.values():
            self._engine.remove(pod)
        self._engine.put(change.node)
        for pod in change.pods:
            self._engine.put(pod)


def _remedy_for(message: str) -> str:
    if "Insufficient" in message:
        return "smaller requests, or keep the node"
    return "relax the constraint that the message names"


def format_headline(found: Consolidation) -> str:
    """Return the result of a consolidation in one sentence."""
    saved = f"{found.saves:,.2f} an hour" if found.unit == "price" else f"{found.saves:,.0f} cores"
    return f"{found.cluster}: {len(found.removed)} of {found.nodes} nodes can go, which saves {saved}"


def format_lines(found: Consolidation) -> Iterator[str]:
    """Yield the lines of the result of a consolidation for a terminal."""
    yield format_headline(found)
    for each in found.removed:
        yield f"  {each.node}: {len(each.moves)} pods move"
    if found.kept:
        yield ""
        yield "Nodes that stay"
    for kept in found.kept:
        remedy = f" ({kept.remedy})" if kept.remedy else ""
        yield f"  {kept.node}: {kept.pod}: {kept.reason}{remedy}"


def format_markdown(found: Consolidation) -> str:
    """Return the result of a consolidation as Markdown."""
    gone = [(each.node, f"{each.saves:,.2f}", str(len(each.moves))) for each in found.removed]
    kept = [(each.node, each.pod, each.reason, each.remedy) for each in found.kept]
    parts = [
        f"### {format_headline(found)}",
        markdown_table(("Node that can go", f"Saves ({found.unit})", "Pods that move"), gone),
        markdown_table(("Node that stays", "Pod", "Why", "Remedy"), kept),
    ]
    return "\n\n".join(filter(None, parts))
