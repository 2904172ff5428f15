"""Manifests of operators, and what charts were rendered to, that others publish give no false alarms.

MOORING_MANIFESTS names a folder with checked-out manifests, in a folder for each project. docs/decisions/api-history.md
has the projects, commits and folders that were read. What is found there was checked by hand, and is true.
"""

import os
import re
from functools import cache
from pathlib import Path

import pytest

from mooring.advisor import releases
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases import Crossing
from mooring.advisor.snapshot import dump

FOLDER = os.environ.get("MOORING_MANIFESTS", "")
PROJECTS = sorted(Path(FOLDER).iterdir()) if FOLDER else [Path("a project")]
published = cache(lambda project: dump([project]))
GONE = {
    "R001 admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration apiVersion",  # removed in 1.22; patches
    "R001 admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration apiVersion",
    "R001 policy/v1beta1 PodDisruptionBudget apiVersion",  # removed in 1.25; for old clusters, beside others
    "R001 policy/v1beta1 PodSecurityPolicy apiVersion",  # removed in 1.25
    "R001 scheduling.k8s.io/v1alpha2 PodGroup apiVersion",  # an alpha version of 1.36 alone
    "R001 scheduling.k8s.io/v1alpha2 Workload apiVersion",
}
STREAMS = {  # they may get pods/exec and not create it, which is not enough from 1.35 on
    "R027 rbac.authorization.k8s.io/v1 ClusterRole rules[].verbs",
    "R027 rbac.authorization.k8s.io/v1 Role rules[].verbs",
}
APP_ARMOR = {  # which has been a field since 1.30
    f"R025 apps/v1 DaemonSet spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/{name}]"
    for name in ("apply-sysctl-overwrites", "cilium-agent", "clean-cilium-state", "install-cni", "mount-cgroup")
}
ALPHA = {each.replace("R001", "R023") for each in GONE if "alpha" in each}  # which 1.36 can be configured to serve
NEWER = {  # written for releases that have them
    "R020 rbac.authorization.k8s.io/v1 ClusterRole rules[].resources",
    "R001 admissionregistration.k8s.io/v1 MutatingAdmissionPolicy apiVersion",
    "R001 admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding apiVersion",
    "R005 resource.k8s.io/v1 ResourceClaimTemplate spec.spec.devices.requests[].exactly.capacity",
    "R005 storage.k8s.io/v1 CSIDriver spec.nodeAllocatableUpdatePeriodSeconds",
}
PAIRS = [
    ("1.29", "1.37", GONE | STREAMS | APP_ARMOR),
    ("1.36", "1.37", GONE),
    ("1.37", "1.36", GONE | ALPHA),
    ("1.37", "1.34", GONE | NEWER),
]


@pytest.mark.req("U.8")
@pytest.mark.skipif(not FOLDER, reason="MOORING_MANIFESTS does not name a folder with manifests of others")
@pytest.mark.parametrize(("start", "end", "true"), PAIRS)
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_what_is_reported_about_published_manifests_is_true(
    project: Path, start: str, end: str, true: set[str]
) -> None:
    found = releases.audit(published(project), Crossing.between(start, end)).findings
    reported = {
        f"{each.rule.id} {each.object.api_version} {each.object.kind} {re.sub(r'[0-9]+', '', each.field)}"
        for each in found
        if each.level is not Severity.INFO
    }
    assert reported - true == set()
