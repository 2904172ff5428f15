"""`mooring audit`: find what breaks when versions or gates change, and the steps to take, in order.

    auditor      an audit from end to end            options              the question, read into options
    outcomes     the effects on each object          admission_checks     gated uses, and the result of admission
    pods         evictions and placements            steps, rewriting     what to do, with patches
    results      the typed answer                    reports              the answer as text
    rehearsal    what happens on a copy

Read next: ``auditor.py``. The page for users is ``docs/audit.md``.
"""

from mooring.advisor.audit.auditor import audit
from mooring.advisor.audit.options import Question, QuestionError, ask
from mooring.advisor.audit.results import Audit, Effect, Finding

__all__ = ["Audit", "Effect", "Finding", "Question", "QuestionError", "ask", "audit"]
