"""Why this node: the points of the best nodes, plugin by plugin."""

import numpy as np

from mooring.advisor.explain.results import NodeScore
from mooring.api.core_v1 import Pod
from mooring.base.natural_sort import natural_key
from mooring.scheduler.facade import ExplainEngine


def scores(engine: ExplainEngine, pod: Pod, chosen: str, wanted: int) -> list[NodeScore]:
    """The chosen node first, then the others, best first. A node that would not do today has no points."""
    judgement, _ = engine.evaluated(pod, needs_points=True)
    cluster = engine.cluster
    feasible = np.flatnonzero(judgement.feasible)
    totals = {row: sum(int(points[row]) for points in judgement.points.values()) for row in feasible.tolist()}
    best = sorted(totals, key=lambda row: (-totals[row], natural_key(_name(engine, row))))
    own = cluster.row_of.get(chosen)
    order = [row for row in best if row != own][:wanted]
    rows = [own, *order] if own is not None and own in totals else order
    return [
        NodeScore(
            node=_name(engine, row),
            total=totals[row],
            scores={name: int(points[row]) for name, points in judgement.points.items()},
        )
        for row in rows
    ]


def _name(engine: ExplainEngine, row: int) -> str:
    info = engine.cluster.nodes[row]
    return "" if info is None else info.name
