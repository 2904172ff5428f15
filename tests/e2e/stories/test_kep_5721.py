"""The four stories of KEP-5721: operators for versions in tolerations, node affinity and volumes."""

import pytest

from stories import EXAMPLES, Story, documents

pytestmark = pytest.mark.req("5721.10")
CNI = "cni.projectcalico.org/version"


def test_story_1_a_pod_goes_where_the_kubelet_is_new_enough(story: Story) -> None:
    folder = "kep-5721/1-kubelet-version"
    story.apply(folder, "nodes", "story", "negative")
    story.runs("modern-app", on="upgraded-node")
    story.waits("too-modern-app", "4 node(s) didn't match Pod's node affinity/selector")


@pytest.mark.req("5721.8")
def test_story_1_a_pod_is_scheduled_once_a_node_has_been_upgraded(story: Story) -> None:
    story.apply("kep-5721/1-kubelet-version", "nodes", "negative")
    story.waits("too-modern-app")
    story.kubectl("label", "node", "old-node", "node.example/kubelet-version=v1.34.1", "--overwrite")
    story.runs("too-modern-app", on="old-node")


def test_story_2_a_pod_bears_an_older_cni(story: Story) -> None:
    folder = "kep-5721/2-older-cni"
    story.apply(folder, "nodes", "story", "negative")
    story.runs("tolerant-pod", on="old-cni-node-1")
    story.waits("less-tolerant-pod", f"1 node(s) had untolerated taint {{{CNI}: v3.27.2}}")


def test_story_2_the_toleration_ends_with_the_upgrade(story: Story) -> None:
    folder = "kep-5721/2-older-cni"
    story.apply(folder, "nodes")
    story.taint("old-cni-node-1", f"{CNI}=v3.28.0:NoSchedule")
    story.apply(folder, "story")
    story.waits("tolerant-pod", f"untolerated taint {{{CNI}: v3.28.0}}")


def test_story_3_a_pod_goes_where_the_runtime_is_new_enough(story: Story) -> None:
    story.apply("kep-5721/3-container-runtime", "nodes", "story")
    story.runs("modern-app", on="containerd-2")


def test_story_3_a_value_that_is_no_version_is_refused(story: Story) -> None:
    [pod] = documents(EXAMPLES / "kep-5721/3-container-runtime/negative.yaml")
    said = story.refused(pod)
    assert 'matchExpressions[0].values[0]: Invalid value: "containerd://2.0.0"' in said
    assert 'Invalid character(s) found in major number "containerd://2"' in said


def test_story_4_a_pod_goes_where_its_volume_can_be(story: Story) -> None:
    folder = "kep-5721/4-volume-needs-kernel"
    story.apply(folder, "nodes", "story")
    story.runs("database", on="new-kernel")
    story.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=20s", "pvc/data", "pv/advanced-storage-pv")
    story.apply(folder, "negative")
    story.waits("tied-to-an-old-kernel", "1 node(s) didn't find available persistent volumes to bind")
