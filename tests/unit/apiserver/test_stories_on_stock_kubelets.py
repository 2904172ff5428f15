"""The stories of the proposals, pod by pod, on kubelets that know none of the new words."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from api_caller import PODS, ApiCaller, api_caller, pod
from mooring.admission.options import for_component
from mooring.api.scheme import Scheme
from mooring.base import component
from stock_kubelet import RELEASES, StockKubelet
from stories import EXAMPLES, documents

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SLA = "node.kubernetes.io/sla"
REFUSED = "NodeAffinity"


@dataclass
class Story:
    """A pod of a story, the nodes whose kubelets take it, and why others refuse it when it is forced upon them."""

    folder: str
    pod: str
    taken: tuple[str, ...]
    refused: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ("nodes", "story")
    taints: dict[str, str] = field(default_factory=dict)
    """Values that the story gives to the first taint of a node before the pod comes."""


RATED_960 = {"ondemand-node-1": "960"}
STORIES = [
    Story("kep-5471/1-spot-nodes", "cost-optimized-workload", ("spot-node-1",), {"reserved-node-1": REFUSED}),
    Story("kep-5471/1-spot-nodes", "critical-workload", ("reliable-node-1",), files=("nodes", "story", "later")),
    Story("kep-5471/2-evict-when-sla-drops", "inference-service", ("ondemand-node-1",), taints=RATED_960),
    Story("kep-5471/2-evict-when-sla-drops", "inference-service", (), {"ondemand-node-1": "TaintToleration"}),
    Story("kep-5471/3-training-on-spot", "training-worker", ("spot-gpu-1", "ondemand-gpu-1")),
    Story("kep-5471/3-training-on-spot", "parameter-server", ("ondemand-gpu-1",)),
    Story("kep-5471/4-gpu-claims", "dra-workload", ("gpu-node-01",)),
    Story("kep-5471/5-error-budget", "training", ("gpu-node-01",)),
    Story("kep-5721/1-kubelet-version", "modern-app", ("upgraded-node",), {"old-node": REFUSED}),
    Story("kep-5721/2-older-cni", "tolerant-pod", ("old-cni-node-1",)),
    Story("kep-5721/3-container-runtime", "modern-app", ("containerd-2",), {"containerd-1": REFUSED}),
    Story("kep-5721/4-volume-needs-kernel", "database", ("new-kernel",), {"old-kernel": "FailedMount"}),
    Story("kep-5500/1-either-maintenance", "monitoring-agent", ("patched-node", "rebuilt-node")),
    Story("kep-5500/2-cni-version-in-cel", "compatible-workload", ("node-1",)),
    Story("kep-5500/3-rack-prefix", "regional-app", ("west-node",), {"east-node": REFUSED}),
    Story("kep-5500/4-kubelet-version-in-cel", "modern-app", ("new-node",), {"old-node": REFUSED}),
    Story("kep-5500/5-volume-with-cel", "database", ("storage-node",), {"plain-node": "FailedMount"}),
    Story("kep-3633/1-affinity-within-a-revision", "application-server", ("zone-a-node", "zone-b-node")),
    Story("kep-3633/2-tenant-per-pool", "tenant-a-1", ("pool-1-node-1",)),
    Story("kep-3633/3-rolling-update-in-a-full-cluster", "web", ("node-1",)),
]  # fmt: skip


def all_of(story: Story) -> Iterator[dict[str, Any]]:
    for name in story.files:
        yield from documents(EXAMPLES / story.folder / f"{name}.yaml")


def pod_of(story: Story) -> dict[str, Any]:
    """Return the pod itself, or what a workload would make of its template."""
    for tree in all_of(story):
        if tree["kind"] in {"Pod", "Deployment"} and tree["metadata"]["name"] == story.pod:
            template = tree if tree["kind"] == "Pod" else tree["spec"]["template"]
            return {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
    raise AssertionError(f"{story.folder} has no {story.pod}")


async def begin(api: ApiCaller, story: Story) -> None:
    """Create the nodes, and the volumes with the claims bound to them."""
    volume = ""
    for tree in all_of(story):
        match tree["kind"]:
            case "Node":
                name = tree["metadata"]["name"]
                tree["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = name  # as kubelets do
                value = story.taints.get(name)
                if value:
                    tree["spec"]["taints"][0]["value"] = value
                assert (await api.post("/api/v1/nodes", tree)).code == 201
            case "PersistentVolume":
                assert (await api.post("/api/v1/persistentvolumes", tree)).code == 201
                volume = tree["metadata"]["name"]
            case "PersistentVolumeClaim":
                tree["spec"]["volumeName"] = volume
                assert (await api.post(CLAIMS, tree)).code == 201


async def force(api: ApiCaller, story: Story, node: str) -> None:
    """Create the pod with `spec.nodeName`, past the scheduler."""
    made = pod_of(story)
    made["metadata"]["name"] = story.pod
    made["spec"]["nodeName"] = node
    answer = await api.post(PODS, made)
    assert answer.code == 201, answer.message


@pytest.mark.req("N.1", "5471.9", "5721.10", "5500.13", "3633.5")
@pytest.mark.parametrize(
    "story", STORIES, ids=lambda story: f"{story.folder} {story.pod} {sorted(story.taints.values())}"
)
async def test_kubelets_take_the_pods_of_a_story_and_refuse_those_forced_upon_them(
    api: ApiCaller, story: Story
) -> None:
    await begin(api, story)
    for node, reason in {**dict.fromkeys(story.taken, ""), **story.refused}.items():
        await force(api, story, node)
        assert await StockKubelet(api, node).admit() == {story.pod: reason}
        status = (await api.get(f"{PODS}/{story.pod}")).body["status"]
        assert status["phase"] == ("Failed" if reason else "Running")
        await api.call("DELETE", f"{PODS}/{story.pod}", {"gracePeriodSeconds": 0})


@pytest.mark.req("N.1")
async def test_every_story_that_has_a_pod_is_among_them() -> None:
    have_pods = {
        str(path.parent.relative_to(EXAMPLES))
        for path in EXAMPLES.glob("kep-*/*/story.yaml")
        if {tree["kind"] for tree in documents(path)} & {"Pod", "Deployment"}
    }
    assert have_pods == {story.folder for story in STORIES}


EVICTED = STORIES[2]


@pytest.mark.req("N.1")
async def test_a_kubelet_that_restarts_admits_by_the_taints_of_that_moment(api: ApiCaller) -> None:
    await begin(api, EVICTED)
    await force(api, EVICTED, "ondemand-node-1")
    kubelet = StockKubelet(api, "ondemand-node-1")
    assert await kubelet.admit() == {"inference-service": ""}
    for value, reason in (("970", ""), ("940", "TaintToleration")):
        taints = [{"key": SLA, "value": value, "effect": "NoExecute"}]
        await api.patch("/api/v1/nodes/ondemand-node-1", {"spec": {"taints": taints}})
        assert await kubelet.admit() == {}, "what runs is not judged again"
        assert await StockKubelet(api, "ondemand-node-1").admit() == {"inference-service": reason}


@pytest.mark.req("N.1")
@pytest.mark.parametrize(
    ("release", "comparisons"),
    [*((release, False) for release in RELEASES), *((release, True) for release in RELEASES if release >= "1.35")],
)
async def test_kubelets_of_every_release_take_the_same_pods(api: ApiCaller, release: str, comparisons: bool) -> None:
    await begin(api, EVICTED)
    await force(api, EVICTED, "ondemand-node-1")
    kubelet = StockKubelet(api, "ondemand-node-1", release, comparisons=comparisons)
    assert await kubelet.admit() == {"inference-service": ""}


@pytest.mark.req("N.3", "4330.13")
@pytest.mark.parametrize("version", RELEASES)
async def test_a_server_that_emulates_an_older_version_fails_closed_for_nodes_too(api: ApiCaller, version: str) -> None:
    """Pods of before a rollback: their constraints cannot be evaluated any more, so they hold nowhere."""
    await begin(api, EVICTED)
    await force(api, EVICTED, "ondemand-node-1")
    await api.post(PODS, pod("plain", nodeName="ondemand-node-1", tolerations=[{"operator": "Exists"}]))
    emulating = component.resolve(emulation=version)
    scheme = Scheme(emulating.versions)
    async with api_caller(scheme=scheme, options=for_component(emulating), store=api.store) as older:
        verdicts = await StockKubelet(older, "ondemand-node-1", version).admit()
    expected = "" if version == "1.37" else "TaintToleration"
    assert verdicts == {"inference-service": expected, "plain": ""}
