"""What happens to the objects of any cluster when it goes from one release of Kubernetes to another, up or down.

    auditor      an audit from end to end             options      two releases compared
    fields       fields and values of objects         checks       API versions, annotations, webhooks, expressions
    rights       RBAC rules that name nothing         clients      audit logs and metrics of clients
    steps        what to do, in which order           results      the typed answer
    reports      text, lint reports and baselines     single       manifests for one release

What a release has is the history of the API (``mooring.api.history``). Read next: ``auditor.py``. The page for users is
``docs/upgrade.md``.
"""

from mooring.advisor.releases.auditor import audit
from mooring.advisor.releases.options import Crossing, CrossingError
from mooring.advisor.releases.results import Effect, Finding, ReleaseAudit

__all__ = ["Crossing", "CrossingError", "Effect", "Finding", "ReleaseAudit", "audit"]
