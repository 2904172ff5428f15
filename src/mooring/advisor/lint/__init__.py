"""`mooring lint`: report how an API server of a given version would respond to manifests, and give further advice.

    runner               all files of a run
    sources, documents   files, and the documents in them
    linter               one document
    positions            line and column of a field
    server               the server's errors and warnings
    options              the versions, gates and nodes to lint for
    advice               problems that the server does not report
    expressions, guards, small_models, terms, cluster   the checks behind the advice
    rules, reports       the rules and findings, and their formats

Read next: ``linter.py``. The rules are in ``docs/lint.md``.
"""

from mooring.advisor.lint.cluster import NodesError, read_nodes
from mooring.advisor.lint.linter import Linter
from mooring.advisor.lint.options import Settings
from mooring.advisor.lint.rules import RULES, Finding, Report, Rule, Severity

__all__ = ["RULES", "Finding", "Linter", "NodesError", "Report", "Rule", "Settings", "Severity", "read_nodes"]
