"""`mooring lint`: what an API server of a given version would answer to manifests, and advice that it does not give.

    runner       all files of a run          sources, documents    files, and the documents in them
    linter       one document                positions             where a field stands
    server       what the server answers     options               by which versions, gates and nodes
    advice       what it does not say        expressions, guards, small_models, terms, cluster
    rules, findings, reports                 what is found, and how it is written

Read next: ``linter.py``. The rules are in ``docs/lint.md``.
"""

from mooring.advisor.lint.cluster import NodesError, read_nodes
from mooring.advisor.lint.findings import Finding, Report
from mooring.advisor.lint.linter import Linter
from mooring.advisor.lint.options import Settings
from mooring.advisor.lint.rules import RULES, Rule, Severity

__all__ = ["RULES", "Finding", "Linter", "NodesError", "Report", "Rule", "Settings", "Severity", "read_nodes"]
