"""KubeSchedulerConfiguration files: what they mean, and the errors about mistakes in them."""

import re
from dataclasses import dataclass

import pytest

from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import SchedulerFeatures
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse
from mooring.scheduler.framework.registry import PluginError
from mooring.scheduler.running import options
from mooring.scheduler.running.options import SchedulerConfigError
from scheduler_objects import node, pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_an_empty_configuration_is_the_default_scheduler() -> None:
    found = options.read(HEAD)
    assert [profile.scheduler_name for profile in found.profiles] == ["default-scheduler"]
    assert found.profiles[0].plugins == DEFAULT_PLUGINS
    assert not found.leader_election.enabled


def test_everything_that_has_an_effect_is_read() -> None:
    found = options.read(
        HEAD
        + """
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
percentageOfNodesToScore: 50
leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 10s, retryPeriod: 500ms, resourceName: mine}
clientConnection: {kubeconfig: /etc/k}
profiles:
- schedulerName: packing
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 9}, {name: Mine, weight: 4}]}
    preScore: {disabled: [{name: PodTopologySpread}]}
    score: {disabled: [{name: InterPodAffinity}], enabled: [{name: NodeResourcesFit, weight: 5}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
- schedulerName: other
"""
    )
    packing = found.profiles[0]
    assert (found.backoffs.initial, found.backoffs.maximum) == (2.0, 30.0)
    assert (found.leader_election.enabled, found.leader_election.name) == (True, "mine")
    assert (found.leader_election.times.duration, found.leader_election.times.retry_period) == (90.0, 0.5)
    assert found.kubeconfig == "/etc/k"
    assert [profile.scheduler_name for profile in found.profiles] == ["packing", "other"]
    assert "ImageLocality" not in [use.name for use in packing.plugins]
    assert packing.plugins[-1] == PluginUse("Mine", 4)
    assert PluginUse("NodeAffinity", 9) in packing.plugins
    assert packing.disabled == {"score": {"InterPodAffinity", "PodTopologySpread"}}
    assert packing.enabled == {"score": (PluginUse("NodeResourcesFit", 5),)}
    assert packing.arguments["NodeResourcesFit"] == {"scoringStrategy": {"type": "MostAllocated"}}


@pytest.mark.req("5500.14")
def test_added_affinity_may_be_an_expression() -> None:
    found = options.read(
        HEAD
        + """
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchCELExpressions: ["node.labels['zone'].startsWith('eu-')"]
"""
    )
    engine = Engine(found.profiles)
    for each in (node("here", zone="eu-1"), node("there", zone="us-1")):
        engine.put(each)
    assert engine.schedule(pod("web")).node == "here"


def added(affinity: str) -> str:
    """Return a configuration whose profile adds this to every pod."""
    return f"{HEAD}\nprofiles: [{{pluginConfig: [{{name: NodeAffinity, args: {{addedAffinity: {affinity}}}}}]}}]\n"


def required(term: str) -> str:
    return added(f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}")


def preferred(term: str) -> str:
    return added(f"{{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: {term}}}]}}")


_TERM = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
_WISH = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
WRONG_AFFINITY = {
    "an operator that does not exist": (
        required("{matchExpressions: [{key: a, operator: Like, values: [b]}]}"),
        f'{_TERM}.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
    ),
    "a key with a space": (
        required("{matchExpressions: [{key: 'a b', operator: Exists}]}"),
        f'{_TERM}.matchExpressions[0].key: Invalid value: "a b"',
    ),
    "a value that no label has": (
        required("{matchExpressions: [{key: a, operator: In, values: ['b c']}]}"),
        f'{_TERM}.matchExpressions[0].values[0]: Invalid value: "b c"',
    ),
    "no number": (
        required("{matchExpressions: [{key: a, operator: Gt, values: [many]}]}"),
        f"{_TERM}.matchExpressions[0].values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be",
    ),
    "no version": (
        required("{matchExpressions: [{key: a, operator: SemverGt, values: [new]}]}"),
        f'{_TERM}.matchExpressions[0].values[0]: Invalid value: "new"',
    ),
    "a field that cannot be chosen by": (
        required("{matchFields: [{key: metadata.nam, operator: In, values: [node-1]}]}"),
        f'{_TERM}.matchFields[0].key: Invalid value: "metadata.nam": not a valid field selector key',
    ),
    "an expression that does not compile": (
        required("{matchCELExpressions: ['node.label.a']}"),
        f'{_TERM}.matchCELExpressions[0]: Invalid value: "node.label.a": compilation failed',
    ),
    "an operator that does not exist in a wish": (
        preferred("{matchExpressions: [{key: a, operator: Like, values: [b]}]}"),
        f'{_WISH}.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
    ),
}


@pytest.mark.req("5500.14")
@pytest.mark.parametrize("case", WRONG_AFFINITY)
def test_a_scheduler_does_not_start_with_added_affinity_that_is_wrong(case: str) -> None:
    text, message = WRONG_AFFINITY[case]
    with pytest.raises(PluginError, match=re.escape(f"arguments of the scheduler plugin NodeAffinity: {message}")):
        Engine(options.read(text).profiles)


@pytest.mark.req("5500.14")
@pytest.mark.parametrize(
    "text",
    [
        added("{}"),
        added("{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}"),
        required("{}"),
        required("{matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Gt, values: ['5']}]}"),
        required("{matchFields: [{key: metadata.name, operator: NotIn, values: [node-1]}]}"),
        preferred("{matchExpressions: [{key: a, operator: SemverGt, values: ['1.2.3+build']}]}"),
    ],
)
def test_what_kube_scheduler_takes_is_taken(text: str) -> None:
    assert list(Engine(options.read(text).profiles).profiles) == ["default-scheduler"]


@pytest.mark.req("5500.14")
def test_a_scheduler_starts_with_added_affinity_whose_gate_is_off_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    text = required("{matchExpressions: [{key: kernel, operator: SemverGt, values: [1.2.3]}]}")
    features = SchedulerFeatures(constraints=ConstraintOptions(semver_operators=False))
    with caplog.at_level("WARNING", logger="mooring"):
        engine = Engine(options.read(text).profiles, features=features)
    assert "addedAffinity uses SemverGt, whose feature gate is off" in caplog.text
    engine.put(node("n", labels={"kernel": "6.1.0"}))
    assert not engine.schedule(pod("web")).node


@dataclass(frozen=True)
class Wrong:
    id: str
    text: str
    message: str


WRONG = [
    Wrong("another kind", "apiVersion: v1\nkind: Pod\n", "expected a KubeSchedulerConfiguration"),
    Wrong("an older version", HEAD.replace("/v1", "/v1beta3"), "found KubeSchedulerConfiguration of"),
    Wrong("no YAML", HEAD + "a: [", "line"),
    Wrong("an unknown field", HEAD + "colour: red\n", 'unknown field "colour"'),
    Wrong("a list where a map belongs", HEAD + "leaderElection: []\n", "leaderElection"),
    Wrong("extenders", HEAD + "extenders: [{urlPrefix: http://x}]\n", "extenders: not supported"),
    Wrong("the same name twice", HEAD + "profiles: [{}, {}]\n", 'two have the schedulerName "default-scheduler"'),
    Wrong("no backoff at all", HEAD + "podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds: must be greater"),
    Wrong("a maximum below the beginning", HEAD + "podMaxBackoffSeconds: 0\n", "podMaxBackoffSeconds: must be"),
    Wrong("a duration without unit", HEAD + "leaderElection: {leaseDuration: '15'}\n", "leaseDuration"),
    Wrong("impossible lease times", HEAD + "leaderElection: {leaseDuration: 1s}\n", "leaderElection: leader election"),
    Wrong("another lock", HEAD + "leaderElection: {resourceLock: endpoints}\n", 'only "leases"'),
    Wrong(
        "a plugin twice",
        HEAD + "profiles: [{plugins: {score: {enabled: [{name: A}, {name: A}]}}}]\n",
        'profiles[0].plugins.score.enabled: "A" is there twice',
    ),
    Wrong(
        "a negative weight",
        HEAD + "profiles: [{plugins: {score: {enabled: [{name: A, weight: -1}]}}}]\n",
        "a weight is negative",
    ),
    Wrong(
        "arguments twice",
        HEAD + "profiles: [{pluginConfig: [{name: A}, {name: A}]}]\n",
        "profiles[0].pluginConfig[1]: repeats a plugin",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_what_cannot_be_used_is_named(case: Wrong) -> None:
    with pytest.raises(SchedulerConfigError) as raised:
        options.read(case.text)
    assert case.message in str(raised.value)
