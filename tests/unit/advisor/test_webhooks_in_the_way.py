"""Webhooks of a cluster in advice: those that a server would ask are named, and never called."""

from typing import Any

import pytest

from mooring.advisor.policies import PolicyEvaluator
from mooring.api.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from mooring.api.core_v1 import ConfigMap, Namespace, Pod
from mooring.api.meta_v1 import Resource
from mooring.testing.builders import made

pytestmark = pytest.mark.req("X.9")
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}


def configured(kind: type[Resource], name: str, **webhook: Any) -> Resource:
    hook = {"name": f"{name}.example.com", "clientConfig": {"url": "https://127.0.0.1:1"}, "rules": [PODS], **webhook}
    return made(kind, {"metadata": {"name": name}, "webhooks": [hook]})


def written(kind: str, name: str, namespace: str) -> Resource:
    tree = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
    return made(Pod, tree) if kind == "Pod" else made(ConfigMap, tree)


CLUSTER = [
    made(Namespace, {"metadata": {"name": "shop", "labels": {"team": "a"}}}),
    configured(MutatingWebhookConfiguration, "sidecars", failurePolicy="Ignore"),
    configured(ValidatingWebhookConfiguration, "owners", namespaceSelector={"matchLabels": {"team": "a"}}),
    configured(ValidatingWebhookConfiguration, "others", namespaceSelector={"matchLabels": {"team": "b"}}),
    configured(
        ValidatingWebhookConfiguration,
        "named",
        matchConditions=[{"name": "c", "expression": "object.metadata.name == 'web'"}],
    ),
]


def test_those_that_would_be_asked_are_named_with_what_their_absence_means() -> None:
    assert PolicyEvaluator(CLUSTER).verdict(written("Pod", "web", "shop")).webhooks == [
        'webhook "sidecars.example.com" of MutatingWebhookConfiguration "sidecars" (without it the write passes)',
        'webhook "named.example.com" of ValidatingWebhookConfiguration "named" (without it the write is refused)',
        'webhook "owners.example.com" of ValidatingWebhookConfiguration "owners" (without it the write is refused)',
    ]


def test_of_other_objects_and_namespaces_nothing_is_said() -> None:
    evaluator = PolicyEvaluator(CLUSTER)
    assert evaluator.verdict(written("ConfigMap", "web", "shop")).webhooks == []
    elsewhere = evaluator.verdict(written("Pod", "x", "other")).webhooks
    assert [each.split('"')[1] for each in elsewhere] == ["sidecars.example.com"]


def test_without_webhooks_and_policies_there_is_nothing_to_evaluate() -> None:
    assert PolicyEvaluator(CLUSTER[:1]).is_idle
    assert not PolicyEvaluator(CLUSTER[:2]).is_idle
