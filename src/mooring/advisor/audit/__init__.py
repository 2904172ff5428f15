"""`mooring audit`: find what breaks when versions or gates change, and the steps to take, in order.

    auditor      an audit from end to end            options              the question, read into options
    uses         gated uses of an object             admission_checks     the result of admission
    outcomes     what would happen to it             pods, served, made   evictions, placements, API versions, templates
    steps        what to do                          rewriting            the same pods without gated features
    results      the typed answer                    reports              how it is written
    rehearsal    what really happens on a copy

Read next: ``auditor.py``. The page for users is ``docs/audit.md``.
"""

from mooring.advisor.audit.auditor import audit
from mooring.advisor.audit.options import Question, QuestionError, ask
from mooring.advisor.audit.results import Audit, Effect, Finding

__all__ = ["Audit", "Effect", "Finding", "Question", "QuestionError", "ask", "audit"]
