"""`mooring plan`: predict the effect of applying manifests: changed objects, placements of pods, and refused writes.

    planning   the plan and its typed form
    reports    text and Markdown

Read next: ``planning.py``. The page for users is ``docs/plan.md``.
"""

from mooring.advisor.plan.planning import DryRun, ObjectChange, Plan, ServerAnswer, plan

__all__ = ["DryRun", "ObjectChange", "Plan", "ServerAnswer", "plan"]
