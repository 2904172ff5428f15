"""What holds in every simulation, whatever is changed in whatever order."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.simulate import (
    Add,
    AddNodes,
    Change,
    Cordon,
    Drain,
    Label,
    RemoveNodes,
    Scenario,
    Simulation,
    Step,
    Taint,
    Untaint,
    simulate,
)
from mooring.advisor.simulate.manifests import read_objects
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.testing import builders

pytestmark = pytest.mark.req("S.5")

NODES = ("n0", "n1", "n2", "n3")
CLASSES = read_objects(
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n", "classes.yaml"
)


def workload(kind: str, name: str, cpu: int, *, high: bool, tolerant: bool) -> str:
    replicas = (
        "" if kind == "DaemonSet" else "replicas: 1, serviceName: x," if kind == "StatefulSet" else "replicas: 1,"
    )
    seconds = (
        "tolerations: [{key: hot, operator: Exists, tolerationSeconds: 30, effect: NoExecute}]," if tolerant else ""
    )
    priority = "priorityClassName: high," if high else ""
    containers = f"containers: [{{name: c, image: 'a:1', resources: {{requests: {{cpu: {cpu}00m}}}}}}]"
    template = f"template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{{seconds} {priority} {containers}}}}}"
    spec = f"{{{replicas} selector: {{matchLabels: {{app: {name}}}}}, {template}}}"
    return f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"


nodes = st.lists(st.sampled_from((*NODES, "n*")), min_size=1, max_size=2).map(tuple)
additions = st.builds(
    lambda kind, name, cpu, high, tolerant, replicas: Add(
        read_objects(workload(kind, name, cpu, high=high, tolerant=tolerant), "w.yaml"), replicas
    ),
    st.sampled_from(["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"]),
    st.sampled_from(["a", "b"]),
    st.integers(1, 25),
    st.booleans(),
    st.booleans(),
    st.integers(0, 12),
)
taints = st.sampled_from([("hot", "NoExecute"), ("closed", "NoSchedule"), ("rather-not", "PreferNoSchedule")])
changes: st.SearchStrategy[Change] = st.one_of(
    additions,
    additions,
    st.builds(Drain, nodes),
    st.builds(Cordon, nodes, st.booleans()),
    st.builds(lambda where, what: Taint(where, NodeTaint(key=what[0], effect=what[1])), nodes, taints),
    st.builds(Untaint, nodes, st.sampled_from(["hot", "closed"])),
    st.builds(Label, nodes, st.just("tier"), st.sampled_from(["gold", None])),
    st.builds(AddNodes, st.integers(1, 2)),
)
scenarios = st.builds(
    lambda steps, last, seed: Scenario(
        (*(Step((step,)) for step in steps), *(Step((change,)) for change in last)), seed=seed
    ),
    st.lists(changes, min_size=1, max_size=6),
    st.lists(st.builds(RemoveNodes, st.sampled_from([("n0",), ("n1", "n2")])), max_size=1),
    st.integers(0, 3),
)


def snapshot() -> Snapshot:
    running = [builders.pod(f"there-{name}", cpu="500m", on=name) for name in NODES]
    return Snapshot("a test", [*(builders.node(name, cpu="4", pods="9") for name in NODES), *running, *CLASSES])


def check(result: Simulation) -> None:
    counts = result.counts
    assert counts.running + counts.pending == counts.pods
    assert counts.pending == sum(group.count for group in result.pending)
    assert counts.placed == len(result.placements) == len({each.pod for each in result.placements})
    assert (counts.evicted, counts.preempted) == (len(result.evicted), len(result.preempted))
    assert all(group.message for group in result.pending)
    for use in result.utilisation.after:
        assert use.nodes.most <= 1.0, use
    there = {node.name: node for node in result.nodes if node.after is not None}
    assert {each.node for each in result.placements} <= set(there)
    assert sum(node.pods for node in there.values()) == counts.running
    placed = Counter(each.node for each in result.placements)
    assert all(there[name].pods >= number for name, number in placed.items())
    assert [moment.at for moment in result.timeline] == sorted(moment.at for moment in result.timeline)
    assert (result.timeline[-1].running, result.timeline[-1].pending) == (counts.running, counts.pending)


@settings(max_examples=60, deadline=None)
@given(scenarios)
def test_pods_are_counted_once_fit_where_they_are_and_the_same_seed_repeats_everything(scenario: Scenario) -> None:
    result = simulate(snapshot(), scenario)
    check(result)
    assert simulate(snapshot(), scenario) == result
