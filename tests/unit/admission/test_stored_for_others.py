"""Kinds that Mooring stores for others to work on: what may change later. What may be created is in the recordings."""

import pytest

from admission_kinds import Update, shortened

pytestmark = pytest.mark.req("N.10")
IMMUTABLE = "field is immutable"
TRUE = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""}

UPDATES = [
    Update(
        "the controller of a class",
        "IngressClass",
        {},
        {"spec": {"controller": "example.com/other"}},
        [f'spec.controller: Invalid value: "example.com/other": {IMMUTABLE}'],
    ),
    Update("a second family", "ServiceCIDR", {}, {"spec": {"cidrs": ["10.96.0.0/24", "fd00::/112"]}}),
    Update(
        "another network",
        "ServiceCIDR",
        {},
        {"spec": {"cidrs": ["10.97.0.0/24"]}},
        [f'spec.cidrs[0]: Invalid value: "10.97.0.0/24": {IMMUTABLE}'],
    ),
    Update(
        "one network less",
        "ServiceCIDR",
        {"spec": {"cidrs": ["10.96.0.0/24", "fd00::/112"]}},
        {"spec": {"cidrs": ["10.96.0.0/24"]}},
        [f'spec.cidrs: Invalid value: ["10.96.0.0/24"]: {IMMUTABLE}'],
    ),
    Update(
        "whom an address belongs to",
        "IPAddress",
        {},
        {"spec": {"parentRef": {"name": "other"}}},
        [f"spec.parentRef: Invalid value: …: {IMMUTABLE}"],
    ),
    Update(
        "the handler of a class",
        "RuntimeClass",
        {},
        {"handler": "gvisor"},
        [f'handler: Invalid value: "gvisor": {IMMUTABLE}'],
    ),
    Update(
        "what is migrated",
        "StorageVersionMigration",
        {},
        {"spec": {"resource": {"resource": "replicasets"}}},
        [f"spec: Invalid value: …: {IMMUTABLE}"],
    ),
    Update(
        "a migration that succeeded and failed",
        "StorageVersionMigration",
        {},
        {"status": {"conditions": [{"type": "Succeeded", **TRUE}, {"type": "Failed", **TRUE}]}},
        ["status.conditions: Invalid value: …: Both success and failed conditions cannot be true at the same time"],
        subresource="status",
    ),
    Update(
        "a migration that has not succeeded after all",
        "StorageVersionMigration",
        {},
        {"status": {"conditions": [{"type": "Succeeded", **TRUE, "status": "False"}], "resourceVersion": "8"}},
        [
            'status.resourceVersion: Invalid value: "8": field is immutable',
            "status.conditions: Invalid value: …: Success condition cannot be set to false once it is true",
        ],
        status={"conditions": [{"type": "Succeeded", **TRUE}], "resourceVersion": "7"},
        subresource="status",
    ),
    Update(
        "what a certificate is asked for",
        "PodCertificateRequest",
        {},
        {"spec": {"podName": "other"}},
        [f"spec: Invalid value: …: {IMMUTABLE}"],
    ),
    Update(
        "a request that is denied with a certificate",
        "PodCertificateRequest",
        {},
        {"status": {"conditions": [{"type": "Denied", **TRUE}], "certificateChain": "x"}},
        [
            (
                "status: Invalid value: …: "
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            )
        ],
        subresource="status",
    ),
    Update(
        "an answer to a request that has one",
        "PodCertificateRequest",
        {},
        {"status": {"conditions": [{"type": "Failed", **TRUE}]}},
        ["status: Invalid value: …: immutable after PodCertificateRequest is issued, denied, or failed"],
        status={"conditions": [{"type": "Denied", **TRUE}]},
        subresource="status",
    ),
    Update(
        "a certificate that is none",
        "PodCertificateRequest",
        {},
        {"status": {"conditions": [{"type": "Issued", **TRUE}], "certificateChain": "x"}},
        ['status.certificateChain: Invalid value: "x": issued certificate chain must contain at least one certificate'],
        subresource="status",
    ),
    Update(
        "counts below zero",
        "HorizontalPodAutoscaler",
        {},
        {"status": {"currentReplicas": -1, "desiredReplicas": -1}},
        [
            "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
        ],
        subresource="status",
    ),
    Update(
        "a way in that is no address",
        "Ingress",
        {},
        {"status": {"loadBalancer": {"ingress": [{"ip": "x"}, {"hostname": "10.0.0.1"}]}}},
        [
            "status.loadBalancer.ingress[0].ip: Invalid value: …",
            'status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
        ],
        subresource="status",
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_what_may_change(case: Update) -> None:
    assert shortened(case.validate(), case.problems) == case.problems
