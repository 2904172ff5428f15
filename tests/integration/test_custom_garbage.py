"""Custom objects in the hands of the controllers: owners and namespaces take them along."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.api.core_v1 import ConfigMap, Namespace
from mooring.testing import RunningControlPlane

DEFINITION = Path(__file__).parents[2] / "examples" / "custom-resources" / "crontabs.yaml"
SPEC = {"cronSpec": "* * * * *"}


@pytest.fixture(scope="module")
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(without=["scheduler", "nodes"]) as running:
        yield running


@pytest.mark.req("X.5")
def test_owners_and_namespaces_take_custom_objects_along(plane: RunningControlPlane) -> None:
    with plane.crd(DEFINITION) as crontabs:
        [owner] = plane.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
        child = crontabs.create("child", SPEC, metadata={"ownerReferences": [reference]})
        of_child = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "name": "child"}
        of_child["uid"] = child["metadata"]["uid"]
        plane.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "grandchild", "ownerReferences": [of_child]},
            }
        )
        plane.create("{apiVersion: v1, kind: Namespace, metadata: {name: short-lived}}")
        crontabs.create("inside", SPEC, namespace="short-lived")
        plane.delete(ConfigMap, "owner")
        plane.delete(Namespace, "short-lived", "")
        crontabs.wait_until_gone("child")
        plane.wait_until_gone(ConfigMap, "grandchild")
        plane.wait_until_gone(Namespace, "short-lived", "")
        crontabs.wait_until_gone("inside", "short-lived")


@pytest.mark.req("X.5", "X.6")
def test_a_definition_that_comes_back_is_another_one(plane: RunningControlPlane) -> None:
    for _ in range(2):
        with plane.crd(DEFINITION) as crontabs:
            crontabs.create("a", SPEC)
            assert [tab["metadata"]["name"] for tab in crontabs.list()] == ["a"]
