"""Scenario files: what they say, and what is said of those that are wrong."""

from dataclasses import dataclass

import pytest

from mooring.advisor.simulate import (
    Add,
    AddNodes,
    Cordon,
    Drain,
    Label,
    Remove,
    RemoveNodes,
    ScenarioError,
    Taint,
    Untaint,
    scenario_file,
    simulate,
)
from mooring.advisor.simulate.manifests import copy_templates
from mooring.advisor.simulate.results import ConditionError, parse_condition
from mooring.advisor.snapshot import Snapshot

pytestmark = pytest.mark.req("S.5")

HEAD = "apiVersion: advisor.mooring.dev/v1\nkind: Scenario\n"
POD = '{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: "a:1"}]}}'
FILES = {
    "pod.yaml": POD,
    "node.yaml": "{apiVersion: v1, kind: Node, metadata: {name: big}, status: {allocatable: {cpu: '64', pods: '500'}}}",
    "empty.yaml": "# nothing\n",
    "bare-node.yaml": "{apiVersion: v1, kind: Node, metadata: {name: bare}}",
}


def open_file(name: str) -> bytes:
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return FILES[name].encode()


def test_every_change_can_be_written() -> None:
    scenario, cluster = scenario_file.read_scenario(
        HEAD
        + """
name: everything
seed: 7
until: 1h
keepPending: true
untilFull: true
cluster: {nodes: 3, template: node.yaml}
steps:
- at: 90s
  name: all at once
  addNodes: [{count: 2, template: node.yaml}]
  label: [{nodes: [a], labels: {tier: gold, old: null}}]
  taint: [{nodes: ["gpu-*"], key: sla, value: "940", effect: NoExecute}]
  untaint: [{nodes: [b], key: x, effect: NoSchedule}]
  cordon: [c]
  uncordon: [d]
  add: [{file: pod.yaml, replicas: 3}]
  remove: [{kind: Deployment, name: web}]
  drain: [e]
  removeNodes: [f]
""",
        open_file,
    )
    assert (scenario.name, scenario.seed, scenario.until) == ("everything", 7, 3600.0)
    assert scenario.keep_pending
    assert scenario.until_full
    assert cluster.nodes == 3
    assert [node.metadata.name for node in copy_templates(cluster.templates, 2)] == ["big-0", "big-1"]
    (step,) = scenario.steps
    assert (step.at, step.name) == (90.0, "all at once")
    kinds = [AddNodes, Label, Label, Taint, Untaint, Cordon, Cordon, Add, Remove, Drain, RemoveNodes]
    assert [type(change) for change in step.changes] == kinds


@dataclass(frozen=True)
class Wrong:
    name: str
    text: str
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong("no scenario", "kind: Pod", "expected a Scenario of advisor.mooring.dev/v1"),
        Wrong("an unknown field", HEAD + "steps: [{drian: [a]}]", 'unknown field "steps[0].drian"'),
        Wrong("a field of another type", HEAD + "steps: [{drain: a}]", "steps[0].drain"),
        Wrong("a time that is none", HEAD + "steps: [{at: soon, drain: [a]}]", 'steps[0].at: "soon" is not a duration'),
        Wrong(
            "steps that are not in order",
            HEAD + "steps: [{at: 5m, drain: [a]}, {at: 1m, drain: [a]}]",
            "steps[1].at: is before the step that comes before it",
        ),
        Wrong("a step after the end", HEAD + "until: 1m\nsteps: [{at: 5m, drain: [a]}]", "steps[0].at: is after until"),
        Wrong(
            "a time that no calendar has",
            HEAD + "steps: [{at: 99999999h, drain: [a]}]",
            "steps[0].at: is more than a hundred years",
        ),
        Wrong("an end that no calendar has", HEAD + "until: 99999999h", "until: is more than a hundred years"),
        Wrong("a step without a change", HEAD + "steps: [{at: 5m}]", "steps[0]: changes nothing"),
        Wrong(
            "an unknown effect",
            HEAD + "steps: [{taint: [{nodes: [a], key: k, effect: Never}]}]",
            "steps[0].taint[0].effect",
        ),
        Wrong(
            "a taint without nodes", HEAD + "steps: [{taint: [{key: k, effect: NoExecute}]}]", "steps[0].taint[0].nodes"
        ),
        Wrong(
            "a file that is not there",
            HEAD + "steps: [{add: [{file: x.yaml}]}]",
            "steps[0].add[0].file: x.yaml: No such",
        ),
        Wrong(
            "a file without objects", HEAD + "steps: [{add: [{file: empty.yaml}]}]", "empty.yaml: there is no object"
        ),
        Wrong("neither file nor objects", HEAD + "steps: [{add: [{replicas: 3}]}]", "give either file or objects"),
        Wrong(
            "fewer than no replicas", HEAD + "steps: [{add: [{file: pod.yaml, replicas: -1}]}]", "replicas: must not be"
        ),
        Wrong("no nodes to add", HEAD + "steps: [{addNodes: [{}]}]", "steps[0].addNodes[0].count: must be at least 1"),
        Wrong(
            "a node in which nothing fits", HEAD + "cluster: {nodes: 1, template: bare-node.yaml}", "no pod would fit"
        ),
        Wrong("a template that is no node", HEAD + "cluster: {nodes: 1, template: pod.yaml}", "not a Pod"),
        Wrong(
            "two clusters", HEAD + "cluster: {nodes: 1, from: [x]}", "cluster: from and nodes name different clusters"
        ),
        Wrong(
            "an object of an unknown kind",
            HEAD + "steps: [{add: [{objects: [{apiVersion: a/v1, kind: B}]}]}]",
            "steps[0].add[0].objects[0]: Mooring does not know a/v1 B",
        ),
        Wrong(
            "an object with an unknown field",
            HEAD + "steps: [{add: [{objects: [{apiVersion: v1, kind: Pod, spec: {x: 1}}]}]}]",
            'steps[0].add[0].objects[0]: Pod: strict decoding error: unknown field "spec.x"',
        ),
        Wrong("no YAML", "steps: [", "line 1"),
        Wrong("two documents", HEAD + "---\n" + HEAD, "expected one YAML document, got 2"),
    ],
    ids=lambda case: case.name,
)
def test_a_wrong_scenario_is_refused_with_the_place(case: Wrong) -> None:
    with pytest.raises(ScenarioError) as refusal:
        scenario_file.read_scenario(case.text, open_file)
    assert case.message in str(refusal.value)


def test_files_are_not_read_for_a_remote_user() -> None:
    with pytest.raises(ScenarioError, match="files cannot be read here"):
        scenario_file.read_scenario(HEAD + "steps: [{add: [{file: /etc/passwd}]}]")


def test_steps_happen_at_their_time() -> None:
    scenario, _ = scenario_file.read_scenario(
        HEAD
        + f"until: 10m\nsteps: [{{at: 1m, add: [{{objects: [{POD}], replicas: 2}}]}}, {{at: 5m, removeNodes: ['*']}}]"
    )
    result = simulate(Snapshot("two nodes", copy_templates((), 2)), scenario)
    assert [(moment.at, moment.running, moment.nodes) for moment in result.timeline] == [
        (0.0, 0, 2),
        (60.0, 2, 2),
        (300.0, 0, 0),
    ]
    assert {each.at for each in result.evicted} == {300.0}
    assert result.seconds == 600.0


# -- conditions


@dataclass(frozen=True)
class Asked:
    text: str
    violation: str


@pytest.mark.parametrize(
    "case",
    [
        Asked("pending", "1 pending"),
        Asked("pending>1", ""),
        Asked("pending>=1", "1 pending"),
        Asked("evicted", ""),
        Asked("cpu>40%", "cpu at 50.0%"),
        Asked("cpu > 50%", ""),
        Asked("cpu>=50%", "cpu at 50.0%"),
        Asked("utilisation>49.5%", "cpu at 50.0%"),
        Asked("utilization>90%", ""),
        Asked("nvidia.com/gpu>1%", ""),
    ],
    ids=lambda case: case.text,
)
def test_conditions_hold_or_not(case: Asked) -> None:
    pod = POD.replace('image: "a:1"', "image: 'a:1', resources: {requests: {cpu: '16'}}")
    other = pod.replace("name: a}", "name: b}").replace("'16'", "'33'")
    scenario, _ = scenario_file.read_scenario(HEAD + f"steps: [{{add: [{{objects: [{pod}, {other}]}}]}}]")
    result = simulate(Snapshot("a node", copy_templates((), 1)), scenario)
    assert parse_condition(case.text).violation(result) == case.violation


@pytest.mark.parametrize("text", ["", "nonsense", "pending>5%", "cpu>5", "cpu", "cpu<5%", "pending>many", ">3"])
def test_a_condition_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_condition(text)
