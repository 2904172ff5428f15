"""Evaluate admission policies without a server: for files (`mooring policy test`), and in other advice about a cluster.

`PolicyEvaluator` evaluates the policies of a snapshot for an object, with the server's functions. Read next:
``evaluation.py``.
"""

from mooring.advisor.policies.evaluation import PolicyEvaluator, Verdict, policies_of

__all__ = ["PolicyEvaluator", "Verdict", "policies_of"]
