"""Why this node: the points of the best nodes, plugin by plugin."""

import numpy as np

from mooring.advisor.explain.results import NodeScore
from mooring.api.core_v1 import Pod
from mooring.base.natural import natural
from mooring.scheduler.facade import AskingEngine


def scores(engine: AskingEngine, pod: Pod, chosen: str, wanted: int) -> list[NodeScore]:
    """The chosen node first, then the others, best first. A node that would not do today has no points."""
    judgement, _ = engine.judged(pod, needs_points=True)
    cluster = engine.cluster
    feasible = np.flatnonzero(judgement.feasible)
    totals = {row: sum(int(slot.points[row]) for slot in judgement.scores) for row in feasible.tolist()}
    best = sorted(totals, key=lambda row: (-totals[row], natural(_name(engine, row))))
    own = cluster.row_of.get(chosen)
    order = [row for row in best if row != own][:wanted]
    rows = [own, *order] if own is not None and own in totals else order
    return [
        NodeScore(
            node=_name(engine, row),
            total=totals[row],
            scores={slot.name: int(slot.points[row]) for slot in judgement.scores},
        )
        for row in rows
    ]


def _name(engine: AskingEngine, row: int) -> str:
    info = engine.cluster.nodes[row]
    return "" if info is None else info.name
