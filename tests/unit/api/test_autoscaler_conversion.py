"""HorizontalPodAutoscaler in v1 and in v2: nothing is lost on the way there and back."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.admission.registry import strategy_of
from mooring.api import autoscaling_v1 as v1
from mooring.api import autoscaling_v2 as v2
from mooring.api import codec
from mooring.api.autoscaler_conversion import (
    BEHAVIOR,
    CONDITIONS,
    CURRENT,
    METRICS,
    autoscaler_from_v1,
    autoscaler_to_v1,
)

pytestmark = pytest.mark.req("N.10")
AMOUNTS = st.sampled_from(["1", "500m", "2k", "1Gi"])
IDENTIFIERS = st.builds(
    lambda name, labels: {"name": name, **({"selector": {"matchLabels": labels}} if labels else {})},
    st.sampled_from(["requests", "depth"]),
    st.sampled_from([{}, {"a": "b"}]),
)
AVERAGE = st.builds(lambda amount: {"type": "AverageValue", "averageValue": amount}, AMOUNTS)
VALUE = st.builds(lambda amount: {"type": "Value", "value": amount}, AMOUNTS)
USE = AVERAGE | st.builds(lambda percent: {"type": "Utilization", "averageUtilization": percent}, st.integers(1, 100))
TARGET = {"kind": "Service", "name": "web", "apiVersion": "v1"}
METRIC = st.one_of(
    st.builds(lambda i, t: {"type": "Pods", "pods": {"metric": i, "target": t}}, IDENTIFIERS, AVERAGE),
    st.builds(lambda i, t: {"type": "External", "external": {"metric": i, "target": t}}, IDENTIFIERS, VALUE | AVERAGE),
    st.builds(
        lambda i, t: {"type": "Object", "object": {"metric": i, "target": t, "describedObject": TARGET}},
        IDENTIFIERS,
        VALUE | AVERAGE,
    ),
    st.builds(lambda t: {"type": "Resource", "resource": {"name": "memory", "target": t}}, USE),
    st.builds(
        lambda t: {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": t}},
        USE,
    ),
)
FAST = {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}
DEPTH, AMOUNT = {"metric": {"name": "depth"}}, {"averageValue": "5"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}


def autoscaler(**spec: Any) -> v2.HorizontalPodAutoscaler:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    tree = {"metadata": {"name": "x", "annotations": {"mine": "stays"}}}
    whole = {**tree, "spec": {"maxReplicas": 5, "scaleTargetRef": target, **spec}}
    return codec.decode(json.dumps(whole).encode(), v2.HorizontalPodAutoscaler).object


@settings(max_examples=60, deadline=None)
@given(st.lists(METRIC, max_size=3), st.booleans(), st.sampled_from([None, {"scaleUp": FAST}]))
def test_v2_goes_through_v1_unchanged(metrics: list[Any], with_cpu: bool, behavior: Any) -> None:
    metrics = [*metrics, *([CPU] if with_cpu or not metrics else [])]  # v1 has cpu last
    new = autoscaler(metrics=metrics, **({"behavior": behavior} if behavior else {}))
    again = autoscaler_from_v1(autoscaler_to_v1(new))
    assert codec.encode(again) == codec.encode(new)


def test_the_status_goes_through_v1_too() -> None:
    new = autoscaler(metrics=[CPU])
    new.status = codec.decode(
        json.dumps(
            {
                "currentReplicas": 2,
                "desiredReplicas": 3,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {**AMOUNT, "averageUtilization": 9}}},
                    {"type": "Pods", "pods": {**DEPTH, "current": AMOUNT}},
                    {"type": "External", "external": {**DEPTH, "current": {"value": "5"}}},
                    {"type": "Object", "object": {**DEPTH, "current": {"value": "5"}, "describedObject": TARGET}},
                ],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            }
        ).encode(),
        v2.HorizontalPodAutoscalerStatus,
    ).object  # fmt: skip
    old = autoscaler_to_v1(new)
    assert old.status.current_cpu_utilization_percentage == 9
    assert set(old.metadata.annotations) == {"mine", CURRENT, CONDITIONS}
    assert codec.encode(autoscaler_from_v1(old)) == codec.encode(new)


def test_v1_says_cpu_in_a_field_and_the_rest_in_annotations() -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
    old = autoscaler_to_v1(autoscaler(metrics=[CPU, pods], behavior={"scaleUp": {"selectPolicy": "Min"}}))
    assert old.spec.target_cpu_utilization_percentage == 60
    assert json.loads(old.metadata.annotations[METRICS]) == [
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}
    ]
    assert json.loads(old.metadata.annotations[BEHAVIOR]) == {"ScaleUp": {"SelectPolicy": "Min"}}


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", '{"a":1}', '[{"type":"Pods","pods":7}]', "null", '"x"'])
@pytest.mark.parametrize("name", [METRICS, CURRENT, CONDITIONS, BEHAVIOR])
def test_an_annotation_that_cannot_be_read_is_dropped(name: str, text: str) -> None:
    old = v1.HorizontalPodAutoscaler()
    old.metadata.annotations[name] = text
    new = autoscaler_from_v1(old)
    assert new.metadata.annotations == {}
    assert new.spec.metrics[0].resource is not None


@pytest.mark.parametrize("rules", [{}, {"Policies": None}, {"SelectPolicy": "Min"}, {"Policies": []}], ids=str)
def test_behavior_in_an_annotation_of_v1_is_not_filled_in_and_so_refused(rules: dict[str, Any]) -> None:
    old = v1.HorizontalPodAutoscaler()
    old.metadata.annotations[BEHAVIOR] = json.dumps({"ScaleUp": rules})
    new = autoscaler_from_v1(old)
    strategy_of(v2.HorizontalPodAutoscaler).default(new)
    assert new.spec.behavior is not None
    assert new.spec.behavior.scale_up is not None
    assert new.spec.behavior.scale_up.policies == []


def test_behavior_of_v2_is_filled_in_where_policies_are_absent_and_not_where_they_are_empty() -> None:
    new = autoscaler(metrics=[CPU], behavior={"scaleUp": {}, "scaleDown": {"policies": []}})
    strategy_of(v2.HorizontalPodAutoscaler).default(new)
    assert new.spec.behavior is not None
    assert new.spec.behavior.scale_up is not None
    assert new.spec.behavior.scale_down is not None
    assert [each.type for each in new.spec.behavior.scale_up.policies or []] == ["Pods", "Percent"]
    assert new.spec.behavior.scale_down.policies == []
