"""What happens to objects when their owners go: in the background, in the foreground, and orphaned."""

from collections.abc import AsyncIterator

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import ConfigMap, Node, Pod, Secret
from mooring.api.meta_v1 import Resource

pytestmark = pytest.mark.req("S.4")


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("garbage-collector") as running:
        yield running


def owner(obj: Resource, kind: str = "ConfigMap", *, blocks: bool = True) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "blockOwnerDeletion": blocks,
    }


async def config(plane: ControlPlane, name: str, *owners: dict[str, object], **metadata: object) -> ConfigMap:
    meta = {"name": name, "namespace": "default", "ownerReferences": list(owners), **metadata}
    return await plane.create(ConfigMap, metadata=meta)


async def test_dependents_go_in_the_background_and_theirs_too(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    middle = await config(plane, "middle", owner(top))
    await plane.create(Secret, metadata={"name": "leaf", "namespace": "default", "ownerReferences": [owner(middle)]})
    await plane.client.delete(ConfigMap, "top", "default", propagation_policy="Background")
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == []
    assert await plane.names(Secret) == []


async def test_a_dependent_with_another_owner_stays_without_the_reference(plane: ControlPlane) -> None:
    one, two = await config(plane, "one"), await config(plane, "two")
    await config(plane, "shared", owner(one), owner(two))
    await plane.client.delete(ConfigMap, "one", "default")
    await plane.run(0)
    shared = await plane.find(ConfigMap, "shared")
    assert shared is not None
    assert [reference.name for reference in shared.metadata.owner_references] == ["two"]


async def test_foreground_deletion_waits_for_dependents_that_block(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    await config(plane, "slow", owner(top), finalizers=["example.com/wait"])
    await plane.client.delete(ConfigMap, "top", "default", propagation_policy="Foreground")
    await plane.run(0)
    slow = await plane.find(ConfigMap, "slow")
    assert slow is not None
    assert slow.metadata.deletion_timestamp is not None
    assert await plane.find(ConfigMap, "top") is not None
    await plane.client.patch(ConfigMap, "slow", {"metadata": {"$deleteFromPrimitiveList/finalizers": [
        "example.com/wait"]}}, "default")  # fmt: skip
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == []


async def test_foreground_deletion_goes_down_the_tree(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    middle = await config(plane, "middle", owner(top))
    await config(plane, "leaf", owner(middle))
    await plane.client.delete(ConfigMap, "top", "default", propagation_policy="Foreground")
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == []


async def test_foreground_deletion_ends_where_owners_go_in_a_circle(plane: ControlPlane) -> None:
    one = await config(plane, "one")
    two = await config(plane, "two", owner(one))
    three = await config(plane, "three", owner(two))
    await plane.client.patch(ConfigMap, "one", {"metadata": {"ownerReferences": [owner(three)]}}, "default")
    await plane.run(0)
    await plane.client.delete(ConfigMap, "one", "default", propagation_policy="Foreground")
    await plane.run(1)
    assert await plane.names(ConfigMap, "default") == []


async def test_dependents_that_do_not_block_do_not_hold_the_owner(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    await config(plane, "slow", owner(top, blocks=False), finalizers=["example.com/wait"])
    await plane.client.delete(ConfigMap, "top", "default", propagation_policy="Foreground")
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == ["slow"]


async def test_orphans_stay_without_their_reference(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    await config(plane, "child", owner(top))
    await plane.client.delete(ConfigMap, "top", "default", propagation_policy="Orphan")
    await plane.run(0)
    child = await plane.find(ConfigMap, "child")
    assert await plane.names(ConfigMap, "default") == ["child"]
    assert child is not None
    assert child.metadata.owner_references == []


async def test_an_object_whose_owner_never_was_goes(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    wrong = {**owner(top), "uid": "00000000-0000-0000-0000-000000000000"}
    await config(plane, "child", wrong)
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == ["top"]


@pytest.mark.parametrize(
    ("namespace", "said"),
    [("kube-public", {}), ("default", {"name": "other"}), ("default", {"kind": "Secret"})],
    ids=["from another namespace", "by another name", "as another kind"],
)
async def test_an_owner_that_is_named_wrongly_keeps_what_it_has(
    plane: ControlPlane, namespace: str, said: dict[str, object]
) -> None:
    top = await config(plane, "top")
    await config(plane, "wrong", {**owner(top), **said}, namespace=namespace)
    await plane.run(0)
    assert await plane.find(ConfigMap, "wrong", namespace) is None
    await config(plane, "right", owner(top))
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == ["right", "top"]


async def test_an_owner_of_an_unknown_kind_is_left_alone(plane: ControlPlane) -> None:
    unknown: dict[str, object] = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "a", "uid": "1"}
    await config(plane, "child", unknown)
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == ["child"]


async def test_owners_of_the_whole_cluster_count(plane: ControlPlane) -> None:
    node = await plane.node("n")
    await config(plane, "child", owner(node, "Node"))
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == ["child"]
    await plane.client.delete(Node, "n")
    await plane.run(0)
    assert await plane.names(ConfigMap, "default") == []


async def test_what_was_deleted_between_two_lists_is_found(plane: ControlPlane) -> None:
    top = await config(plane, "top")
    for number in range(3):
        await plane.pod(f"web-{number}", metadata={"ownerReferences": [owner(top)]})
    await plane.stop()
    await plane.client.delete(ConfigMap, "top", "default")
    await plane.start()
    await plane.run(0)
    assert await plane.names(Pod) == []
