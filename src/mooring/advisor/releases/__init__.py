"""What happens to the objects of any cluster when it goes from one release of Kubernetes to another, up or down.

    auditor      an audit from end to end             options      two releases compared
    fields       fields and values of objects         kinds        API versions, and versions in the store
    rights       RBAC rules that name nothing         definitions  expressions of CRDs, policies, webhooks
    annotations  those that are deprecated
    bystanders   webhooks, APIServices, kubelets      steps        what to do, in which order
    results      the typed answer                     reports      how it is written, for people and for CI
    baseline     only what is new                     clients      who asked for what: audit logs and metrics

What a release has is the history of the API (``mooring.api.history``). Read next: ``auditor.py``. The page for users is
``docs/upgrade.md``.
"""

from mooring.advisor.releases.auditor import audit
from mooring.advisor.releases.options import Crossing, CrossingError
from mooring.advisor.releases.results import Effect, Finding, ReleaseAudit

__all__ = ["Crossing", "CrossingError", "Effect", "Finding", "ReleaseAudit", "audit"]
