"""Audit the objects of any cluster for an upgrade or downgrade between two releases of Kubernetes.

    auditor    an audit from end to end
    options    two releases compared
    fields     fields and values of objects
    checks     API versions, annotations, webhooks, expressions
    rights     RBAC rules that match nothing
    clients    audit logs and metrics of clients
    steps      the steps to take, in order
    results    the typed result
    reports    text, lint reports and baselines
    single     manifests for one release

The contents of a release are in the history of the API (``mooring.api.history``). Read next: ``auditor.py``. The page
for users is ``docs/upgrade.md``.
"""

from mooring.advisor.releases.auditor import audit
from mooring.advisor.releases.options import Crossing, CrossingError
from mooring.advisor.releases.results import Effect, Finding, ReleaseAudit

__all__ = ["Crossing", "CrossingError", "Effect", "Finding", "ReleaseAudit", "audit"]
