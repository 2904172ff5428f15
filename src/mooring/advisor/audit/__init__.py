"""`mooring audit`: find objects that break when versions or gates change, and list the steps to take, in order.

    auditor             an audit from end to end
    options             the current and target flags, and what follows from them
    outcomes            the effects on each object
    admission_checks    uses of gated features, and the result of admission
    pods                evictions and placements
    steps, rewriting    the steps to take, with patches
    results             the typed result
    reports             the result as text
    rehearsal           run both sets of flags on copies and compare

Read next: ``auditor.py``. The page for users is ``docs/audit.md``.
"""

from mooring.advisor.audit.auditor import audit
from mooring.advisor.audit.options import Question, QuestionError, ask
from mooring.advisor.audit.results import Audit, Effect, Finding

__all__ = ["Audit", "Effect", "Finding", "Question", "QuestionError", "ask", "audit"]
