"""What the quotas, LimitRanges and Pod Security of a namespace would refuse is reported in advance."""

import pickle

import pytest

from deployment_manifest import deployment
from mooring.advisor.explain import explain
from mooring.advisor.lint.facts import facts_of
from mooring.advisor.simulate import Add, Remove, Scenario, Step, simulate
from mooring.advisor.simulate.manifests import read_objects
from mooring.advisor.snapshot import Snapshot
from mooring.api.meta_v1 import Resource
from mooring.testing import builders

pytestmark = [pytest.mark.req("X.10"), pytest.mark.req("S.5")]

QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: default}
spec: {hard: {pods: "3"}}
status: {hard: {pods: "3"}, used: {pods: "1"}}
"""
UNCOUNTED = QUOTA[: QUOTA.index("status")]
LIMITS = """
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: default}
spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: "1"}, defaultRequest: {cpu: "1"}}]}
"""
RESTRICTED = """
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: restricted}}
"""
FULL = "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"


def objects(text: str) -> tuple[Resource, ...]:
    return read_objects(text, "test.yaml")


def cluster(*texts: str) -> Snapshot:
    rules = [obj for text in texts for obj in objects(text)]
    return Snapshot("a test", [*(builders.node(f"n{number}", cpu="8") for number in range(2)), *rules])


def workload(replicas: int = 5, cpu: str = "100m") -> Resource:
    return objects(deployment("web", replicas, f"{{cpu: {cpu}}}"))[0]


def test_a_simulation_creates_as_many_pods_as_a_quota_allows_and_says_why() -> None:
    result = simulate(cluster(QUOTA), Scenario((Step((Add((workload(),), None),)),)))
    assert result.counts.placed == 2
    assert FULL in str(result.rejected)


def test_pods_of_the_snapshot_count_where_usage_was_never_counted() -> None:
    there = builders.pod("there")
    snapshot = cluster(UNCOUNTED).replace(put=[there])
    result = simulate(snapshot, Scenario((Step((Add((workload(),), None),)),)))
    assert FULL in str(result.rejected)


def test_what_a_simulation_deletes_makes_room() -> None:
    steps = (
        Step((Add((workload(2),), None),)),
        Step((Remove("Deployment", "default", "web"),)),
        Step((Add(objects(deployment("other", 2)), None),)),
    )
    assert not simulate(cluster(QUOTA), Scenario(steps)).rejected


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (QUOTA.replace('used: {pods: "1"}', 'used: {pods: "3"}'), "quota few of namespace default is used up"),
        (LIMITS, "gives container c a cpu limit of 1, below its request of 2"),
        (RESTRICTED, 'Pod Security level "restricted:latest" of namespace default refuses the pod'),
    ],
    ids=["a quota", "a LimitRange", "a Pod Security level"],
)
def test_explain_names_what_refuses_the_next_pod_of_a_workload(rules: str, words: str) -> None:
    web = workload(cpu="2")
    found = explain(cluster(rules).replace(put=[web, builders.node("a")]), web)
    assert (found.state, words in found.summary) == ("NotCreated", True), found.summary


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (QUOTA, f'there is room for 2 of 5 pods: pods "web" is forbidden: {FULL}'),
        (LIMITS, "maximum cpu usage per Container is 1, but request is 2"),
        (RESTRICTED, 'violates PodSecurity "restricted:latest"'),
        (
            QUOTA.replace('pods: "3"', 'count/deployments.apps: "0"').replace(
                'pods: "1"', 'count/deployments.apps: "0"'
            ),
            'deployments.apps "web" is forbidden: exceeded quota: few',
        ),
    ],
    ids=["a quota", "a LimitRange", "a Pod Security level", "a quota of deployments"],
)
def test_lint_reports_what_the_namespace_refuses(rules: str, words: str) -> None:
    facts = pickle.loads(pickle.dumps(facts_of(cluster(rules))))  # as processes of the linter get them
    problems = list(facts.advise_on_object(workload(cpu="2")))
    assert any(words in problem.message for problem in problems), problems
    assert {problem.rule.id for problem in problems} == {"M037"}


def test_lint_says_nothing_where_there_is_room() -> None:
    assert list(facts_of(cluster(QUOTA, LIMITS)).advise_on_object(workload(2))) == []
