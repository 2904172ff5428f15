"""What manifests of charts and operators have in common, and what must not be taken for a problem between releases.

``tests/real/test_public_manifests.py`` reads the manifests of many projects; these are their habits, written by hand.
"""

import pytest

from mooring.advisor import releases
from mooring.advisor.lint.rules import Severity
from release_objects import POD_SPEC, Tree, between, obj, snapshot

HABITS: dict[str, Tree] = {
    "a custom kind with the name of a built-in one": obj(
        "serving.knative.dev/v1", "Service", stored=False,
        spec={"template": {"spec": {"containerConcurrency": 1, "hostnameOverride": 1, "containers": [{"image": "x"}]}}},
    ),
    "a custom kind in a group that ends like Kubernetes' own": obj(
        "jobset.x-k8s.io/v1alpha2", "JobSet", stored=False, spec={"replicatedJobs": [{"name": "a", "resizePolicy": 1}]},
    ),
    "an annotation for old releases beside the field for new ones": obj(
        "apps/v1", "DaemonSet", stored=False,
        spec={
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {
                    "labels": {"app": "a"},
                    "annotations": {"container.apparmor.security.beta.kubernetes.io/web": "unconfined"},
                },
                "spec": {**POD_SPEC, "securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            },
        },
    ),
    "rights to pods/exec for those who create it": obj(
        "rbac.authorization.k8s.io/v1", "Role", stored=False,
        rules=[{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
               {"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get", "list"]}],
    ),
    "rights to what is long gone, for clusters that have it": obj(
        "rbac.authorization.k8s.io/v1", "ClusterRole", stored=False,
        rules=[{"apiGroups": ["extensions", "policy"], "resources": ["ingresses", "podsecuritypolicies"],
                "verbs": ["get", "use"]}],
    ),
    "rights to everything": obj(
        "rbac.authorization.k8s.io/v1", "ClusterRole", stored=False,
        rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    ),
    "a strict webhook for a custom kind": obj(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", stored=False,
        webhooks=[{
            "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "w", "namespace": "w"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1beta1"], "operations": ["*"],
                       "resources": ["widgets"]}],
        }],
    ),
    "a definition with rules that all releases understand": obj(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", stored=False, metadata={"name": "widgets.example.com"},
        spec={
            "group": "example.com", "scope": "Namespaced", "preserveUnknownFields": False,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {
                    "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}}}}}}}],
        },
    ),
    "an APIService that nothing is known of": obj(
        "apiregistration.k8s.io/v1", "APIService", stored=False, metadata={"name": "v1beta1.metrics.k8s.io"},
        spec={"group": "metrics.k8s.io", "version": "v1beta1", "service": {"name": "m", "namespace": "m"},
              "groupPriorityMinimum": 100, "versionPriority": 100},
    ),
    "fields that are set to nothing": obj(
        "v1", "Pod", stored=False,
        spec={**POD_SPEC, "hostnameOverride": None, "resources": {}, "schedulingGates": []},
    ),
}  # fmt: skip
CLAIM = obj(
    "apps/v1", "StatefulSet", stored=False,
    spec={
        "selector": {"matchLabels": {"app": "a"}}, "serviceName": "a",
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": POD_SPEC},
        "volumeClaimTemplates": [{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    },
)  # fmt: skip


@pytest.mark.req("U.8")
@pytest.mark.parametrize(("start", "end"), [("1.29", "1.37"), ("1.34", "1.37"), ("1.37", "1.34"), ("1.37", "1.30")])
@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_a_habit_of_published_manifests_is_no_alarm(habit: Tree, start: str, end: str) -> None:
    found = releases.audit(snapshot(habit), between(start, end)).findings
    assert [each for each in found if each.level is not Severity.INFO] == []


@pytest.mark.req("U.8")
@pytest.mark.parametrize(("start", "end"), [("1.30", "1.28"), ("1.28", "1.30"), ("1.37", "1.29")])
def test_what_a_claim_asks_for_is_not_lost_when_its_type_gets_another_name(start: str, end: str) -> None:
    found = releases.audit(snapshot(CLAIM), between(start, end)).findings
    assert [each for each in found if each.level is not Severity.INFO] == []
