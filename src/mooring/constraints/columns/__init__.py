"""The second form of the same semantics: all nodes at once, over dictionary-encoded columns.

A node is a row; the owner (the scheduler's columns) hands out the rows. Nothing here knows an operator: each distinct
value, label set or taint is shown once to the functions that judge one object at a time (`node_selector`,
`tolerations`), and the verdict is gathered for all rows. Verdicts are kept; when nodes change, only their rows are
judged again.

    nodes ──put──► labels.LabelColumns ──┐
                   taints.TaintColumns ──┼── column.Column (codes) ── column.JudgedRows (table by code, gathered by row)

``revisions.py`` has the words for what has changed, for these columns and the scheduler's. Read next: ``column.py``.
"""

from mooring.constraints.columns.labels import LabelColumns
from mooring.constraints.columns.taints import NO_NODE, TOLERATED, TaintColumns

__all__ = ["NO_NODE", "TOLERATED", "LabelColumns", "TaintColumns"]
