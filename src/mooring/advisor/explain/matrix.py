"""A table of nodes and plugins: the verdict of every plugin on each node with the compared values, and scores.

An explanation names the first plugin that rejects a node; this table shows all of them. The dashboard requests a few
dozen nodes at a time. Read next: ``explanation.py``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np

from mooring.advisor.explain.reasons import describe
from mooring.advisor.explain.results import NodeScore, Result
from mooring.advisor.explain.subject import Subject, set_fields
from mooring.advisor.explain.view import View
from mooring.api.core_v1 import Pod
from mooring.base.natural_sort import natural_key
from mooring.scheduler.facade import ExplainEngine, PodEvaluation
from mooring.scheduler.framework import SchedulerFeatures


class NodeRow(Result, frozen=True, kw_only=True):
    """The verdicts and scores of all plugins for one node."""

    node: str
    feasible: bool
    refusals: dict[str, str]
    """By plugin name, why it rejects the node."""
    scores: dict[str, int]
    """By plugin name, the weighted score; only for feasible nodes."""
    total: int


class Matrix(Result, frozen=True, kw_only=True):
    """One page of a table with a row for each node; feasible nodes come first, by descending score."""

    filters: list[str]
    """The plugins that reject at least one node."""
    scores: list[str]
    """The plugins that score nodes."""
    feasible: int
    nodes: int
    """The total number of nodes that match the query."""
    rows: list[NodeRow]


def build_matrix(
    engine: ExplainEngine, subject: Subject, features: SchedulerFeatures, *, part: slice, name: str, plugin: str
) -> Matrix:
    """Return one page: the nodes whose name has `name` and which `plugin`, if not empty, is the first to reject."""
    with _pod_without_node(engine, subject) as free:
        pod = free.pod
        judgement, diagnosis = engine.evaluate_pod(pod, needs_points=True)
        statuses = diagnosis.statuses()
        wanted = [
            each
            for each in _rank_nodes(engine, judgement)
            if name in each and (not plugin or (each in statuses and statuses[each].plugin == plugin))
        ]
        view = View(engine, free, features)
        rows = [_node_row(engine, view, judgement, each) for each in wanted[part]]
        return Matrix(
            filters=[each for each, (for_now, for_good) in judgement.rejected.items() if for_now + for_good],
            scores=[slot.name for slot in judgement.scores],
            feasible=judgement.number_feasible,
            nodes=len(wanted),
            rows=rows,
        )


@contextmanager
def _pod_without_node(engine: ExplainEngine, subject: Subject) -> Iterator[Subject]:
    pod = subject.pod
    with engine.cluster.trial(remove=[pod]) if pod.spec.node_name else nullcontext():
        open_ = Subject(pod, pod).with_edited_pod(set_fields(node_name="")) if pod.spec.node_name else subject
        yield open_ or subject


def _rank_nodes(engine: ExplainEngine, judgement: PodEvaluation) -> Sequence[str]:
    rows = np.flatnonzero(judgement.feasible)
    points = sum((points[rows] for points in judgement.points.values()), np.zeros(len(rows), np.int64))
    totals = dict(zip(rows.tolist(), points.tolist(), strict=True))
    infos = sorted(engine.cluster.node_infos(), key=lambda info: natural_key(info.name))
    feasible = sorted((info for info in infos if info.row in totals), key=lambda info: -totals[info.row])
    return [info.name for info in (*feasible, *(info for info in infos if info.row not in totals))]


def _node_row(engine: ExplainEngine, view: View, judgement: PodEvaluation, name: str) -> NodeRow:
    info = view.info(name)
    statuses, _ = engine.find_rejections_on(view.pod, name)
    refusals = {status.plugin: describe(view, [info], status)[0][0] for status in statuses}
    scores = {} if statuses else _plugin_scores(judgement, info.row)
    return NodeRow(node=name, feasible=not statuses, refusals=refusals, scores=scores, total=sum(scores.values()))


def score_nodes(engine: ExplainEngine, pod: Pod, chosen: str, wanted: int) -> list[NodeScore]:
    """Return the scores of the chosen node, then of up to `wanted` best others; infeasible nodes are left out."""
    judgement, _ = engine.evaluate_pod(pod, needs_points=True)
    feasible = _rank_nodes(engine, judgement)[: judgement.number_feasible]
    rivals = [name for name in feasible if name != chosen][:wanted]
    found = []
    for name in [*([chosen] if chosen in feasible else []), *rivals]:
        points = _plugin_scores(judgement, engine.cluster.row_of[name])
        found.append(NodeScore(node=name, total=sum(points.values()), scores=points))
    return found


def _plugin_scores(judgement: PodEvaluation, row: int) -> dict[str, int]:
    return {plugin: int(points[row]) for plugin, points in judgement.points.items()}
