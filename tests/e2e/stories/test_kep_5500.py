"""The five stories of KEP-5500: CEL in tolerations, node affinity and volumes."""

import pytest

from stories import EXAMPLES, Story, documents

pytestmark = pytest.mark.req("5500.13")
CNI = "cni.projectcalico.org/version"
MISMATCH = "didn't match Pod's node affinity/selector"


def test_story_1_one_toleration_for_either_kind_of_maintenance(story: Story) -> None:
    folder = "kep-5500/1-either-maintenance"
    story.apply(folder, "nodes", "story", "negative")
    story.kubectl("wait", "--for=condition=Ready", "--timeout=20s", "pod", "-l", "app=monitoring")
    nodes = {story.node_of(pod) for pod in ("monitoring-agent", "second-monitoring-agent")}
    assert nodes == {"patched-node", "rebuilt-node"}
    story.waits("misplaced-agent", "1 node(s) had untolerated taint {maintenance: decommissioned}")


def test_story_1_an_expression_stands_alone(story: Story) -> None:
    [pod] = documents(EXAMPLES / "kep-5500/1-either-maintenance/negative.yaml")
    pod["spec"]["tolerations"][0]["key"] = "maintenance"
    assert "spec.tolerations[0]" in story.refused(pod)


def test_story_2_a_toleration_for_a_range_of_versions(story: Story) -> None:
    folder = "kep-5500/2-cni-version-in-cel"
    story.apply(folder, "nodes", "story", "negative")
    story.runs("compatible-workload", on="node-1")
    story.waits("demanding-workload", *(f"{{{CNI}: {value}}}" for value in ("v3.27.2", "v3.24.1", "unknown")))


def test_story_3_a_pod_goes_where_the_rack_is(story: Story) -> None:
    folder = "kep-5500/3-rack-prefix"
    story.apply(folder, "nodes", "story", "negative")
    story.runs("regional-app", on="west-node")
    story.waits("european-app", f"3 node(s) {MISMATCH}")


def test_story_4_a_pod_goes_where_the_kubelet_is_new_enough(story: Story) -> None:
    folder = "kep-5500/4-kubelet-version-in-cel"
    story.apply(folder, "nodes", "story", "negative")
    story.runs("modern-app", on="new-node")
    story.waits("too-modern-app", f"2 node(s) {MISMATCH}")


def test_story_4_an_expression_that_does_not_compile_is_refused(story: Story) -> None:
    [pod] = documents(EXAMPLES / "kep-5500/4-kubelet-version-in-cel/story.yaml")
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms["nodeSelectorTerms"][0]["matchCELExpressions"] = ["semver.compare(node.labels['a'])"]
    said = story.refused(pod)
    assert "nodeSelectorTerms[0].matchCELExpressions[0]" in said
    assert "compilation failed" in said


def test_story_5_a_pod_goes_where_its_volume_can_be(story: Story) -> None:
    folder = "kep-5500/5-volume-with-cel"
    story.apply(folder, "nodes", "story")
    story.runs("database", on="storage-node")
    story.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=20s", "pvc/data", "pv/advanced-storage-pv")
    story.apply(folder, "negative")
    story.waits("tied-to-a-plain-node", "1 node(s) didn't find available persistent volumes to bind")
