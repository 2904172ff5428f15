"""Pods whose spec was found sound before are still judged by all that is not in the spec, and by the rules of today."""

from dataclasses import dataclass, field

import pytest

from admission_pods import OFF, ON, Tree, create_problems, pod_of, toleration
from mooring.admission.options import AdmissionOptions

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
EPHEMERAL = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]}
COMPARING = toleration(key="sla", operator="Gt", value="950")


@dataclass(frozen=True)
class Case:
    name: str
    spec: Tree
    refused_for: str
    """What the second pod is refused for: the field; empty if it is not."""
    second_spec: Tree | None = None
    second_metadata: Tree = field(default_factory=dict)
    second_options: AdmissionOptions = ON


CASES = [
    Case("the same spec under another name", {}, "", second_metadata={"name": "q"}),
    Case("the same spec with wrong metadata", {}, "metadata.name", second_metadata={"name": "Q"}),
    Case("a spec that differs in one field", {}, "spec.restartPolicy", second_spec={"restartPolicy": "Maybe"}),
    Case("a claim named after the pod", EPHEMERAL, "spec.volumes[0].name", second_metadata={"name": "p" * 252}),
    Case("a gate that is off", COMPARING, "spec.tolerations[0].operator", second_options=OFF),
]


@pytest.mark.req("5471.3a")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_after_a_sound_one(case: Case) -> None:
    assert create_problems(pod_of(case.spec)) == []
    second = pod_of(case.spec if case.second_spec is None else case.second_spec, case.second_metadata)
    problems = create_problems(second, case.second_options)
    assert [problem.partition(":")[0] for problem in problems] == ([case.refused_for] if case.refused_for else [])


def test_a_wrong_spec_is_refused_each_time() -> None:
    wrong = {"restartPolicy": "Maybe"}
    assert create_problems(pod_of(wrong)) == create_problems(pod_of(wrong)) != []
