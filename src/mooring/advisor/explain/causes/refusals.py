"""Causes for pods that the API server refuses: quotas, limits, policies, webhooks, missing references.

`classify` parses the server's message, which is the same from an admission rule evaluated on a snapshot and from a
condition or event that a controller wrote.
"""

import re

from mooring.advisor.explain.results import Cause

_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<hard>.+)"
)
_QUOTA_NEEDS = re.compile(r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)")
_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<what>.+)', re.DOTALL)
_LIMIT = re.compile(
    r"is forbidden: \[?(?P<what>(?:minimum|maximum|max limit to request ratio|.+ max limit).+?)\]?$", re.DOTALL
)
_PRIORITY = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_ACCOUNT = re.compile(r'service ?account "?(?P<name>[^":]+)"? not found')
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<why>.+)', re.DOTALL)
_WEBHOOK_DENIED = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: ?(?P<why>.*)', re.DOTALL)
_POLICY = re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'.*? denied request: (?P<why>.+)", re.DOTALL)
_TERMINATING = re.compile(r"because it is being terminated")
_NO_NAMESPACE = re.compile(r'namespaces "(?P<name>[^"]+)" not found')
_RUNTIME_CLASS = re.compile(r'RuntimeClass(?:\.node\.k8s\.io)? "?(?P<name>[^" ]+)"? not found', re.IGNORECASE)
_FORBIDDEN = re.compile(r'^\S+ "[^"]*" is (?:forbidden|invalid): ', re.DOTALL)


def classify(message: str, namespace: str = "") -> Cause:
    """Return the cause that a refusal message of the API server states; code `Refused` for an unknown message."""
    where = f" of namespace {namespace}" if namespace else ""
    if found := _QUOTA.search(message):
        text = (
            f"quota {found['name']}{where} is used up: {found['used']} of {found['hard']} is used,"
            f" one more pod needs {found['asked']}"
        )
        return Cause("QuotaExceeded", text)
    if found := _QUOTA_NEEDS.search(message):
        text = f"quota {found['name']}{where} admits only pods that specify {found['what']}"
        return Cause("QuotaNeedsRequests", text)
    if found := _SECURITY.search(message):
        text = f'Pod Security level "{found["level"]}"{where} refuses the pod: {found["what"]}'
        return Cause("PodSecurity", text)
    if found := _PRIORITY.search(message):
        return Cause("MissingPriorityClass", f"PriorityClass {found['name']} does not exist")
    if found := _ACCOUNT.search(message):
        return Cause("MissingServiceAccount", f"ServiceAccount {found['name']}{where} does not exist")
    if found := _WEBHOOK_DOWN.search(message):
        text = f"webhook {found['name']} does not answer, and its failurePolicy refuses the pod: {found['why']}"
        return Cause("WebhookDown", text)
    if found := _WEBHOOK_DENIED.search(message):
        return Cause("WebhookDenied", f"webhook {found['name']} denies the pod: {found['why']}")
    if found := _POLICY.search(message):
        return Cause("PolicyDenied", f"policy {found['name']} denies the pod: {found['why']}")
    if _TERMINATING.search(message):
        return Cause("NamespaceTerminating", f"the namespace {namespace} is being deleted: it takes no new pods")
    if found := _NO_NAMESPACE.search(message):
        return Cause("MissingNamespace", f"the namespace {found['name']} does not exist")
    if found := _RUNTIME_CLASS.search(message):
        return Cause("MissingRuntimeClass", f"RuntimeClass {found['name']} does not exist")
    if found := _LIMIT.search(message):
        return Cause("LimitRange", f"a LimitRange{where} refuses the pod: {found['what']}")
    return Cause("Refused", f"the API server refuses the pod: {_FORBIDDEN.sub('', message)}")
