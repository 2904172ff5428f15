"""The two stories of KEP-3633, and the case that it was written for: label keys in pod affinity."""

from collections.abc import Set

import pytest

from eventually import eventually
from stories import EXAMPLES, Story, documents

pytestmark = pytest.mark.req("3633.5")
ROLLOUT = ("rollout", "status", "--timeout=20s")


def nodes_of(story: Story, selector: str) -> dict[str, str]:
    """Where each pod is."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in story.pods(selector)}


def pending(story: Story, selector: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in story.pods(selector)
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]


def test_story_1_a_new_revision_settles_together_where_there_is_room(story: Story) -> None:
    story.apply("kep-3633/1-affinity-within-a-revision", "nodes", "story")
    story.kubectl(*ROLLOUT, "deployment/application-server")
    [before] = set(nodes_of(story, "app=database").values())
    story.kubectl("set", "image", "deployment/application-server", "server=server:2.0")
    story.kubectl(*ROLLOUT, "deployment/application-server")
    [after] = eventually(lambda: _one(set(nodes_of(story, "app=database").values())))
    assert {before, after} == {"zone-a-node", "zone-b-node"}


def test_story_1_without_label_keys_the_new_revision_hangs(story: Story) -> None:
    story.apply("kep-3633/1-affinity-within-a-revision", "nodes", "negative")
    story.kubectl(*ROLLOUT, "deployment/hanging-server")
    story.kubectl("set", "image", "deployment/hanging-server", "server=server:2.0")
    new = eventually(lambda: pending(story, "app=hanging"))
    story.waits(new[0], "didn't match pod affinity rules", "Insufficient cpu")


def test_story_1_the_selector_shows_the_revision(story: Story) -> None:
    """How someone knows that the feature works, by the proposal: the selector of the pods has been extended."""
    story.apply("kep-3633/1-affinity-within-a-revision", "nodes", "story")
    pod = eventually(lambda: story.pods("app=database"))[0]
    [term] = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    revision = pod["metadata"]["labels"]["pod-template-hash"]
    assert term["labelSelector"]["matchExpressions"][1:] == [
        {"key": "pod-template-hash", "operator": "In", "values": [revision]}
    ]


def test_story_2_every_tenant_has_a_pool_to_itself(story: Story) -> None:
    folder = "kep-3633/2-tenant-per-pool"
    story.apply(folder, "nodes", "story")
    story.kubectl("wait", "--for=condition=Ready", "--timeout=20s", "pod", "--all")
    pools = [{node[: len("pool-1")] for node in nodes_of(story, f"tenant={name}").values()} for name in TENANTS]
    assert sorted(map(sorted, pools)) == [["pool-1"], ["pool-2"]]
    story.apply(folder, "negative")
    story.waits("tenant-c-1", "4 node(s) didn't match pod anti-affinity rules")


def test_story_2_label_keys_need_a_selector(story: Story) -> None:
    [pod] = documents(EXAMPLES / "kep-3633/2-tenant-per-pool/negative.yaml")
    [term] = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    del term["labelSelector"]
    assert "matchLabelKeys" in story.refused(pod)


def test_a_rolling_update_finishes_in_a_full_cluster(story: Story) -> None:
    story.apply("kep-3633/3-rolling-update-in-a-full-cluster", "nodes", "story")
    story.kubectl(*ROLLOUT, "deployment/web")
    assert len(set(nodes_of(story, "app=web").values())) == 3
    story.kubectl("set", "image", "deployment/web", "web=web:2.0")
    story.kubectl(*ROLLOUT, "deployment/web")
    eventually(lambda: len(nodes_of(story, "app=web")) == 3)
    assert len(set(nodes_of(story, "app=web").values())) == 3


def test_a_rolling_update_without_label_keys_hangs_in_a_full_cluster(story: Story) -> None:
    story.apply("kep-3633/3-rolling-update-in-a-full-cluster", "nodes", "negative")
    story.kubectl(*ROLLOUT, "deployment/crowded")
    story.kubectl("set", "image", "deployment/crowded", "web=web:2.0")
    [new] = eventually(lambda: pending(story, "app=crowded"))
    story.waits(new, "3 node(s) didn't match pod anti-affinity rules")
    story.kubectl("rollout", "status", "deployment/crowded", "--timeout=2s", code=1)


TENANTS = ("tenant-a", "tenant-b")


def _one(found: Set[str]) -> Set[str]:
    """Return the set when it has one member."""
    return found if len(found) == 1 else frozenset()
