"""The five stories of KEP-5471: numeric tolerations, for nodes and for devices."""

import pytest

from eventually import eventually, never
from stories import EXAMPLES, Story, documents

pytestmark = pytest.mark.req("5471.9")
SLA = "node.kubernetes.io/sla"


def test_story_1_pods_opt_in_to_spot_nodes(story: Story) -> None:
    folder = "kep-5471/1-spot-nodes"
    story.apply(folder, "nodes", "story")
    story.runs("cost-optimized-workload", on="spot-node-1")
    story.runs("flexible-sla-workload", on="reserved-node-1")
    story.waits("critical-workload", f"{{{SLA}: 800}}", f"{{{SLA}: 900}}")
    story.apply(folder, "later")
    story.runs("critical-workload", on="reliable-node-1")


def test_story_1_pods_that_did_not_opt_in_are_repelled(story: Story) -> None:
    story.apply("kep-5471/1-spot-nodes", "nodes", "negative")
    story.waits("unaware-workload", f"untolerated taint {{{SLA}: 800}}", f"untolerated taint {{{SLA}: 900}}")
    story.waits("at-the-threshold", f"untolerated taint {{{SLA}: 800}}")


def test_story_1_a_threshold_is_a_whole_number(story: Story) -> None:
    pod = documents(EXAMPLES / "kep-5471/1-spot-nodes/story.yaml")[2]
    pod["spec"]["tolerations"][0]["value"] = "95.5"
    assert 'spec.tolerations[0].value: Invalid value: "95.5"' in story.refused(pod)


def test_story_2_a_service_leaves_when_the_sla_drops(story: Story) -> None:
    story.apply("kep-5471/2-evict-when-sla-drops", "nodes", "story")
    first = only_pod(story, "app=inference-service")
    story.waits(first, f"untolerated taint {{{SLA}: 950}}")
    story.taint("ondemand-node-1", f"{SLA}=960:NoExecute")
    story.runs(first, on="ondemand-node-1")
    story.taint("ondemand-node-1", f"{SLA}=940:NoExecute")
    second = eventually(lambda: [pod for pod in names(story, "app=inference-service") if pod != first])[0]
    story.waits(second, f"untolerated taint {{{SLA}: 940}}")


def test_story_2_a_matched_taint_is_borne_for_so_many_seconds(story: Story) -> None:
    """The proposal's thirty seconds, shortened to one."""
    folder = "kep-5471/2-evict-when-sla-drops"
    story.apply(folder, "nodes")
    story.taint("ondemand-node-1", f"{SLA}=960:NoExecute")
    [deployment] = documents(EXAMPLES / folder / "story.yaml")
    deployment["spec"]["template"]["spec"]["tolerations"][0]["tolerationSeconds"] = 1
    story.kubectl.apply(deployment)
    first = only_pod(story, "app=inference-service")
    eventually(lambda: first not in names(story, "app=inference-service"))


def test_story_2_a_service_stays_while_the_sla_is_high_enough(story: Story) -> None:
    story.apply("kep-5471/2-evict-when-sla-drops", "nodes", "negative")
    pod = only_pod(story, "app=steady-service")
    story.taint("ondemand-node-1", f"{SLA}=960:NoExecute")
    story.runs(pod, on="ondemand-node-1")
    story.taint("ondemand-node-1", f"{SLA}=955:NoExecute")
    never(lambda: names(story, "app=steady-service") != [pod])


def test_story_3_workers_run_on_spot_and_parameter_servers_do_not(story: Story) -> None:
    folder = "kep-5471/3-training-on-spot"
    story.apply(folder, "nodes", "story")
    story.runs("parameter-server", on="ondemand-gpu-1")
    story.runs("training-worker", on="spot-gpu-1")
    story.apply(folder, "negative")
    story.waits("second-parameter-server", "1 Insufficient nvidia.com/gpu", f"untolerated taint {{{SLA}: 850}}")


@pytest.mark.req("5471.8")
def test_story_4_a_claim_gets_a_device_that_is_reliable_enough(story: Story) -> None:
    folder = "kep-5471/4-gpu-claims"
    story.apply(folder, "nodes", "story")
    story.runs("dra-workload", on="gpu-node-01")
    assert device_of(story, "gpu-claim-high-sla") == "gpu-node-01-device-0"
    story.apply(folder, "negative")
    story.waits("unallocated", "cannot allocate all claims")
    assert device_of(story, "gpu-claim-highest-sla") == ""


@pytest.mark.req("5471.8")
def test_story_4_devices_know_numbers_but_not_versions(story: Story) -> None:
    claim = documents(EXAMPLES / "kep-5471/4-gpu-claims/negative.yaml")[0]
    claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0]["operator"] = "SemverGt"
    assert 'Unsupported value: "SemverGt"' in story.refused(claim)


@pytest.mark.req("5471.8")
def test_story_5_devices_are_given_out_by_their_error_budget(story: Story) -> None:
    folder = "kep-5471/5-error-budget"
    story.apply(folder, "nodes", "story")
    story.runs("training", on="gpu-node-01")
    assert device_of(story, "training-gpu-claim") == "gpu-node-01-device-0"
    story.waits("inference", "cannot allocate all claims")
    story.apply(folder, "negative")
    story.waits("second-training", "cannot allocate all claims")
    story.apply(folder, "later")
    story.runs("inference", on="gpu-node-01")
    assert device_of(story, "inference-gpu-claim") == "gpu-node-01-device-2"
    assert device_of(story, "second-training-gpu-claim") == ""


@pytest.mark.req("5471.8")
def test_story_5_a_device_that_is_worn_out_loses_its_pods(story: Story) -> None:
    folder = "kep-5471/5-error-budget"
    story.apply(folder, "nodes", "story")
    story.runs("training", on="gpu-node-01")
    story.apply(folder, "worn-out")
    story.kubectl("wait", "--for=delete", "--timeout=20s", "pod/training")


def names(story: Story, selector: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in story.pods(selector)]


def only_pod(story: Story, selector: str) -> str:
    """Return the name of a workload's single pod, as soon as it is there."""
    [name] = eventually(lambda: names(story, selector))
    return name


def device_of(story: Story, claim: str) -> str:
    path = "{.status.allocation.devices.results[*].device}"
    return story.kubectl("get", "resourceclaim", claim, "-o", f"jsonpath={path}")
