"""What LimitRanges do to pods and claims; what kube-apiserver answers is in the conformance tests."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from admission_pods import NOW, Tree, causes, pod_of, request
from mooring.admission.limit_range import ANNOTATION
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.strategy import NoCluster, Request
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import LimitRange, PersistentVolumeClaim, Pod

pytestmark = pytest.mark.req("X.10")
CPU = {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}}
GROWN = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "9Gi"}}, "volumeName": "v"}}


def limit_range(*items: Tree) -> LimitRange:
    return codec.decode(msgspec.json.encode({"metadata": {"name": "l"}, "spec": {"limits": items}}), LimitRange).object


class Limited(NoCluster):
    def __init__(self, *ranges: LimitRange) -> None:
        self.ranges = ranges

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return self.ranges if namespace == "default" else ()

    def allows_expansion(self, storage_class: str) -> bool:
        return True


def limited(*items: Tree) -> Request:
    return request(lookups=Limited(*(limit_range(item) for item in items)))


def asking(cpu: str, limit: str = "") -> Pod:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": limit or cpu}}
    return pod_of({"containers": [{"name": "c", "image": "i", "resources": resources}]})


def stored(pod: Pod) -> Pod:
    created = admit_create(pod, request()).object
    created.metadata.resource_version = "1"
    return created


def problems(change: Any) -> list[str]:
    try:
        change()
    except errors.StatusError as refusal:
        return causes(refusal)
    return []


@pytest.mark.parametrize(
    ("items", "requests", "limits", "annotation"),
    [
        pytest.param(
            [{"type": "Container", "defaultRequest": {"cpu": "1"}}, {"type": "Container", "default": {"cpu": "2"}}],
            {"cpu": "1"},
            {"cpu": "2"},
            "cpu limit for container c",
            id="the annotation tells of the last LimitRange that set something",
        ),
        pytest.param(
            [{"type": "Container", "default": {"cpu": "2"}}, {"type": "Container", "default": {"cpu": "3"}}],
            {},
            {"cpu": "2"},
            "cpu limit for container c",
            id="the first of several LimitRanges gives the default",
        ),
        pytest.param(
            [{"type": "Pod", "default": {"cpu": "2"}}], {}, {}, None, id="only limits of containers have defaults"
        ),
    ],
)
def test_containers_get_what_they_lack(items: list[Tree], requests: Tree, limits: Tree, annotation: str | None) -> None:
    pod = admit_create(pod_of(), limited(*items)).object
    resources = pod.spec.containers[0].resources
    assert {name: str(value) for name, value in resources.requests.items()} == requests
    assert {name: str(value) for name, value in resources.limits.items()} == limits
    expected = None if annotation is None else f"LimitRanger plugin set: {annotation}"
    assert pod.metadata.annotations.get(ANNOTATION) == expected


def test_what_a_default_gives_counts_for_the_quality_of_service() -> None:
    defaults = {"cpu": "1", "memory": "1Gi"}
    item = {"type": "Container", "default": defaults, "defaultRequest": defaults}
    assert admit_create(pod_of(), limited(item)).object.status.qos_class == "Guaranteed"


def test_the_first_limit_range_that_is_exceeded_is_reported() -> None:
    wide, narrow = {**CPU, "max": {"cpu": "9"}}, {**CPU, "max": {"cpu": "4"}}
    assert problems(lambda: admit_create(asking("5"), limited(wide, narrow, CPU))) == [
        'pods "p" is forbidden: maximum cpu usage per Container is 4, but limit is 5'
    ]


@pytest.mark.parametrize(
    ("subresource", "deleted", "refused"),
    [
        pytest.param("", False, False, id="an update of a pod that was there before the limit is let pass"),
        pytest.param("status", False, False, id="so is a write of its status"),
        pytest.param("resize", False, True, id="a resize has to keep the limit"),
        pytest.param("resize", True, False, id="unless the pod is being deleted"),
    ],
)
def test_changes_of_pods(subresource: str, deleted: bool, refused: bool) -> None:
    old = stored(asking("3"))
    if deleted:
        old.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
        old.metadata.deletion_grace_period_seconds = 30
    new = copy_of(old)
    new.metadata.labels["changed"] = "yes"
    found = problems(lambda: admit_update(new, old, limited(CPU), subresource))
    wanted = ['pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3'] if refused else []
    assert found == wanted


@pytest.mark.parametrize("deleted", [False, True], ids=["a claim that grows keeps the limit", "unless it is deleted"])
def test_a_claim_that_is_changed(deleted: bool) -> None:
    claim = codec.decode(msgspec.json.encode({"metadata": {"name": "c"}, **GROWN}), PersistentVolumeClaim).object
    old = admit_create(claim, request()).object
    old.metadata.resource_version = "1"
    if deleted:
        old.metadata.deletion_timestamp = NOW.isoformat()
    item = {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}}
    new = copy_of(old)
    wanted = "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 9Gi"
    found = problems(lambda: admit_update(new, old, limited(item)))
    assert found == ([] if deleted else [f'persistentvolumeclaims "c" is forbidden: {wanted}'])
