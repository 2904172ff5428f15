"""What upgrade-check and pools read of a live cluster beside its snapshot: Helm's Secrets, and Karpenter's objects."""

import asyncio
import base64
import gzip
import json
from typing import Any

import pytest

from mooring.advisor.simulate.manifests import decode_trees
from mooring.advisor.simulate.node_pools import find_pools, read_pool_objects
from mooring.advisor.snapshot import Snapshot, live
from mooring.advisor.upgrade import helm_manifests, read_releases
from mooring.api.core_v1 import Node, Secret
from mooring.api.errors import NotFound
from mooring.testing import MockClock, RunningControlPlane, builders

RELEASE = {
    "name": "shop",
    "namespace": "default",
    "version": 1,
    "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
}


@pytest.mark.req("E.1")
def test_the_secrets_of_helm_releases_are_read_from_a_live_cluster() -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(RELEASE).encode())).decode()
    release = {"data": {"release": base64.b64encode(packed.encode()).decode()}, "type": "helm.sh/release.v1"}
    trees = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "r", "namespace": "default"}, **release},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": "default"}, "data": {}},
    ]
    with RunningControlPlane(mock_clock=True) as plane:
        plane.create(*decode_trees(trees, "secrets"))
        found = plane.run(read_releases(plane.client))
    assert [each.metadata.name for each in found.all(Secret)] == ["r"]
    manifests, notes = helm_manifests(found)
    assert (notes, [each.name for each in manifests.raw()] if manifests else None) == ((), ["x"])


def definition(group: str, kind: str, plural: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Cluster", "versions": [version]},
    }


async def post(plane: RunningControlPlane, path: str, tree: dict[str, Any]) -> None:
    """Create a custom object as soon as its kind is served."""
    assert isinstance(plane.clock, MockClock)
    while True:
        try:
            await plane.client.raw("POST", path, body=json.dumps(tree).encode())
            return
        except NotFound:
            await plane.clock.run(1.0)


@pytest.mark.req("E.4")
def test_karpenters_objects_are_read_from_a_live_cluster() -> None:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {"metadata": {"name": "general"}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}
    broken = {"conditions": [{"type": "Ready", "status": "False", "message": "no subnets"}]}
    with RunningControlPlane(mock_clock=True) as plane:
        kinds = [
            definition("karpenter.sh", "NodePool", "nodepools"),
            definition("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses"),
        ]
        plane.create(*decode_trees(kinds, "definitions"), builders.node("n"))
        version = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
        plane.run(asyncio.wait_for(post(plane, "/apis/karpenter.sh/v1/nodepools", version | pool), 30))
        version = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
        node_class = {"metadata": {"name": "default"}, "status": broken}
        plane.run(asyncio.wait_for(post(plane, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", version | node_class), 30))
        snapshot: Snapshot = plane.run(live(plane.client, "a test"))
        (found,) = find_pools(snapshot, plane.run(read_pool_objects(plane.client)))
    assert len(snapshot.all(Node)) == 1
    assert (found.name, found.problem) == ("general", "its EC2NodeClass default is not ready: no subnets")
