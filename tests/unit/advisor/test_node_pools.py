"""Node pools: which can serve a pod, and the autoscaler that adds their nodes in a simulation."""

from dataclasses import replace
from typing import Any

import pytest

from mooring.advisor.plan import plan, reports
from mooring.advisor.simulate import Scenario, ScenarioError, Settings, Simulation, simulate
from mooring.advisor.simulate.node_pools import NodePool, explain_pools, find_pools, read_pools
from mooring.advisor.snapshot import RawObject, Snapshot, dump
from mooring.api.apps_v1 import DaemonSet, Deployment
from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import Resource
from mooring.testing import builders

pytestmark = pytest.mark.req("E.4")


def app(replicas: int, cpu: str = "1", **spec: Any) -> Deployment:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    tree = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    meta = {"name": "web", "namespace": "default"}
    return builders.made(Deployment, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": tree})


def pool(name: str, cpu: str = "4", price: float = 0.0, maximum: int = 10, **node: Any) -> NodePool:
    return NodePool(name, (builders.node(name, cpu=cpu, **node),), maximum, price, 60.0)


def simulated(pools: list[NodePool], *objects: Resource) -> Simulation:
    return simulate(Snapshot("a test", objects), Scenario(), replace(Settings(), pools=tuple(pools)))


def test_nodes_come_when_pods_fit_nowhere() -> None:
    result = simulated([pool("a")], builders.node("n", cpu="1"), app(5))
    assert [(name, at) for at, name, _ in result.added_nodes] == [("a-new-1", 70.0)]
    assert (result.counts.pending, result.counts.running) == (0, 5)


def test_the_cheapest_pool_that_fits_is_taken() -> None:
    pools = [pool("dear", price=2.0), pool("cheap", price=1.0), pool("tiny", "500m", price=0.1)]
    result = simulated(pools, builders.node("n", cpu="1"), app(3))
    assert {source for _, _, source in result.added_nodes} == {"cheap"}


def test_a_pool_makes_no_more_nodes_than_its_maximum() -> None:
    result = simulated([pool("a", maximum=2)], app(12))
    assert (len(result.added_nodes), result.counts.pending) == (2, 4)


def test_no_node_comes_for_a_pod_that_no_pool_serves() -> None:
    result = simulated([pool("a", taints=["dedicated=batch:NoSchedule"])], app(1))
    assert (result.added_nodes, result.counts.pending) == ((), 1)


def test_pools_say_why_they_cannot_serve_a_pod_with_the_nearest_first() -> None:
    pools = [
        pool("tainted-and-small", "1", taints=["dedicated=batch:NoSchedule"]),
        pool("small", "1"),
        pool("fits", "8"),
    ]
    found = explain_pools(Snapshot("a test", []), pools, builders.pod("web", cpu="2"))
    assert (found[0].pool, found[0].fits) == ("fits", True)
    reasons = {each.pool: each.reasons for each in found}
    assert reasons["small"] == ("Insufficient cpu",)
    assert "untolerated taint" in reasons["tainted-and-small"][0]


DAEMON = {"spec": {"containers": [{"name": "c", "image": "logs:1", "resources": {"limits": {"cpu": "1"}}}]}}


def daemon_set() -> DaemonSet:
    labels = {"app": "logs"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, **DAEMON}}
    return builders.made(DaemonSet, {"metadata": {"name": "logs", "namespace": "default"}, "spec": spec})


def test_pods_of_daemon_sets_take_their_room_on_every_new_node() -> None:
    result = simulated([pool("a")], app(4), daemon_set())
    assert (len(result.added_nodes), result.counts.pending) == (2, 0)
    (verdict,) = explain_pools(Snapshot("a test", [daemon_set()]), [pool("a")], builders.pod("web", cpu="3500m"))
    assert (verdict.fits, verdict.reasons) == (False, ("Insufficient cpu",))


def test_a_new_node_is_asked_for_beside_the_nodes_that_exist() -> None:
    zones = [builders.node(f"n-{zone}", cpu="1", labels={"zone": zone}) for zone in "ab"]
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pods = app(5, topologySpreadConstraints=[{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}])
    result = simulated([pool("a", labels={"zone": "a"})], *zones, pods)
    assert (len(result.added_nodes), result.counts.running, result.counts.pending) == (1, 3, 2)


def test_a_pod_of_a_scheduler_that_is_not_simulated_gets_no_node() -> None:
    result = simulated([pool("a")], builders.pod("p", spec={"schedulerName": "other"}))
    assert (result.added_nodes, result.counts.pending) == ((), 1)


def test_a_plan_names_the_pools_that_cannot_serve() -> None:
    settings = replace(Settings(), pools=(pool("gpu", taints=["gpu=yes:NoSchedule"]),))
    found = plan(Snapshot("a test", [builders.node("n", cpu="1")]), [app(3, "2")], settings)
    assert [(each.pool, each.fits) for each in found.pools] == [("gpu", False)]
    assert "No pool can make a node for this pod" in reports.format_markdown(found)


MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: small, annotations: {pool.mooring.dev/max: "%s", pool.mooring.dev/ready: 2m}}
status: {allocatable: {cpu: "2", pods: "10"}}
"""


def test_pools_are_read_from_node_manifests() -> None:
    found = read_pools((MANIFEST % 3).encode(), "pools.yaml")
    assert [(each.name, each.maximum, each.ready_seconds) for each in found] == [("small", 3, 120.0)]


def test_a_wrong_annotation_names_file_and_pool() -> None:
    with pytest.raises(ScenarioError, match=r"pools.yaml: the pool small: .*'many'"):
        read_pools((MANIFEST % "many").encode(), "pools.yaml")


KARPENTER = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    metadata: {labels: {team: shop}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      taints: [{key: spot, value: "yes", effect: NoSchedule}]
---
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {karpenter.sh/nodepool: general}}
status: {allocatable: {cpu: "8", pods: "10"}}
"""


def test_the_pools_of_a_cluster_are_its_groups_with_what_karpenter_adds(tmp_path: Any) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(KARPENTER)
    (found,) = find_pools(dump([path]))
    labels = found.templates[0].metadata.labels
    assert (found.name, labels["team"], labels["karpenter.sh/capacity-type"]) == ("general", "shop", "spot")
    assert [taint.key for taint in found.templates[0].spec.taints] == ["spot"]


SECOND_POOL = """
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  limits: %(limits)s
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: topology.kubernetes.io/zone, operator: In, values: [a, b]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: %(types)s}
---
apiVersion: v1
kind: Node
metadata: {name: other, labels: {node.kubernetes.io/instance-type: m5.large}}
status: {allocatable: {cpu: "4", pods: "10"}}
"""
NODE_CLASS = """
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {kubelet: {maxPods: 3}}
status: {conditions: [{type: Ready, status: "%s", message: no subnets found}]}
"""


@pytest.mark.parametrize(
    ("limits", "types", "node_class", "reason"),
    [
        pytest.param("{}", "[m5.large]", NODE_CLASS % "True", "", id="another node with the type is the template"),
        pytest.param("{}", "[c5.large]", NODE_CLASS % "True", "no node of the cluster shows", id="no such type"),
        pytest.param("{}", "[m5.large]", NODE_CLASS % "False", "not ready: no subnets", id="class not ready"),
        pytest.param("{}", "[m5.large]", "", "EC2NodeClass default does not exist", id="class missing"),
        pytest.param('{cpu: "3"}', "[m5.large]", NODE_CLASS % "True", "leave no room", id="limits"),
    ],
)
def test_a_karpenter_pool_without_nodes_serves_or_says_why_not(
    limits: str, types: str, node_class: str, reason: str, tmp_path: Any
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(KARPENTER + SECOND_POOL % {"limits": limits, "types": types} + node_class)
    cluster = dump([path])
    pools = {each.name: each for each in find_pools(cluster)}
    in_zone_b = builders.pod("p", spec={"nodeSelector": {"topology.kubernetes.io/zone": "b"}})
    (verdict,) = explain_pools(cluster, [pools["batch"]], in_zone_b)
    assert verdict.fits is (not reason)
    assert reason in "".join(verdict.reasons)
    assert reason or str(pools["batch"].templates[0].status.allocatable["pods"]) == "3"


CPUS = "karpenter.k8s.aws/instance-cpu"


@pytest.mark.parametrize(
    ("requirement", "is_like"),
    [
        pytest.param({"operator": "Gt", "values": ["2"]}, True, id="greater"),
        pytest.param({"operator": "Gt", "values": ["4"]}, False, id="not greater"),
        pytest.param({"operator": "Lt", "values": ["5"]}, True, id="less"),
        pytest.param({"operator": "Gte", "values": ["4"]}, True, id="equal"),
        pytest.param({"operator": "NotIn", "values": ["4"]}, False, id="excluded"),
        pytest.param({"operator": "Exists"}, True, id="there"),
        pytest.param({"operator": "DoesNotExist"}, False, id="there although it must not be"),
        pytest.param({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}, False, id="not there"),
        pytest.param({"key": "team", "operator": "In", "values": ["shop"]}, True, id="a label that Karpenter sets"),
    ],
)
def test_a_node_is_the_template_of_a_pool_when_it_meets_its_requirements(
    requirement: dict[str, Any], is_like: bool
) -> None:
    spec = {"template": {"spec": {"requirements": [{"key": CPUS, **requirement}]}}}
    tree = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "new"}, "spec": spec}
    raw = RawObject("karpenter.sh/v1", "NodePool", "", "new", _tree=tree)
    (found,) = find_pools(Snapshot("a test", [builders.node("n", labels={CPUS: "4"})], [raw]))
    assert bool(found.templates) is is_like


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("NodeGroups:\n  Name: mig-general-1\n  Health: (ready=1 (minSize=0, maxSize=3))", id="text"),
        pytest.param("nodeGroups:\n- name: mig-general-1\n  health: {status: Healthy, maxSize: 3}", id="YAML"),
    ],
)  # fmt: skip
def test_the_maximum_of_a_group_is_that_of_cluster_autoscaler(status: str) -> None:
    labels = {"cloud.google.com/gke-nodepool": "general"}
    settings = builders.made(ConfigMap, {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": status}})
    (found,) = find_pools(Snapshot("a test", [builders.node("n", labels=labels), settings]))
    assert found.maximum == 2


def test_groups_count_for_the_pool_whose_whole_name_they_have() -> None:
    sizes = {"gke-web-a-grp": 3, "gke-web-b-grp": 4, "gke-web2-a-grp": 9, "gke-web-gpu-a-grp": 5}
    status = "\n".join(f"- name: {name}\n  health: {{maxSize: {size}}}" for name, size in sizes.items())
    settings = builders.made(ConfigMap, {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": status}})
    nodes = [builders.node(name, labels={"cloud.google.com/gke-nodepool": name}) for name in ("web", "web-gpu")]
    found = find_pools(Snapshot("a test", [*nodes, settings]))
    assert {each.name: each.maximum for each in found} == {"web": 6, "web-gpu": 4}
