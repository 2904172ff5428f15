"""What people see of simulated nodes and of the pods on them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node, Pod
from mooring.base import component
from mooring.client import PatchType
from mooring.controllers.options import for_component
from mooring.controllers.simulated_nodes.templates import (
    TemplateError,
    build_numbered_nodes,
    create_nodes,
    read_templates,
)

pytestmark = pytest.mark.req("S.4")
FAILURE = "simulation.mooring.dev/failure"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("simulated-nodes", "simulated-pods", "node-lifecycle", "taint-eviction") as running:
        await create_nodes(running.client, build_numbered_nodes(3))
        await running.run(1)
        yield running


def rules(**wanted: str) -> dict[str, Any]:
    annotations = {f"simulation.mooring.dev/{name.replace('_', '-')}": text for name, text in wanted.items()}
    return {"annotations": annotations}


async def seen(plane: ControlPlane, name: str) -> Pod:
    found = await plane.find(Pod, name)
    assert found is not None
    return found


def states(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


async def node_of(plane: ControlPlane, name: str) -> Node:
    return await plane.client.get(Node, name)


def ready(node: Node) -> str:
    return next(condition.status for condition in node.status.conditions if condition.type == "Ready")


async def test_nodes_become_ready_and_lose_the_taint_of_new_nodes(plane: ControlPlane) -> None:
    nodes = (await plane.client.list(Node)).items
    assert [node.metadata.name for node in nodes] == ["node-0", "node-1", "node-2"]
    for node in nodes:
        assert ready(node) == "True"
        assert node.spec.taints == []
        assert node.spec.pod_cidr
        assert [address.type for address in node.status.addresses] == ["InternalIP", "Hostname"]
        assert str(node.status.allocatable["cpu"]) == "8"
    assert len({node.spec.pod_cidr for node in nodes}) == 3
    assert len({node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes}) == 3


async def test_a_node_that_kubectl_made_is_simulated_too(plane: ControlPlane) -> None:
    await plane.create(Node, metadata={"name": "mine", "annotations": {"simulation.mooring.dev/node": "true"}})
    await plane.run(1)
    node = await node_of(plane, "mine")
    assert (ready(node), node.spec.taints) == ("True", [])
    assert str(node.status.capacity["pods"]) == "110"
    assert node.metadata.labels["kubernetes.io/hostname"] == "mine"


async def test_leases_are_renewed_and_the_node_stays_ready(plane: ControlPlane) -> None:
    await plane.run(10)
    first = await plane.client.get(Lease, "node-0", "kube-node-lease")
    await plane.run(120)
    later = await plane.client.get(Lease, "node-0", "kube-node-lease")
    assert first.spec.renew_time is not None
    assert later.spec.renew_time is not None
    assert later.spec.renew_time > first.spec.renew_time
    assert ready(await node_of(plane, "node-0")) == "True"


async def test_a_pod_runs_as_soon_as_it_is_bound(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0", cpu="500m", spec={"initContainers": [{"name": "init", "image": "busybox"}]})
    await plane.run(0)
    pod = await seen(plane, "web")
    status = pod.status
    assert (status.phase, status.host_ip, status.pod_ip) == ("Running", status.host_ips[0].ip, status.pod_ips[0].ip)
    assert status.pod_ip.startswith("10.128.")
    assert states(pod) == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
    } | ({"PodScheduled": "True"} if "PodScheduled" in states(pod) else {})
    container = status.container_statuses[0]
    assert (container.ready, container.started, container.restart_count) == (True, True, 0)
    assert container.image == "docker.io/library/app:1"
    assert container.container_id.startswith("containerd://")
    assert str(container.allocated_resources["cpu"]) == "500m"
    init = status.init_container_statuses[0]
    assert init.state.terminated is not None
    assert init.state.terminated.reason == "Completed"
    started = [event.note for event in await plane.events("Started")]
    assert started == ["Container started: c"]


async def test_a_start_delay_shows_as_container_creating(plane: ControlPlane) -> None:
    await plane.pod("slow", on="node-0", metadata=rules(start_seconds="5"))
    await plane.run(0)
    pod = await seen(plane, "slow")
    waiting = pod.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (pod.status.phase, waiting.reason) == ("Pending", "ContainerCreating")
    await plane.run(5)
    assert (await seen(plane, "slow")).status.phase == "Running"


async def test_a_pod_that_has_done_its_work_succeeds(plane: ControlPlane) -> None:
    await plane.pod("task", on="node-0", metadata=rules(run_seconds="10"), spec={"restartPolicy": "Never"})
    await plane.run(9)
    assert (await seen(plane, "task")).status.phase == "Running"
    await plane.run(2)
    pod = await seen(plane, "task")
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert (pod.status.phase, ended.exit_code, ended.reason) == ("Succeeded", 0, "Completed")
    assert states(pod)["Ready"] == "False"


async def test_a_pod_that_fails_is_failed_with_its_exit_code(plane: ControlPlane) -> None:
    wanted = rules(run_seconds="1", failure_probability="1", exit_code="42")
    await plane.pod("task", on="node-0", metadata=wanted, spec={"restartPolicy": "Never"})
    await plane.run(3)
    pod = await seen(plane, "task")
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert (pod.status.phase, ended.exit_code, ended.reason) == ("Failed", 42, "Error")


async def test_a_container_that_keeps_failing_is_in_a_crash_loop(plane: ControlPlane) -> None:
    await plane.pod("bad", on="node-0", metadata=rules(run_seconds="1", failure_probability="1"))
    await plane.run(1)  # the first restart comes at once
    first = (await seen(plane, "bad")).status.container_statuses[0]
    assert (first.restart_count, first.state.running is not None) == (1, True)
    await plane.run(1)
    second = (await seen(plane, "bad")).status.container_statuses[0]
    assert second.state.waiting is not None
    assert (second.state.waiting.reason, second.ready) == ("CrashLoopBackOff", False)
    await plane.run(10)
    third = (await seen(plane, "bad")).status.container_statuses[0]
    assert (third.restart_count, third.state.running is not None) == (2, True)
    assert third.last_state.terminated is not None


async def test_a_pod_is_ready_when_its_probe_has_been_asked(plane: ControlPlane) -> None:
    probe = {"tcpSocket": {"port": 80}, "initialDelaySeconds": 10}
    await plane.pod("web", on="node-0", spec={"containers": [{"name": "c", "image": "app", "readinessProbe": probe}]})
    await plane.run(5)
    assert states(await seen(plane, "web"))["Ready"] == "False"
    await plane.run(6)
    assert states(await seen(plane, "web"))["Ready"] == "True"


async def test_an_active_deadline_ends_a_pod(plane: ControlPlane) -> None:
    await plane.pod("late", on="node-0", spec={"activeDeadlineSeconds": 20, "restartPolicy": "Never"})
    await plane.run(21)
    status = (await seen(plane, "late")).status
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")


async def test_a_deleted_pod_stops_within_its_grace_period(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0", metadata=rules(stop_seconds="5"))
    await plane.run(1)
    await plane.client.delete(Pod, "web", "default")
    await plane.run(4)
    assert await plane.find(Pod, "web") is not None
    await plane.run(2)
    assert await plane.find(Pod, "web") is None


@pytest.mark.req("N.10")
async def test_a_deleted_pod_is_no_longer_ready_before_it_goes(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0")
    await plane.run(1)
    began = (await seen(plane, "web")).metadata.resource_version
    await plane.client.delete(Pod, "web", "default")
    await plane.run(2)
    reported: list[tuple[str, str]] = []
    async with plane.client.watch(Pod, "default", resource_version=began) as watch:
        async for batch in watch:
            for event in batch:
                states = {condition.type: condition.status for condition in event.object.status.conditions}
                reported.append((event.type, states["Ready"]))
            if reported[-1][0] == "DELETED":
                break
    assert ("MODIFIED", "False") in reported
    assert reported[-1] == ("DELETED", "False")


async def test_a_deleted_pod_with_a_finalizer_shows_how_it_ended(plane: ControlPlane) -> None:
    await plane.pod(
        "task", on="node-0", metadata={"finalizers": ["example.com/count"]}, spec={"restartPolicy": "Never"}
    )
    await plane.run(1)
    await plane.client.delete(Pod, "task", "default")
    await plane.run(1)
    assert (await seen(plane, "task")).status.phase == "Failed"
    await plane.client.patch(Pod, "task", {"metadata": {"finalizers": None}}, "default", type=PatchType.MERGE)
    await plane.run(1)
    assert await plane.find(Pod, "task") is None


async def test_addresses_are_given_once_and_come_back(plane: ControlPlane) -> None:
    for number in range(20):
        await plane.pod(f"web-{number}", on="node-0")
    await plane.run(1)
    found = {(await seen(plane, f"web-{number}")).status.pod_ip for number in range(20)}
    assert len(found) == 20
    await plane.stop()
    await plane.start()
    await plane.pod("new", on="node-0")
    await plane.run(1)
    assert (await seen(plane, "new")).status.pod_ip not in found


async def test_images_of_pods_show_on_the_node(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0")
    await plane.run(32)
    images = (await node_of(plane, "node-0")).status.images
    assert [image.names[1] for image in images] == ["docker.io/library/app:1"]
    assert images[0].size_bytes > 0


async def test_a_rule_that_cannot_be_read_is_ignored_and_reported(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0", metadata=rules(run_seconds="soon"))
    await plane.run(1)
    assert (await seen(plane, "web")).status.phase == "Running"
    notes = [event.note for event in await plane.events("SimulationRuleIgnored")]
    assert notes == ["simulation.mooring.dev/run-seconds: 'soon' is not a number from 0 to 1e+09, and is ignored"]


async def fail(plane: ControlPlane, how: str | None) -> None:
    await plane.client.patch(Node, "node-0", {"metadata": {"annotations": {FAILURE: how}}}, type=PatchType.MERGE)
    await plane.run(1)


async def test_a_node_that_says_it_is_not_ready_is_tainted(plane: ControlPlane) -> None:
    await fail(plane, "not-ready")
    node = await node_of(plane, "node-0")
    assert ready(node) == "False"
    assert {(taint.key, taint.effect) for taint in node.spec.taints} == {
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    }
    await fail(plane, None)
    node = await node_of(plane, "node-0")
    assert (ready(node), node.spec.taints) == ("True", [])


async def test_a_node_that_falls_silent_loses_its_pods_after_their_time(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0")
    await plane.run(1)
    await fail(plane, "unreachable")
    await plane.run(40)
    assert ready(await node_of(plane, "node-0")) == "True"
    await plane.run(30)
    node = await node_of(plane, "node-0")
    assert ready(node) == "Unknown"
    assert {taint.key for taint in node.spec.taints} == {"node.kubernetes.io/unreachable"}
    assert states(await seen(plane, "web"))["Ready"] == "False"
    await plane.run(270)
    assert await plane.alive("web")  # by the default toleration of 300 s
    await plane.run(40)
    assert not await plane.alive("web")
    assert await plane.find(Pod, "web") is not None  # there is no controller to stop it
    await fail(plane, None)
    assert await plane.find(Pod, "web") is None
    assert ready(await node_of(plane, "node-0")) == "True"


async def test_a_cordoned_node_is_tainted(plane: ControlPlane) -> None:
    await plane.client.patch(Node, "node-0", {"spec": {"unschedulable": True}})
    await plane.run(0)
    taints = (await node_of(plane, "node-0")).spec.taints
    assert [(taint.key, taint.effect) for taint in taints] == [("node.kubernetes.io/unschedulable", "NoSchedule")]
    await plane.client.patch(Node, "node-0", {"spec": {"unschedulable": False}})
    await plane.run(0)
    assert (await node_of(plane, "node-0")).spec.taints == []


async def test_pressure_becomes_a_taint_and_taints_of_others_stay(plane: ControlPlane) -> None:
    await plane.create(Node, metadata={"name": "real"}, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    await plane.client.patch(Node, "real", {"status": {"conditions": conditions}}, subresource="status")
    await plane.run(0)
    taints = (await node_of(plane, "real")).spec.taints
    assert [(taint.key, taint.effect) for taint in taints] == [
        ("a", "NoSchedule"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ]


async def test_a_node_that_never_reported_is_unknown_after_a_minute(plane: ControlPlane) -> None:
    await plane.create(Node, metadata={"name": "real"})
    await plane.run(50)
    assert (await node_of(plane, "real")).status.conditions == []
    await plane.run(30)
    node = await node_of(plane, "real")
    assert {(found.status, found.reason) for found in node.status.conditions} == {("Unknown", "NodeStatusNeverUpdated")}


TEMPLATE = """
kind: Node
apiVersion: v1
metadata:
  name: gpu
  annotations: {simulation.mooring.dev/count: "2"}
  labels: {accelerator: a100}
spec:
  taints: [{key: gpu, effect: NoSchedule}]
status:
  capacity: {cpu: "64"}
---
kind: Node
apiVersion: v1
metadata: {name: single}
"""


SAYS = "simulation.mooring.dev/kubelet-version"
OLD_AND_NEW = f"""
kind: Node
metadata: {{name: usual}}
---
kind: Node
metadata: {{name: behind, annotations: {{{SAYS}: "1.34"}}}}
---
kind: Node
metadata: {{name: exact, annotations: {{{SAYS}: v1.35.2-gke.1}}}}
---
kind: Node
metadata: {{name: own}}
status: {{nodeInfo: {{kubeletVersion: v1.30.9, osImage: Talos}}}}
"""


async def kubelets(plane: ControlPlane) -> dict[str, str]:
    return {node.metadata.name: node.status.node_info.kubelet_version for node in (await plane.client.list(Node)).items}


@pytest.mark.req("4330.10")
async def test_kubelets_are_of_the_emulated_version_unless_their_template_says_otherwise() -> None:
    before = for_component(component.resolve(emulation="1.36"))
    wanted = {"usual": "v1.36.0", "behind": "v1.34.0", "exact": "v1.35.2-gke.1", "own": "v1.30.9"}
    async with control_plane("simulated-nodes", options=before) as plane:
        await create_nodes(plane.client, read_templates(OLD_AND_NEW), before.kubelet)
        await plane.create(Node, metadata={"name": "made", "annotations": {"simulation.mooring.dev/node": "true"}})
        await plane.run(1)
        assert await kubelets(plane) == {**wanted, "made": "v1.36.0"}
        behind = await node_of(plane, "behind")
        assert behind.status.declared_features == []
        await plane.stop()
        plane.options = for_component(component.resolve(emulation="1.35"))
        await plane.start()
        await plane.run(1)
        assert await kubelets(plane) == {**wanted, "usual": "v1.35.0", "made": "v1.35.0"}


def test_templates_stand_for_nodes() -> None:
    nodes = read_templates(TEMPLATE)
    assert [node.metadata.name for node in nodes] == ["gpu-0", "gpu-1", "single"]
    assert nodes[1].metadata.labels["kubernetes.io/hostname"] == "gpu-1"
    assert nodes[0].metadata.annotations == {"simulation.mooring.dev/node": "true"}
    assert str(nodes[0].status.capacity["cpu"]) == "64"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Pod", "line 1: a node template is a manifest of kind Node"),
        ("kind: Node", "line 1: metadata.name: Required value"),
        ("kind: Node\nmetadata: {name: a}\nspec: {tants: []}", 'unknown field "spec.tants"'),
        ("kind: Node\nmetadata: [", "line"),
        (
            "kind: Node\nmetadata: {name: a, annotations: {simulation.mooring.dev/count: many}}",
            "line 1: simulation.mooring.dev/count: 'many' is not a number from 0 to 100000",
        ),
        (
            "kind: Node\nmetadata: {name: a, annotations: {simulation.mooring.dev/kubelet-version: new}}",
            "line 1: simulation.mooring.dev/kubelet-version: 'new' is not a version such as 1.36 or v1.36.2",
        ),
        ("kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: a}", "several nodes have the same name"),
    ],
    ids=["another kind", "no name", "an unknown field", "broken YAML", "no count", "no version", "a name twice"],
)
def test_a_bad_template_is_reported(text: str, complaint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        read_templates(text)
    assert complaint in str(caught.value)


# -- what containers run


def container(*command: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox:1", "command": list(command), **fields}


def spec(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"containers": list(containers), "restartPolicy": "Never", **fields}


async def test_a_container_ends_as_its_command_says(plane: ControlPlane) -> None:
    await plane.pod("short", on="node-0", spec=spec(container("sh", "-c", "sleep 20; exit 3")))
    await plane.pod("fine", on="node-0", spec=spec(container("true")))
    await plane.pod("endless", on="node-0", spec=spec(container("sleep", "100000")))
    await plane.run(15)
    assert [(await seen(plane, name)).status.phase for name in ("short", "fine", "endless")] == [
        "Running",
        "Succeeded",
        "Running",
    ]
    await plane.run(10)
    short = await seen(plane, "short")
    assert short.status.phase == "Failed"
    ended = short.status.container_statuses[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (3, "Error")


async def test_containers_end_each_with_its_own_code_and_the_pod_with_the_last(plane: ControlPlane) -> None:
    two = spec(container("false"), {**container("sh", "-c", "sleep 5"), "name": "d"})
    await plane.pod("two", on="node-0", spec=two)
    await plane.run(3)
    assert (await seen(plane, "two")).status.phase == "Running"
    await plane.run(5)
    pod = await seen(plane, "two")
    codes = [status.state.terminated.exit_code for status in pod.status.container_statuses if status.state.terminated]
    assert (pod.status.phase, codes) == ("Failed", [1, 0])


async def test_a_container_that_is_started_again_finds_what_it_left_in_a_volume(plane: ControlPlane) -> None:
    once = "if [ -r /data/mark ]; then exit 0; fi; touch /data/mark; exit 1"
    mounts = [{"name": "data", "mountPath": "/data"}]
    fields = {"volumes": [{"name": "data", "emptyDir": {}}], "restartPolicy": "OnFailure"}
    await plane.pod("once", on="node-0", spec=spec(container("sh", "-c", once, volumeMounts=mounts), **fields))
    await plane.run(5)
    pod = await seen(plane, "once")
    assert (pod.status.phase, pod.status.container_statuses[0].restart_count) == ("Succeeded", 1)


async def test_files_on_a_host_are_for_the_pods_of_that_host(plane: ControlPlane) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "data", "hostPath": {"path": "/srv"}}]
    reader = container("sh", "-c", "cat /data/mark", volumeMounts=mounts)
    writer = container("sh", "-c", "echo $MARK > /data/mark", volumeMounts=mounts, env=[{"name": "MARK", "value": "x"}])
    await plane.pod("writer", on="node-0", spec=spec(writer, volumes=volumes))
    await plane.run(1)
    await plane.pod("same", on="node-0", spec=spec(reader, volumes=volumes))
    await plane.pod("other", on="node-1", spec=spec(reader, volumes=volumes))
    await plane.run(1)
    assert (await seen(plane, "same")).status.phase == "Succeeded"
    assert (await seen(plane, "other")).status.phase == "Failed"


async def test_annotations_have_the_last_word_over_commands(plane: ControlPlane) -> None:
    await plane.pod("told", on="node-0", spec=spec(container("false")), metadata=rules(run_seconds="30"))
    await plane.run(10)
    assert (await seen(plane, "told")).status.phase == "Running"
    await plane.run(30)
    assert (await seen(plane, "told")).status.phase == "Succeeded"


async def test_a_pod_of_a_job_that_only_pauses_does_not_end(plane: ControlPlane) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    for name, image in (("pauses", "registry.k8s.io/pause:3.10"), ("works", "app:1")):
        wanted = {"containers": [{"name": "c", "image": image}], "restartPolicy": "Never"}
        await plane.pod(name, on="node-0", spec=wanted, metadata={"ownerReferences": [owner]})
    await plane.run(10)
    assert (await seen(plane, "pauses")).status.phase == "Running"
    assert (await seen(plane, "works")).status.phase == "Succeeded"


async def test_an_image_that_does_not_exist_keeps_a_pod_waiting_until_it_has_another(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0", spec={"containers": [{"name": "c", "image": "web:404"}]})
    await plane.run(5)
    pod = await seen(plane, "web")
    waiting = pod.status.container_statuses[0].state.waiting
    assert (pod.status.phase, waiting and waiting.reason) == ("Pending", "ImagePullBackOff")
    assert [event.note for event in await plane.events("Failed")] == ['Failed to pull image "web:404": not found']
    await plane.client.patch(Pod, "web", {"spec": {"containers": [{"name": "c", "image": "web:1"}]}}, "default")
    await plane.run(1)
    assert (await seen(plane, "web")).status.phase == "Running"


async def test_an_init_container_that_fails_ends_a_pod_that_is_never_restarted(plane: ControlPlane) -> None:
    inits = [{**container("true"), "name": "one"}, {**container("false"), "name": "two"}]
    await plane.pod("web", on="node-0", spec=spec(container("true"), initContainers=inits))
    await plane.run(2)
    pod = await seen(plane, "web")
    ended = [
        status.state.terminated.exit_code for status in pod.status.init_container_statuses if status.state.terminated
    ]
    assert (pod.status.phase, ended) == ("Failed", [0, 1])
    assert pod.status.container_statuses[0].state.waiting is not None
    reported = {condition.type: condition.message for condition in pod.status.conditions}
    assert reported["Initialized"] == "containers with incomplete status: [two]"


async def test_an_init_container_that_fails_is_started_again_until_it_succeeds(plane: ControlPlane) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    script = "touch /data/a; if [ -e /data/go ]; then exit 0; fi; exit 1"
    inits = [{**container("sh", "-c", script, volumeMounts=mounts), "name": "one"}]
    volumes = [{"name": "data", "hostPath": {"path": "/srv"}}]
    fields = {"initContainers": inits, "volumes": volumes, "restartPolicy": "Always"}
    await plane.pod("web", on="node-0", spec=spec(container("sleep", "1000"), **fields))
    await plane.run(35)
    pod = await seen(plane, "web")
    (status,) = pod.status.init_container_statuses
    assert (pod.status.phase, status.restart_count) == ("Pending", 3)
    assert status.state.waiting is not None
    assert status.state.waiting.reason == "CrashLoopBackOff"
    go = spec(container("touch", "/data/go", volumeMounts=mounts), volumes=volumes)
    await plane.pod("go", on="node-0", spec=go)
    await plane.run(60)
    pod = await seen(plane, "web")
    assert (pod.status.phase, states(pod)["Initialized"]) == ("Running", "True")


async def test_a_container_that_is_put_into_a_running_pod_runs(plane: ControlPlane) -> None:
    await plane.pod("web", on="node-0")
    await plane.run(1)
    for name in ("debugger", "another"):
        body = {"spec": {"ephemeralContainers": [{"name": name, "image": "busybox", "targetContainerName": "c"}]}}
        await plane.client.patch(Pod, "web", body, "default", subresource="ephemeralcontainers")
        await plane.run(1)
    statuses = (await seen(plane, "web")).status.ephemeral_container_statuses
    assert {status.name: status.state.running is not None for status in statuses} == {"debugger": True, "another": True}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        pytest.param({"ports": [{"containerPort": 80, "hostPort": 80}]}, None, "NodePorts", id="a port that is taken"),
        pytest.param({"resources": {"requests": {"cpu": "5"}}}, None, "OutOfcpu", id="more than what is left"),
        pytest.param(
            {"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]},
            {"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}]},
            "",
            id="the same port of another address is free",
        ),
    ],
)
async def test_a_node_takes_no_pod_that_does_not_fit_beside_the_others(
    plane: ControlPlane, first: dict[str, Any], second: dict[str, Any] | None, reason: str
) -> None:
    await plane.pod("first", on="node-0", spec={"containers": [{"name": "c", "image": "i", **first}]})
    await plane.run(1)
    await plane.pod("second", on="node-0", spec={"containers": [{"name": "c", "image": "i", **(second or first)}]})
    await plane.run(2)
    pod = await seen(plane, "second")
    assert (pod.status.phase, pod.status.reason) == (("Failed", reason) if reason else ("Running", ""))
