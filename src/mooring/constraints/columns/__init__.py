"""Evaluate node selectors and tolerations for all nodes at once, over dictionary-encoded columns.

A node is a row; the owner (the scheduler's columns) assigns the rows. Each distinct value, label set or taint is passed
once to the functions for a single object (`node_selector`, `tolerations`), and the verdict is gathered for all rows.
Verdicts are cached; when nodes change, only their rows are gathered again. A live scheduler sets a `Deadline`, so that
a pod with expensive conditions is evaluated in several short steps.

    nodes ──put──► labels.LabelColumns ──┐
                   taints.TaintColumns ──┴── column.Column (codes) ── column.RowVerdicts (table by code, gathered)

``revisions.py`` has the change logs of these columns and the scheduler's. Read next: ``column.py``.
"""

from mooring.constraints.columns.column import Deadline, UnfinishedError
from mooring.constraints.columns.labels import LabelColumns
from mooring.constraints.columns.taints import NO_NODE, TOLERATED, TaintColumns

__all__ = ["NO_NODE", "TOLERATED", "Deadline", "LabelColumns", "TaintColumns", "UnfinishedError"]
