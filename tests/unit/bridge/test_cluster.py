"""What the bridge remembers of a cluster equals what it would find by looking at everything."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.plan import OPTIONS, TermRule, own_labels, release
from mooring.constraints import annotations
from mooring.constraints.lowering.terms import LABEL_PREFIX, constraint_of
from mooring.testing.builders import made


def rule(*, version: str = "", cel: str = "") -> TermRule:
    entries = [NodeSelectorRequirement(key="kernel", operator="SemverGt", values=[version])] if version else []
    found = constraint_of(
        NodeSelectorTerm(match_expressions=entries, match_cel_expressions=[cel] if cel else []), OPTIONS
    )
    assert found is not None
    return TermRule(found)


RULES = [
    rule(version="5"),
    rule(version="6.0"),
    rule(cel="!('zone' in node.labels)"),
    rule(cel="node.labels.size() == 1"),
    rule(version="5", cel="'zone' in node.labels && node.labels['zone'] == 'x'"),
]
OWN = st.fixed_dictionaries(
    {}, optional={"kernel": st.sampled_from(["5.4", "6.1"]), "zone": st.sampled_from(["x", "y"])}
)
OURS = st.dictionaries(
    st.sampled_from([each.label for each in RULES] + [LABEL_PREFIX + "old"]),
    st.sampled_from(["true", "no"]),
    max_size=3,
)
ACTS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from("ab"), st.none() | st.tuples(OWN, OURS)),
    st.tuples(st.just("pod"), st.sampled_from("pq"), st.sets(st.sampled_from(range(len(RULES))), max_size=3)),
)


@pytest.mark.req("B.7", "B.8")
@settings(max_examples=150, deadline=None)
@given(acts=st.lists(ACTS, max_size=12))
def test_what_has_to_change_is_known_after_any_changes(acts: list[Any]) -> None:
    cluster, nodes, asked = BridgedCluster(), dict[str, Node](), dict[str, set[int]]()
    for what, name, new in acts:
        if what == "pod":
            asked[name] = new
            cluster.register(name, [RULES[number] for number in sorted(new)])
            continue
        old = nodes.pop(name, None)
        if new is None:
            if old is not None:
                cluster.remove_node(old)
            continue
        nodes[name] = made(Node, {"metadata": {"name": name, "labels": {**new[0], **new[1]}}})
        if old is None:
            cluster.add_node(nodes[name])
        else:
            cluster.update_node(old, nodes[name])
    wanted = [RULES[number] for number in set().union(*asked.values())]
    for name, node in nodes.items():
        labels = node.metadata.labels
        due = {each.label for each in wanted if each.is_met_by(name, own_labels(labels))}
        after = {**labels, **cluster.changes_on(name)}
        assert {key for key in after if key.startswith(LABEL_PREFIX) and after[key] == "true"} == due
    stale = {name for each in cluster.rules.values() for name in each.stale}
    assert stale == {name for name in nodes if cluster.changes_on(name).keys() & cluster.rules.keys()}


@pytest.mark.req("B.3")
@pytest.mark.parametrize(
    ("then", "values"),
    [
        pytest.param({"kernel": "6.8"}, ["6.1", "6.8"], id="a value that comes is asked for by the next pod"),
        pytest.param({"kernel": "5.4"}, ["6.1"], id="one that does not meet the constraint is not"),
        pytest.param(None, ["6.1"], id="one that has gone with its node is not asked for any more"),
    ],
)
def test_identical_pods_are_released_with_the_values_of_their_time(
    then: dict[str, str] | None, values: list[str]
) -> None:
    cluster = BridgedCluster()
    cluster.add_node(made(Node, {"metadata": {"name": "a", "labels": {"kernel": "6.1"}}}))
    second = made(Node, {"metadata": {"name": "b", "labels": {"kernel": "6.5"}}})
    cluster.add_node(second)
    assert known_values(cluster) == ["6.1", "6.5"]
    if then is None:
        cluster.remove_node(second)
    else:
        cluster.update_node(second, made(Node, {"metadata": {"name": "b", "labels": then}}))
    assert known_values(cluster) == values


def known_values(cluster: BridgedCluster) -> list[str]:
    """Return what the second term of a released pod lists."""
    entry = {"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [entry]}]}
    }
    pod = made(Pod, {"metadata": {"name": "p", "annotations": {annotations.NODE_AFFINITY: json.dumps(affinity)}}})
    [change] = [each for each in release(pod, cluster.facts()) if each["path"] == "/spec/affinity"]
    terms = change["value"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    found: list[str] = terms[1]["matchExpressions"][0]["values"]
    return found
