"""Rights, expressions and annotations between two releases of Kubernetes."""

from typing import Any

import pytest

from mooring.advisor.releases import Effect
from release_objects import POD_SPEC, Tree, found, obj

Case = tuple[str, str, Tree, Effect | None, str]
SEMVER = "semver(object.metadata.name).major() > 1"


def role(*rules: tuple[str, str, str]) -> Tree:
    """Each rule: group, resources and verbs, with blanks between."""
    made = [
        {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
        for group, resources, verbs in rules
    ]
    return obj("rbac.authorization.k8s.io/v1", "ClusterRole", rules=made)


def policy(expression: str, **rest: Any) -> Tree:
    constraints = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    }
    spec = {"matchConstraints": constraints, "validations": [{"expression": expression}], **rest}
    return obj("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", spec=spec)


def webhook(expression: str) -> Tree:
    made = {
        "name": "w.example.com",
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "c", "expression": expression}],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    return obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[made])


def annotated(kind: str, api_version: str, key: str, spec: Any = None) -> Tree:
    return obj(api_version, kind, metadata={"annotations": {key: "some"}}, spec=spec or {})


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/web"
CASES: dict[str, Case] = {
    "a verb that only the newer release asks about gives no right": (
        "1.36", "1.35", role(("", "users", "impersonate:user-info")), Effect.RIGHTS_TO_NOTHING, "no verb impersonate:",
    ),
    "so does one for what may be done as another": (
        "1.37", "1.34", role(("", "pods", "impersonate-on:user-info:get")), Effect.RIGHTS_TO_NOTHING,
        "no verb impersonate-on:",
    ),
    "plain impersonation is asked about everywhere": ("1.37", "1.29", role(("", "users", "impersonate")), None, ""),
    "the audience of a token is asked about since 1.33": (
        "1.33", "1.32", role(("", "serviceaccounts", "request-serviceaccounts-token-audience")),
        Effect.RIGHTS_TO_NOTHING, "request-serviceaccounts-token-audience",
    ),
    "what kubelets ask about in detail is asked about since 1.33": (
        "1.33", "1.32", role(("", "nodes/configz", "get")), Effect.RIGHTS_TO_NOTHING, "1.32 has no nodes/configz",
    ),
    "who may use the whole proxy needs no part of it": (
        "1.33", "1.32", role(("", "nodes/configz", "get"), ("", "nodes/proxy", "get")), None, "",
    ),
    "both have it": ("1.37", "1.34", role(("", "nodes/configz", "get")), None, ""),
    "to get a stream is not enough from 1.35 on": (
        "1.34", "1.35", role(("", "pods/exec", "get")), Effect.RIGHTS_MISSING, "create of pods/exec as well",
    ),
    "to create it is": ("1.34", "1.35", role(("", "pods/exec", "get create")), None, ""),
    "another rule may give it": (
        "1.34", "1.35", role(("", "pods/exec pods/log", "get"), ("", "*/exec", "create")), None, "",
    ),
    "every verb may give it": ("1.34", "1.35", role(("", "pods/exec", "get"), ("*", "*", "*")), None, ""),
    "on the way down it is enough again": ("1.35", "1.34", role(("", "pods/exec", "get")), None, ""),
    "where it was asked for before nothing changes": ("1.35", "1.37", role(("", "pods/exec", "get")), None, ""),
    "a driver that writes the status of claims needs one right more": (
        "1.35", "1.36", role(("resource.k8s.io", "resourceclaims/status", "update")),
        Effect.RIGHTS_MISSING, "resourceclaims/binding or resourceclaims/driver",
    ),
    "a right that is limited to its node is enough": (
        "1.35", "1.36",
        role(("resource.k8s.io", "resourceclaims/status", "update"),
             ("resource.k8s.io", "resourceclaims/driver", "associated-node:update")), None, "",
    ),
    "a policy with a library that is not there refuses everything": (
        "1.33", "1.32", policy(SEMVER), Effect.RULE_REFUSED, "all that the policy is asked about is refused",
    ),
    "a variable of a policy is looked at too": (
        "1.33", "1.31", policy("true", variables=[{"name": "v", "expression": SEMVER}]),
        Effect.RULE_REFUSED, "does not understand it",
    ),
    "a policy that both understand is fine": ("1.37", "1.33", policy(SEMVER), None, ""),
    "a policy that neither understands is no matter of releases": ("1.31", "1.30", policy(SEMVER), None, ""),
    "a webhook's condition with a library that is not there stops requests": (
        "1.31", "1.28", webhook("isIP(object.metadata.name)"), Effect.RULE_REFUSED, "the webhook would be asked about",
    ),
    "an annotation is told where it becomes deprecated": (
        "1.29", "1.30", annotated("Pod", "v1", APP_ARMOR), Effect.DEPRECATED, "is deprecated from 1.30 on; use",
    ),
    "that of a template too": (
        "1.29", "1.37",
        obj("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": {
            "metadata": {"annotations": {APP_ARMOR: "runtime/default"}}, "spec": POD_SPEC}}}}),
        Effect.DEPRECATED, "appArmorProfile",
    ),
    "one beside the field that replaces it is for older releases": (
        "1.29", "1.30",
        annotated("Pod", "v1", APP_ARMOR, {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}),
        None, "",
    ),
    "it is not deprecated there": ("1.31", "1.29", annotated("Pod", "v1", APP_ARMOR), None, ""),
    "one that does nothing any more is told": (
        "1.29", "1.30", annotated("Pod", "v1", "seccomp.security.alpha.kubernetes.io/pod"),
        Effect.DEPRECATED, "does nothing from 1.27 on",
    ),
    "the class of an Ingress has a field": (
        "1.36", "1.37", annotated("Ingress", "networking.k8s.io/v1", "kubernetes.io/ingress.class"),
        Effect.DEPRECATED, "spec.ingressClassName",
    ),
    "options of mounts have one as well": (
        "1.30", "1.31", annotated("PersistentVolume", "v1", "volume.beta.kubernetes.io/mount-options"),
        Effect.DEPRECATED, "spec.mountOptions",
    ),
    "an annotation of somebody else is nobody's business": (
        "1.29", "1.37", annotated("Pod", "v1", "example.com/seccomp"), None, "",
    ),
}  # fmt: skip


@pytest.mark.req("U.2")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_findings(case: Case) -> None:
    start, end, tree, effect, text = case
    findings = found(start, end, tree)
    assert [each.effect for each in findings] == ([effect] if effect else [])
    assert text in "".join(each.message for each in findings)


@pytest.mark.req("U.2")
@pytest.mark.parametrize(("start", "severity"), [("1.29", "warning"), ("1.31", "info")])
def test_what_was_deprecated_before_is_only_an_info(start: str, severity: str) -> None:
    (finding,) = found(start, "1.37", annotated("Pod", "v1", APP_ARMOR))
    assert finding.level.name.lower() == severity
