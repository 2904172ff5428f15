"""`mooring plan`: what applying manifests would change, where the pods would go, and what would be refused.

    planning      the whole answer and its typed form        reports   text and Markdown

Read next: ``planning.py``. The page for users is ``docs/plan.md``.
"""

from mooring.advisor.plan.planning import DryRun, ObjectChange, Plan, ServerAnswer, plan

__all__ = ["DryRun", "ObjectChange", "Plan", "ServerAnswer", "plan"]
