"""What a RuntimeClass adds to pods: its overhead, its node selector and its tolerations."""

from typing import Any

import pytest

from admission_pods import Tree
from api_caller import PODS, ApiCaller, pod
from mooring.admission.runtime_class import merge_tolerations
from mooring.api.core_v1 import Toleration

pytestmark = pytest.mark.req("N.10")
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
SCHEDULING = {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}


async def make_class(api: ApiCaller, **fields: Any) -> None:
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
    assert (await api.post(CLASSES, {**body, **fields})).code == 201


async def test_a_pod_gets_overhead_and_scheduling_of_its_class(api: ApiCaller) -> None:
    await make_class(api, overhead={"podFixed": {"cpu": "250m"}}, scheduling=SCHEDULING)
    spec = (await api.post(PODS, pod(runtimeClassName="kata", nodeSelector={"a": "b"}))).body["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"a": "b", "kata": "yes"}
    assert {"key": "kata", "operator": "Exists"} in spec["tolerations"]


@pytest.mark.parametrize(
    ("given", "spec", "why"),
    [
        pytest.param({}, {"runtimeClassName": "other"}, 'RuntimeClass "other" not found', id="no such class"),
        pytest.param({}, {"overhead": {"cpu": "1"}}, "Pod Overhead set without", id="overhead without a class"),
        pytest.param(
            {},
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "Pod Overhead set without",
            id="overhead that the class does not have",
        ),
        pytest.param(
            {"overhead": {"podFixed": {"cpu": "2"}}},
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            id="another overhead",
        ),
        pytest.param(
            {"scheduling": SCHEDULING},
            {"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
            id="another node selector",
        ),
    ],
)
async def test_what_contradicts_a_class_is_refused(api: ApiCaller, given: Tree, spec: Tree, why: str) -> None:
    await make_class(api, **given)
    answer = await api.post(PODS, pod(**spec))
    assert answer.code == 403
    assert why in answer.message


def toleration(words: str) -> Toleration:
    key, operator, value, effect, seconds = (words.split(",") + [""] * 5)[:5]
    return Toleration(
        key=key, operator=operator, value=value, effect=effect, toleration_seconds=int(seconds) if seconds else None
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param(["a,Exists", "a,Exists"], [0], id="equals"),
        pytest.param(["a,Equal,1", "a,Exists"], [1], id="any value covers one"),
        pytest.param(["a,Exists,,NoSchedule", ",Exists"], [1], id="everything covers a key"),
        pytest.param(["a,Exists,,NoSchedule", "a,Exists,,NoExecute"], [0, 1], id="different effects"),
        pytest.param(["a,Exists,,NoExecute,30", "a,Exists,,NoExecute,60"], [1], id="a longer time covers a shorter"),
        pytest.param(["a,Exists,,NoExecute", "a,Exists,,NoExecute,60"], [0], id="for ever covers a time"),
        pytest.param(["a,Gt,5", "a,Equal,5"], [0, 1], id="a comparison covers nothing"),
        pytest.param(["a,Gt,5", ",Exists"], [1], id="everything covers a comparison"),
    ],
)  # fmt: skip
def test_tolerations_that_another_one_says_are_left_out(given: list[str], kept: list[int]) -> None:
    tolerations = [toleration(words) for words in given]
    assert merge_tolerations(tolerations) == [tolerations[index] for index in kept]
