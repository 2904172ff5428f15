"""Policies that give points for what is left on a node: BestFit, DotProd and GpuPacking."""

import numpy as np
from numpy.typing import NDArray

from gpu_policies.cards import WHOLE, Cards, Demand, demand_of
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    SUCCESS,
    Declaration,
    Handle,
    Input,
    Part,
    PluginArguments,
    Rows,
    ScorePlugin,
    Scores,
    Status,
)

MOST_CPU, MOST_GPU = 128_000, 8 * WHOLE
"""The largest node there is, by which amounts become comparable."""


class CardPolicy(ScorePlugin[Demand]):
    """What these policies have in common: they look at what pods ask for, and at what is left on nodes."""

    name = ""
    scores = Declaration(Part.RESOURCES, Input.NODE | Input.PODS)

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self.cards = Cards.of(handle.cluster)

    def pre_score(self, pod: PodInfo, _cluster: Cluster) -> Demand | Status:
        return demand_of(pod.signature)


class BestFit(CardPolicy):
    """The node on which least is left over, with equal weights for CPUs and cards."""

    name = "BestFit"

    def score(self, state: Demand, rows: Rows) -> Scores:
        self.cards.sync()
        cpu = (self.cards.cpu_left(rows) - state.cpu) / MOST_CPU * 0.5
        gpu = (self.cards.left[rows].sum(axis=1) - state.total) / MOST_GPU * 0.5
        return _points(1.0 - (cpu + gpu))


class DotProd(CardPolicy):
    """The node whose free resources, as a vector, have the smallest product with the pod's."""

    name = "DotProd"

    def score(self, state: Demand, rows: Rows) -> Scores:
        self.cards.sync()
        cpu = self.cards.cpu_left(rows) / MOST_CPU * (state.cpu / MOST_CPU)
        gpu = self.cards.left[rows].sum(axis=1) / MOST_GPU * (state.total / MOST_GPU)
        return _points(1.0 - (cpu + gpu) / 2)


class GpuPacking(CardPolicy):
    """Cards that are shared already, else nodes that are used already, else empty nodes with few cards."""

    name = "GpuPacking"

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> Demand | Status:
        demand = super().pre_score(pod, cluster)
        return demand if isinstance(demand, Status) or demand.total else SUCCESS

    def score(self, state: Demand, rows: Rows) -> Scores:
        self.cards.sync()
        left, number = self.cards.left[rows], self.cards.number[rows]
        idle = (left == WHOLE).sum(axis=1)
        shared = np.where((left >= state.part) & (left < WHOLE), left, WHOLE)
        on_shared = np.maximum(MAX_NODE_SCORE - shared.min(axis=1) * 100 // WHOLE // 10, MAX_NODE_SCORE // 2)
        on_used = max(MAX_NODE_SCORE // 2 - state.count, MAX_NODE_SCORE // 3)
        on_empty = np.maximum(MAX_NODE_SCORE // 3 - idle, idle)
        has_shared = (shared < WHOLE).any(axis=1)
        return np.where(idle == number, on_empty, np.where(has_shared, on_shared, on_used)).astype(np.int64)


def _points(parts: NDArray[np.float64]) -> Scores:
    """Whole points; nodes on which the pod does not fit may be outside of what points can be."""
    return (parts * MAX_NODE_SCORE).clip(0, MAX_NODE_SCORE).astype(np.int64)
