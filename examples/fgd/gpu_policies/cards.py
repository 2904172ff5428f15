"""Which card of which node is how full, and the plugin that shares cards out.

A node offers `alibabacloud.com/gpu-milli`, 1000 for each card, and has its model as a label. A pod asks for less than
1000 (a part of one card) or for a multiple of it (whole cards); an annotation may name the models it accepts, `A|B`.
The card of a pod is chosen when the pod comes to a node, and stays with it through tries and preemption.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo, PodSignature
from mooring.scheduler.framework import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    Declaration,
    EventWithHint,
    FilterPlugin,
    Handle,
    Input,
    Kind,
    Part,
    PluginArguments,
    PreFilterResult,
    Rows,
    Status,
    Verdicts,
    unschedulable,
)

GPU, MODEL, INDEX = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-card-model", "alibabacloud.com/gpu-index"
WHOLE = 1000
Amounts: TypeAlias = NDArray[np.int64]
Pick: TypeAlias = Callable[[int, NDArray[np.intp], "Demand"], int]
"""Chooses a card: the row, the cards with enough left, what is asked for."""


class Demand(NamedTuple):
    """What a pod asks for."""

    cpu: int
    total: int
    """Thousandths of all its cards together."""

    @property
    def count(self) -> int:
        return -(-self.total // WHOLE)

    @property
    def part(self) -> int:
        """Thousandths of each card."""
        return min(self.total, WHOLE)


def demand_of(shape: PodSignature) -> Demand:
    return Demand(shape.scored.get("cpu", 0), shape.requests.get(GPU, 0))


class Cards:
    """What is left of every card: thousandths, by row and number of the card. Shared by all plugins of a scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._verified_at = 0
        self._changes = 0
        self.left: Amounts = np.zeros((0, 0), np.int64)
        self.number: Amounts = np.zeros(0, np.int64)
        """How many cards a row has."""
        self.models: dict[str, int] = {}
        self.model: Amounts = np.zeros(0, np.int64)
        """By row, as numbered in `models`."""
        self.changed_at: Amounts = np.zeros(0, np.int64)
        """By row; rises whenever something comes or goes there."""
        self.pick: Pick = self.fullest
        cluster.observers.append(self)

    @classmethod
    def of(cls, cluster: Cluster) -> "Cards":
        if cls not in cluster.shared:
            cluster.shared[cls] = cls(cluster)
        found: Cards = cluster.shared[cls]
        found.sync()
        return found

    def sync(self) -> None:
        """Take in nodes that have come, gone or changed."""
        log = self._cluster.node_changes
        if log.changed_at == self._verified_at:
            return
        rows = log.since(self._verified_at)
        self._verified_at = log.changed_at
        for row in range(self._cluster.capacity) if rows is None else rows.tolist():
            self._fill(row)

    def cpu_left(self, rows: Rows) -> Amounts:
        table = self._cluster.resources
        line = table.line("cpu")
        return table.allocatable[line, rows] - table.used[line, rows]

    def fullest(self, row: int, fitting: NDArray[np.intp], _demand: Demand) -> int:
        return int(fitting[self.left[row, fitting].argmin()])

    # -- called by the cluster

    def pod_placed(self, placed: PlacedPod, node: NodeInfo) -> None:
        self.sync()
        demand = demand_of(placed.signature)
        if demand.total and GpuShare.name not in placed.held:
            placed.hold(GpuShare.name, _written(placed.pod) or self._choose(node.row, demand))
        self._count(node)

    def pod_left(self, _placed: PlacedPod, node: NodeInfo) -> None:
        self.sync()
        self._count(node)

    # -- how

    def _choose(self, row: int, demand: Demand) -> tuple[int, ...]:
        """Choose cards for a pod; return none if there are not enough."""
        fitting = (self.left[row] >= demand.part).nonzero()[0]
        if len(fitting) < demand.count:
            return ()
        if demand.part == WHOLE:
            return tuple(fitting[: demand.count].tolist())
        return (self.pick(row, fitting, demand),)

    def _fill(self, row: int) -> None:
        info, number = self._cluster.nodes[row], self._cluster.resources.amounts(GPU, row)[0] // WHOLE
        rows, width = self._cluster.capacity, max(number, self.left.shape[1])
        if self.left.shape != (rows, width):
            more = (rows - len(self.left), width - self.left.shape[1])
            self.left = np.pad(self.left, ((0, more[0]), (0, more[1])))
            self.number, self.model, self.changed_at = (
                np.pad(column, (0, more[0])) for column in (self.number, self.model, self.changed_at)
            )
        self.number[row] = number
        model = "" if info is None else info.node.metadata.labels.get(MODEL, "")
        self.model[row] = self.models.setdefault(model, len(self.models))
        self._count(info, row)

    def _count(self, info: NodeInfo | None, row: int = -1) -> None:
        """Recompute what is left on a row from its pods, so that nothing has to be undone."""
        row = row if info is None else info.row
        left = self.left[row]
        left[:] = 0
        left[: self.number[row]] = WHOLE
        for placed in () if info is None else info.placed.values():
            for card in placed.held.get(GpuShare.name, ()):
                if card < len(left):  # the node may have lost a card that a pod still names
                    left[card] -= demand_of(placed.signature).part
        self._changes += 1
        self.changed_at[row] = self._changes


class GpuShare(FilterPlugin[tuple[Demand, object]]):
    """Accepts nodes whose cards have enough left, and records the chosen cards on the pod."""

    name = "GpuShare"
    filters = Declaration(Part.RESOURCES, Input.NODE | Input.PODS)

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._cluster, self._client = handle.cluster, handle.client
        self._cards = Cards.of(handle.cluster)

    def sign(self, pod: Pod) -> str:
        return pod.metadata.annotations.get(MODEL, "")

    def pre_filter(self, pod: PodInfo, _cluster: Cluster) -> PreFilterResult[tuple[Demand, object]] | Status:
        demand = demand_of(pod.signature)
        return PreFilterResult((demand, pod.signature.own)) if demand.total else SKIP

    def filter(self, state: tuple[Demand, object], rows: Rows) -> Verdicts:
        demand, named = state
        self._cards.sync()
        lacking = (self._cards.left[rows] >= demand.part).sum(axis=1) < demand.count
        if wanted := accepted(str(named)):
            known = [code for model, code in self._cards.models.items() if model in wanted]
            lacking = np.where(np.isin(self._cards.model[rows], known), lacking, -2)
        return Verdicts(lacking.astype(np.int32), _reasons)

    def reserve(self, _cycle: CycleState, pod: Pod, _node_name: str) -> Status:
        placed = self._cluster.placed(pod)
        if placed is None or placed.held.get(self.name, (0,)):
            return SUCCESS
        return unschedulable("the cards of the node are taken")

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Release nothing here: the cards are free when the pod has left the node."""

    async def pre_bind(self, _cycle: CycleState, pod: Pod, _node_name: str) -> Status:
        """Tell the node which cards the pod has got."""
        placed = self._cluster.placed(pod)
        cards = placed.held.get(self.name) if placed is not None else None
        if self._client is not None and cards:
            note = {"metadata": {"annotations": {INDEX: "-".join(map(str, cards))}}}
            await self._client.patch(Pod, pod.metadata.name, note, pod.metadata.namespace)
        return SUCCESS

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (
            EventWithHint(ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE)),
            EventWithHint(ClusterEvent(Kind.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
            EventWithHint(ClusterEvent(Kind.NODE, Action.UPDATE_NODE_LABEL)),
        )


def accepted(text: str) -> frozenset[str]:
    """Return the models that a pod accepts; an empty result means all."""
    return frozenset(filter(None, text.split("|")))


def _written(pod: Pod) -> tuple[int, ...]:
    """Return the cards that a pod has already, from another scheduler or from before a restart."""
    text = pod.metadata.annotations.get(INDEX, "")
    return tuple(int(card) for card in text.split("-") if card.isdecimal())


def _reasons(code: int) -> tuple[str, ...]:
    return ("node(s) have another GPU model",) if code == 2 else ("node(s) have no GPU with enough left",)
