"""`mooring.advisor.simulate`: what becomes of pods when a cluster changes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from deployment_manifest import deployment
from mooring.advisor.simulate import (
    Add,
    AddNodes,
    Change,
    Cordon,
    Drain,
    Label,
    Remove,
    RemoveNodes,
    Scenario,
    ScenarioError,
    Settings,
    Simulation,
    Step,
    Taint,
    Untaint,
    compare_results,
    simulate,
)
from mooring.advisor.simulate import options as simulate_options
from mooring.advisor.simulate.changes import Scale
from mooring.advisor.simulate.manifests import read_objects
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.meta_v1 import Resource
from mooring.base import component
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing import builders

pytestmark = pytest.mark.req("S.5")

WEB = deployment("web", 4)
DAEMON = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: c, image: "agent:1", resources: {requests: {cpu: 100m}}}]
"""
DATABASE = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: "db:1", resources: {requests: {cpu: "3"}}}]
"""
SLA = """    spec:
      tolerations: [{key: sla, operator: Gt, value: '950', effect: NoSchedule}]
      containers"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""
STRICT = BUDGET.replace("maxUnavailable: 1", "minAvailable: 4")
IMPORTANT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
"""


def objects(text: str) -> tuple[Resource, ...]:
    return read_objects(text, "test.yaml")


def add(text: str, replicas: int | None = None) -> Add:
    return Add(objects(text), replicas)


def cluster(nodes: int = 3, cpu: str = "4", *others: Resource) -> Snapshot:
    return Snapshot("a test", [*(builders.node(f"n{number}", cpu=cpu) for number in range(nodes)), *others])


def run(snapshot: Snapshot, *changes: Change, settings: Settings | None = None, **scenario: object) -> Simulation:
    """Each change as a step of its own."""
    wanted = Scenario(tuple(Step((change,)) for change in changes))
    return simulate(snapshot, replace(wanted, **scenario), settings)  # type: ignore[arg-type] # fields of Scenario


def nodes_of(result: Simulation, owner: str = "") -> Counter[str]:
    return Counter(each.node for each in result.placements if not owner or each.owner == owner)


def gates(text: str) -> Settings:
    return simulate_options.for_component(component.resolve(gates=text), description=text)


# -- pods of workloads


@dataclass(frozen=True)
class Made:
    name: str
    manifest: str
    replicas: int | None
    placed: int
    pending: int = 0
    check: Callable[[Simulation], bool] = lambda _: True


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec:
  parallelism: 3
  completions: 5
  completionMode: COMPLETION
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "batch:1", resources: {requests: {cpu: 500m}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: lone}
spec: {containers: [{name: c, image: "lone:1", resources: {requests: {cpu: "2"}}}]}
"""


@pytest.mark.parametrize(
    "case",
    [
        Made("a Deployment brings the pods of its ReplicaSet", WEB, None, 4),
        Made("replicas given with it count instead of its own", WEB, 7, 7),
        Made("what does not fit stays pending", WEB, 15, 12, pending=3),
        Made("no replicas are no pods", WEB, 0, 0),
        Made(
            "a ReplicaSet brings its pods",
            WEB.replace("Deployment", "ReplicaSet"),
            None,
            4,
            check=lambda result: {each.owner for each in result.placements} == {"ReplicaSet default/web"},
        ),
        Made(
            "a StatefulSet numbers its pods, and makes the next one when the last one runs",
            DATABASE,
            5,
            3,
            pending=1,
            check=lambda result: (
                {each.pod for each in result.placements} == {"default/db-0", "default/db-1", "default/db-2"}
                and [each.pod for each in result.pending[0].pods] == ["default/db-3"]
            ),
        ),
        Made(
            "a StatefulSet in parallel makes all of them at once",
            DATABASE.replace("serviceName: db", "serviceName: db\n  podManagementPolicy: Parallel"),
            5,
            3,
            pending=2,
        ),
        Made("a Job brings as many pods as may run at once", JOB.replace("COMPLETION", "NonIndexed"), None, 3),
        Made(
            "an indexed Job gives them their indexes",
            JOB.replace("COMPLETION", "Indexed"),
            None,
            3,
            check=lambda result: (
                sorted(each.pod.rpartition("-")[0] for each in result.placements)
                == ["default/batch-0", "default/batch-1", "default/batch-2"]
            ),
        ),
        Made(
            "a DaemonSet has a pod on every node",
            DAEMON,
            None,
            3,
            check=lambda result: nodes_of(result) == Counter(n0=1, n1=1, n2=1),
        ),
        Made("a pod comes alone", POD, None, 1),
        Made(
            "several pods of one manifest have numbers",
            POD,
            3,
            3,
            check=lambda result: (
                {each.pod for each in result.placements} == {"default/lone-0", "default/lone-1", "default/lone-2"}
            ),
        ),
    ],
    ids=lambda case: case.name,
)
def test_workloads_bring_the_pods_that_their_controllers_would_make(case: Made) -> None:
    result = run(cluster(), add(case.manifest, case.replicas))
    assert (result.counts.placed, result.counts.pending) == (case.placed, case.pending)
    assert case.check(result)


def test_pods_that_fit_nowhere_tell_why_in_the_scheduler_s_words() -> None:
    result = run(cluster(), add(WEB, 15))
    (group,) = result.pending
    assert group.count == 3
    assert group.owners == ("Deployment default/web",)
    assert group.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")


@pytest.mark.req("5471.12")
def test_a_pod_that_the_server_refuses_is_reported_as_rejected() -> None:
    tolerating = WEB.replace(
        "    spec:\n      containers",
        SLA,
    )
    assert run(cluster(), add(tolerating)).counts.placed == 4
    # The Deployment itself is refused at once: its template says what the gate forbids.
    result = run(cluster(), add(tolerating), settings=gates("TaintTolerationComparisonOperators=false"))
    assert (result.counts.placed, result.counts.rejected) == (0, 1)
    assert result.rejected[0].name == "Deployment default/web"
    assert "Unsupported value" in result.rejected[0].message


@pytest.mark.req("5471.12")
def test_pods_of_a_stored_template_are_rejected_when_their_gate_is_off() -> None:
    """As after a rollback: the workload was stored before, and what it has lost cannot be created again."""
    (deployment,) = objects(
        WEB.replace(
            "    spec:\n      containers",
            SLA,
        )
    )
    result = run(cluster(3, "4", deployment), settings=gates("TaintTolerationComparisonOperators=false"))
    (group,) = result.rejected
    assert (group.name, group.count) == ("Deployment default/web", 4)
    assert 'Pod "web-' in group.message


def test_workloads_of_manifests_without_pods_get_them_at_the_beginning() -> None:
    result = run(cluster(3, "4", *objects(WEB), *objects(DAEMON)))
    assert nodes_of(result, "Deployment default/web").total() == 4
    assert nodes_of(result, "DaemonSet default/agent") == Counter(n0=1, n1=1, n2=1)


def test_gated_pods_say_so() -> None:
    result = run(cluster(), add(POD.replace("spec: {", "spec: {schedulingGates: [{name: wait}], ")))
    assert "scheduling gates" in result.pending[0].message.lower()


def test_pods_of_another_scheduler_wait_for_it() -> None:
    result = run(cluster(), add(POD.replace("spec: {", "spec: {schedulerName: other, ")))
    assert result.pending[0].message == "waits for the scheduler other, which is not simulated"


# -- pods of the snapshot


def test_pending_pods_of_the_snapshot_are_scheduled_unless_they_are_to_be_kept() -> None:
    waiting = builders.pod("waiting", cpu="1")
    snapshot = cluster(1, "4", waiting)
    assert run(snapshot).counts.placed == 1
    kept = run(snapshot, keep_pending=True)
    assert (kept.counts.placed, kept.counts.pending) == (0, 1)


def test_utilisation_is_reported_before_and_after() -> None:
    running = builders.pod("running", cpu="2", on="n0")
    result = run(cluster(2, "4", running), add(WEB))
    before = {use.resource: use for use in result.utilisation.before}["cpu"]
    after = {use.resource: use for use in result.utilisation.after}["cpu"]
    assert (before.allocatable, before.requested, before.fraction) == (8.0, 2.0, 0.25)
    assert (after.requested, after.fraction) == (6.0, 0.75)
    assert before.nodes.histogram[0] == 1  # the empty node
    assert before.nodes.histogram[4] == 1  # the other, used by half
    assert {node.name: (node.before or {})["cpu"] for node in result.nodes} == {"n0": 0.5, "n1": 0.0}


# -- changes of nodes


def test_draining_moves_pods_that_have_a_controller() -> None:
    result = run(cluster(), add(WEB), Drain(("n0",)))
    moved = nodes_of(run(cluster(), add(WEB)))["n0"]
    assert result.counts.evicted == moved > 0
    assert nodes_of(result)["n0"] == 0
    assert nodes_of(result).total() == 4
    assert all(each.cause == "drained" and each.replacement_node in ("n1", "n2") for each in result.evicted)


def test_draining_leaves_pods_of_daemon_sets_and_loses_lone_pods() -> None:
    lone = builders.pod("lone", cpu="1", on="n0")
    result = run(cluster(2, "4", lone), add(DAEMON), Drain(("n0",)))
    assert nodes_of(result) == Counter(n0=1, n1=1)
    assert [(each.pod, each.replacement) for each in result.evicted] == [("default/lone", "")]


def test_draining_respects_disruption_budgets_and_asks_again() -> None:
    """One pod may be missing at a time: five seconds each, as long as each finds a place."""
    result = run(cluster(3, "8"), add(WEB + "---" + BUDGET, 12), Drain(("n0",)))
    assert [each.at for each in result.evicted] == [5.0 * number for number in range(result.counts.evicted)]
    assert nodes_of(result)["n0"] == 0
    assert result.blocked == ()


def test_draining_is_blocked_by_a_budget_that_allows_nothing() -> None:
    result = run(cluster(3, "8"), add(WEB + "---" + STRICT), Drain(("*",)))
    assert (result.counts.evicted, result.counts.blocked) == (0, 4)
    assert result.blocked[0].message.startswith("Cannot evict pod as it would violate the pod's disruption budget.")


def taint(nodes: str, key: str, value: str = "", effect: str = "NoExecute") -> Taint:
    return Taint((nodes,), NodeTaint(key=key, value=value, effect=effect))


TOLERANT = WEB.replace(
    "    spec:\n      containers",
    "    spec:\n      tolerations: [{key: hot, operator: Exists, effect: NoExecute, tolerationSeconds: 90}]\n"
    "      containers",
)


def test_no_execute_taints_evict_when_tolerations_run_out() -> None:
    steps = (
        Step((add(TOLERANT),)),
        Step((taint("n0", "hot"), taint("n0", "closed", effect="NoSchedule")), at=10.0),
    )
    result = simulate(cluster(), Scenario(steps))
    assert result.evicted
    assert {each.at for each in result.evicted} == {100.0}
    assert nodes_of(result)["n0"] == 0


def test_an_untolerated_no_execute_taint_evicts_at_once() -> None:
    result = run(cluster(), add(WEB), taint("n0", "hot"))
    assert {each.at for each in result.evicted} == {0.0}
    assert all(each.cause == "NoExecute taint hot" for each in result.evicted)


def test_untainting_in_time_keeps_the_pods() -> None:
    steps = (
        Step((add(TOLERANT),)),
        Step((taint("*", "hot"),), at=10.0),
        Step((Untaint(("*",), "hot"),), at=60.0),
    )
    result = simulate(cluster(), Scenario(steps))
    assert result.evicted == ()
    assert result.counts.running == 4


def test_a_pod_that_comes_back_to_a_tainted_node_is_evicted_again_until_the_end() -> None:
    result = simulate(cluster(1), Scenario((Step((taint("*", "hot"),)), Step((add(TOLERANT, 1),))), until=400.0))
    assert [each.at for each in result.evicted] == [90.0, 180.0, 270.0, 360.0]
    assert result.seconds == 400.0


@dataclass(frozen=True)
class Helped:
    name: str
    selector: str
    change: tuple[Change, ...]


@pytest.mark.parametrize(
    "case",
    [
        Helped("a label that was missing", "nodeSelector: {tier: gold}", (Label(("n1",), "tier", "gold"),)),
        Helped(
            "nodes that come",
            "nodeSelector: {tier: gold}",
            (AddNodes(1, (builders.node("g", labels={"tier": "gold"}),)),),
        ),
        Helped("room that becomes free", "priority: null", (Remove("Deployment", "default", "web"),)),
        Helped("nodes that are opened again", "priority: null", (Cordon(("n2",), unschedulable=False),)),
        Helped("a taint that goes", "priority: null", (Cordon(("n2",), unschedulable=False), Untaint(("n2",), "x"))),
    ],
    ids=lambda case: case.name,
)
def test_a_waiting_pod_is_placed_by(case: Helped) -> None:
    pod = POD.replace("spec: {", f"spec: {{{case.selector}, ")
    before: tuple[Change, ...] = () if "gold" in case.selector else (Cordon(("n2",)), add(WEB, 8))
    if "taint" in case.name:
        before = (*before, taint("n2", "x", effect="NoSchedule"))
    assert run(cluster(), *before, add(pod)).counts.pending > 0
    result = run(cluster(), *before, add(pod), *case.change)
    assert "default/lone" in {each.pod for each in result.placements}


def test_a_removed_node_takes_its_pods_away_without_asking() -> None:
    result = run(cluster(3, "8"), add(WEB + "---" + STRICT), RemoveNodes(("n0",)))
    assert result.counts.nodes == 2
    assert {each.cause for each in result.evicted} == {"the node was removed"}
    assert nodes_of(result).total() == 4
    gone = next(node for node in result.nodes if node.name == "n0")
    assert gone.after is None


def test_added_nodes_get_the_pods_of_daemon_sets() -> None:
    result = run(cluster(1), add(DAEMON), AddNodes(4))
    assert result.counts.running == 5


def test_cordoned_nodes_get_no_more_pods() -> None:
    result = run(cluster(), Cordon(("n1", "n2")), add(WEB))
    assert nodes_of(result) == Counter(n0=4)


# -- preemption and rollouts


def test_important_pods_displace_others_and_are_reported() -> None:
    important = DATABASE.replace("containers:", "priorityClassName: important\n      containers:")
    result = run(cluster(1), add(WEB), add(IMPORTANT + "---" + important, 1))
    assert result.counts.preempted == 3
    assert {each.by for each in result.preempted} == {"default/db-0"}
    assert nodes_of(result, "StatefulSet default/db") == Counter(n0=1)
    assert result.counts.pending == 3  # the displaced come back, and wait


def test_preemption_spares_pods_whose_budget_is_exhausted() -> None:
    guarded = WEB.replace("web", "guarded")
    important = POD.replace("spec: {", "spec: {priorityClassName: important, ")
    result = run(
        cluster(2),
        add(guarded + "---" + BUDGET.replace("web", "guarded").replace("maxUnavailable: 1", "minAvailable: 4")),
        add(WEB),
        add(IMPORTANT + "---" + important),
    )
    assert {each.owner for each in result.preempted} == {"Deployment default/web"}


def test_a_changed_template_is_rolled_out_in_steps() -> None:
    changed = WEB.replace("web:1", "web:2")
    result = run(cluster(1, "5"), add(WEB), add(changed))
    assert result.counts.running == 4
    assert result.counts.pending == 0
    assert len({each.pod.rpartition("-")[0] for each in result.placements}) == 1  # all of the new ReplicaSet


def test_a_rollout_that_does_not_fit_gets_stuck_without_losing_the_old_pods() -> None:
    """No pod may be missing, and there is no room for another: as in a full cluster."""
    full = WEB.replace("  replicas: 4", "  replicas: 4\n  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")
    result = run(cluster(1, "4"), add(full), add(full.replace("web:1", "web:2")))
    assert (result.counts.running, result.counts.pending) == (4, 1)


def test_another_size_of_the_same_template_scales() -> None:
    assert run(cluster(), add(WEB), add(WEB, 9)).counts.running == 9
    assert run(cluster(), add(WEB), add(WEB, 2)).counts.running == 2


# -- volumes and devices

ZONAL = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
"""
CSI = """
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: NODE}
spec: {drivers: [{name: disks.example.com, nodeID: NODE, topologyKeys: [topology.kubernetes.io/zone]}]}
"""
STORED = (
    DATABASE.replace("replicas: 3", "replicas: 1")
    + """
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: zonal, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
)


def test_a_pod_with_a_volume_comes_back_where_the_volume_can_be_used() -> None:
    nodes = [builders.node(f"{zone}{number}", zone=zone) for zone in "ab" for number in range(2)]
    csi = [obj for node in nodes for obj in objects(CSI.replace("NODE", node.metadata.name))]
    snapshot = Snapshot("zones", [*nodes, *csi, *objects(ZONAL)])
    first = nodes_of(run(snapshot, add(STORED))).popitem()[0]
    result = run(snapshot, add(STORED), Drain((first,)))
    second = nodes_of(result).popitem()[0]
    assert second != first
    assert second[0] == first[0]
    both = run(snapshot, add(STORED), Drain((f"{first[0]}*",)))
    assert "volume node affinity conflict" in both.pending[0].message or "PersistentVolume" in both.pending[0].message


DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n0}
spec:
  driver: gpu.example.com
  nodeName: n0
  pool: {name: n0, generation: 1, resourceSliceCount: 1}
  devices: [{name: one}, {name: two}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
TRAINING = WEB.replace(
    "    spec:\n      containers: [{",
    "    spec:\n      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n      containers: [{",
).replace('{requests: {cpu: "1"}}', "{claims: [{name: gpu}]}")


def test_devices_are_used_up_and_come_free_again() -> None:
    result = run(cluster(), add(DEVICES), add(TRAINING, 3))
    assert (nodes_of(result), result.counts.pending) == (Counter(n0=2), 1)
    assert "cannot allocate all claims" in result.pending[0].message
    scaled = run(cluster(), add(DEVICES), add(TRAINING, 3), Remove("Deployment", "default", "web"), add(TRAINING, 2))
    assert (scaled.counts.running, scaled.counts.pending) == (2, 0)


# -- questions


def test_until_full_counts_what_fits_beside_what_is_there() -> None:
    result = run(cluster(), add(WEB), until_full=True)
    assert result.room is not None
    assert (result.room.workload, result.room.fits) == ("Deployment default/web", 8)
    assert "Insufficient cpu" in result.room.limit


def test_until_full_can_begin_with_none() -> None:
    result = run(cluster(), add(WEB, 0), until_full=True)
    assert result.room is not None
    assert result.room.fits == 12


def test_until_full_of_a_job_ends_with_its_completions() -> None:
    result = run(cluster(), add(JOB.replace("COMPLETION", "Indexed")), until_full=True)
    assert result.room is not None
    assert (result.room.fits, result.room.limit) == (2, "it is to have no more pods than these")


def test_until_full_displaces_no_pod() -> None:
    important = POD.replace("spec: {", "spec: {priorityClassName: important, ")
    result = run(cluster(1), add(WEB, 3), add(IMPORTANT + "---" + important, 0), until_full=True)
    assert result.room is not None
    assert (result.room.fits, result.counts.preempted) == (0, 0)


def test_until_full_needs_to_know_of_what() -> None:
    with pytest.raises(ScenarioError, match="no workload was added"):
        run(cluster(), until_full=True)
    with pytest.raises(ScenarioError, match="several workloads were added"):
        run(cluster(), add(WEB + "---" + DATABASE), until_full=True)


@dataclass(frozen=True)
class Impossible:
    name: str
    change: Change
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Impossible("a node that is not there", Drain(("n10",)), "step 1: there is no node n10; did you mean n1"),
        Impossible("a pattern that no node matches", Cordon(("gpu-*",)), "there is no node gpu-*"),
        Impossible(
            "an object that is not there", Remove("Deployment", "x", "y"), "there is no Deployment/y in the namespace x"
        ),
    ],
    ids=lambda case: case.name,
)
def test_an_impossible_step_is_refused_for(case: Impossible) -> None:
    with pytest.raises(ScenarioError) as refusal:
        run(cluster(), case.change)
    assert case.message in str(refusal.value)


def test_the_same_seed_gives_the_same_result_and_another_seed_another_one_among_equals() -> None:
    results = [run(cluster(20), add(WEB, 30), Drain(("n1*",)), seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0].placements != results[2].placements
    assert Counter(each.owner for each in results[0].placements) == Counter(
        each.owner for each in results[2].placements
    )


def test_two_configurations_are_compared() -> None:
    spreading = ("NodeResourcesBalancedAllocation", "PodTopologySpread")
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    packed = ProfileSpec(
        plugins=tuple(use for use in ProfileSpec().plugins if use.name not in spreading),
        arguments={"NodeResourcesFit": {"scoringStrategy": strategy}},
    )
    one = run(cluster(4), add(WEB, 4))
    other = run(cluster(4), add(WEB, 4), settings=Settings(profiles=(packed,), description="packed"))
    found = compare_results(one, other)
    assert len(nodes_of(one)) == 4
    assert len(nodes_of(other)) == 1
    assert (len(found.elsewhere), found.same, found.other_configuration) == (3, 1, "packed")


def test_an_interrupted_simulation_reports_what_is_known() -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    result = simulate(cluster(20, "32"), Scenario((Step((add(WEB, 600),)),)), report=interrupt)
    assert not result.is_complete
    assert result.counts.nodes == 20


@pytest.mark.parametrize("manifest", [DATABASE, DAEMON], ids=["a StatefulSet", "a DaemonSet"])
def test_a_changed_template_replaces_the_pods_one_by_one_of(manifest: str) -> None:
    changed = manifest.replace(":1", ":2")
    result = run(cluster(), add(manifest), add(changed))
    assert (result.counts.running, result.counts.pending) == (3, 0)
    assert len([each for each in result.placements if each.replaces]) == 3
    too_large = changed.replace('cpu: "3"', 'cpu: "5"').replace("cpu: 100m", 'cpu: "5"')
    stuck = run(cluster(), add(manifest), add(too_large))
    assert (stuck.counts.running, stuck.counts.pending) == (2, 1)  # the first does not come back, so the others stay


@dataclass(frozen=True)
class Update:
    """A template that fits nowhere: what is missing in the end is what was replaced at once."""

    name: str
    pace: str
    running: int
    pending: int
    emulation: str = "1.37"
    policy: str = "Parallel"
    first: int = 0


@pytest.mark.parametrize(
    "case",
    [
        Update("one, unless it says otherwise", "{}", 3, 1),
        Update("two", "{maxUnavailable: 2}", 2, 2),
        Update("a share, rounded down", "{maxUnavailable: 60%}", 2, 2),
        Update("never none", "{maxUnavailable: 10%}", 3, 1),
        Update("one where the gate is off", "{maxUnavailable: 2}", 3, 1, emulation="1.36"),
        Update("none below the partition", "{maxUnavailable: 4, partition: 3}", 3, 1),
        Update(
            "none below the partition of numbers that begin later", "{maxUnavailable: 4, partition: 3}", 3, 1, first=5
        ),
        Update(
            "two, of which in order only the lower one is made anew", "{maxUnavailable: 2}", 2, 1, policy="OrderedReady"
        ),
    ],
    ids=lambda case: case.name,
)
def test_as_many_pods_of_a_stateful_set_are_replaced_at_once_as_may_be_missing(case: Update) -> None:
    strategy = f"updateStrategy: {{type: RollingUpdate, rollingUpdate: {case.pace}}}"
    manifest = DATABASE.replace("replicas: 3", "replicas: 4").replace(
        "serviceName: db",
        f"serviceName: db\n  podManagementPolicy: {case.policy}\n  ordinals: {{start: {case.first}}}\n  {strategy}",
    )
    too_large = manifest.replace('cpu: "3"', 'cpu: "5"')
    settings = simulate_options.for_component(component.resolve(emulation=case.emulation))
    stuck = run(cluster(4), add(manifest), add(too_large), settings=settings)
    assert (stuck.counts.running, stuck.counts.pending) == (case.running, case.pending)
    smaller = manifest.replace('cpu: "3"', 'cpu: "2"')
    done = run(cluster(4), add(manifest), add(smaller), settings=settings)
    reached = 1 if "partition" in case.pace else 4
    assert len([each for each in done.placements if each.replaces == each.pod]) == reached


def test_pods_on_nodes_that_are_not_there_are_collected() -> None:
    lost = builders.pod("lost", cpu="1", on="gone")
    result = run(cluster(1, "4", lost))
    assert [(each.pod, each.cause) for each in result.evicted] == [("default/lost", "its node does not exist")]
    assert result.counts.pods == 0


def test_pods_that_are_being_deleted_are_gone_and_not_counted_twice() -> None:
    owner = {"ownerReferences": [{"apiVersion": "a/v1", "kind": "Thing", "name": "x", "uid": "u", "controller": True}]}
    going = builders.pod("going", on="n0", metadata={**owner, "deletionTimestamp": "2026-01-01T00:00:00Z"})
    staying = builders.pod("staying", on="n0", metadata=owner)
    result = run(cluster(1, "4", going, staying))
    assert (result.counts.pods, result.counts.placed) == (1, 0)


def test_workloads_of_which_there_are_only_pods_replace_them_by_their_like() -> None:
    owner = {"ownerReferences": [{"apiVersion": "a/v1", "kind": "Thing", "name": "x", "uid": "u", "controller": True}]}
    given = builders.pod("x-1", cpu="1", on="n0", metadata=owner, spec={"tolerations": [{"operator": "Exists"}]})
    result = run(cluster(2, "4", given), Drain(("n0",)))
    (placed,) = result.placements
    assert (placed.node, placed.replaces, placed.owner) == ("n1", "default/x-1", "Thing default/x")


def test_a_dump_without_replica_sets_does_not_double_the_pods_of_deployments() -> None:
    (deployment,) = objects(WEB)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "u", "controller": True}
    pods = [
        builders.pod(
            f"web-abc-{number}",
            cpu="1",
            on="n0",
            labels={"app": "web", "pod-template-hash": "abc"},
            metadata={"ownerReferences": [owner]},
        )
        for number in range(4)
    ]
    result = run(cluster(3, "4", deployment, *pods), Drain(("n0",)))
    assert (result.counts.pods, result.counts.evicted, nodes_of(result, "Deployment default/web").total()) == (4, 4, 4)
    assert run(cluster(3, "4", deployment, *pods), add(WEB, 6)).counts.running == 6


def test_the_replica_set_of_a_deployment_comes_back_when_it_is_removed() -> None:
    result = run(cluster(), add(WEB))
    name = result.placements[0].pod.removeprefix("default/").rpartition("-")[0]
    again = run(cluster(), add(WEB), Remove("ReplicaSet", "default", name))
    assert (again.counts.running, again.counts.evicted) == (4, 0)


@pytest.mark.parametrize("plural", ["nodes", "pods"])
def test_without_the_right_to_read_there_is_no_answer(plural: str) -> None:
    with pytest.raises(ScenarioError, match=f"the {plural} of a test could not be read \\(not allowed: by nobody\\)"):
        run(Snapshot("a test", missing={plural: "not allowed: by nobody"}))


def test_dates_and_seconds_at_the_end_of_the_calendar_do_no_harm() -> None:
    late = builders.pod("late", on="n1", metadata={"creationTimestamp": "9999-12-31T23:59:59Z"})
    patient = {"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**63 - 1}
    waits = builders.pod("waits", on="n0", spec={"tolerations": [patient]})
    leaves = builders.pod("leaves", on="n0")
    result = run(cluster(2, "4", late, waits, leaves), taint("n0", "hot"), until=10 * 365 * 86400.0)
    assert [each.pod for each in result.evicted] == ["default/leaves"]


# -- sizes and new nodes


def test_a_workload_is_scaled_and_new_pending_pods_are_marked() -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        },
    }
    web = builders.made(Deployment, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    snapshot = Snapshot("the test", [builders.node("a", cpu="2"), web, builders.pod("old", cpu="9")])
    result = simulate(snapshot, Scenario((Step((Scale("Deployment", "default", "web", 3),)),)))
    assert (result.counts.running, result.counts.newly_pending) == (2, 1)
    assert {(each.owner, each.is_new) for group in result.pending for each in group.pods} == {
        ("", False),
        ("Deployment default/web", True),
    }
    with pytest.raises(ScenarioError, match="scale: there is no Deployment/wed in the namespace default"):
        simulate(snapshot, Scenario((Step((Scale("Deployment", "default", "wed", 3),)),)))


def test_new_nodes_are_like_an_existing_one_or_say_what_is_assumed() -> None:
    cordoned = builders.node("gpu", cpu="2", labels={"pool": "gpu"}, taints=["node.kubernetes.io/not-ready:NoSchedule"])
    snapshot = Snapshot("the test", [cordoned, builders.pod("web", spec={"nodeSelector": {"pool": "gpu"}})])
    like = simulate(snapshot, Scenario((Step((AddNodes(2, like="gpu"),)),)))
    assert (like.counts.nodes, like.counts.running) == (3, 1)
    assert "add 2 nodes like gpu" in [moment.event for moment in like.timeline]
    assumed = simulate(snapshot, Scenario((Step((AddNodes(1),)),)))
    wanted = "add 1 nodes with 32 cpu and 128Gi memory, as nothing else is said (--like, --template)"
    assert wanted in [moment.event for moment in assumed.timeline]
